// Histograms, from one byte for each pair, in which larger numbers have larger bytes; included by what is compiled for
// each set of instructions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel.hpp"
#include "vectors.hpp"

namespace opdiff {
namespace {

// What is kept of every pair of a block.
struct Scratch {
    alignas(64) int32_t relative[kBlock];
    alignas(64) int8_t relative_bytes[kBlock];
    alignas(64) int8_t ulp_bytes[kBlock];
};

// The byte of a relative error is the upper half of its exponent: one edge for each factor of four, from 2^-27 on.
constexpr int kRelativeEdge = 50, kRelativeEdges = OD_RELATIVE_BINS - 2;
// The byte of a distance is its exponent; one edge for each factor of two, from one half on.
constexpr int kUlpEdge = -2, kUlpEdges = OD_ULP_BINS - 2;

// Edges that are counted together: that costs little more than one does.
constexpr int kTogether = 2;

// How many of `n` bytes are not below each of the edges, which are `first` and those behind it. The highest come first:
// there are none above `top`, the largest byte, and when all bytes are above one, they are above the lower ones, too.
void count_from(const int8_t *bytes, int n, int first, int edges, int top, int *counts) {
    int left = std::clamp(top - first + 1, 0, edges);
    std::fill(counts + left, counts + edges, 0);
    for (bool all = false; left > 0 && !all;) {
        Bytes sums[kTogether] = {}, limits[kTogether];
        for (int k = 0; k < kTogether; ++k)
            limits[k] = Bytes{} + static_cast<int8_t>(first + std::max(left - 1 - k, 0) - 1);
        for (int i = 0; i < n; i += kWidth) {
            const Bytes values = load<Bytes>(bytes + i);
            for (int k = 0; k < kTogether; ++k)
                count(sums[k], values > limits[k]);
        }
        for (int k = 0; k < kTogether && left > 0; ++k) {
            counts[--left] = total(sums[k]);
            all = counts[left] == n;
        }
    }
    std::fill(counts, counts + left, n);
}

// How many of `n` bytes are zero.
int count_zeros(const int8_t *bytes, int n) {
    Bytes sum = {};
    for (int i = 0; i < n; i += kWidth)
        count(sum, load<Bytes>(bytes + i) > Bytes{});
    return n - total(sum);
}

// How many bytes are between the edges. Bin 0 is up to the caller, and what it takes from bin 1.
void fill_bins(const int8_t *bytes, int n, int first, int edges, int top, int64_t *bins) {
    int counts[std::max(kRelativeEdges, kUlpEdges)];
    count_from(bytes, n, first, edges, top, counts);
    int above = n;
    for (int k = 0; k < edges; ++k) {
        bins[k + 1] = above - counts[k];
        above = counts[k];
    }
    bins[edges + 1] = above;
}

void fill_relative_bins(const int8_t *bytes, int n, int top, Block &block) {
    fill_bins(bytes, n, kRelativeEdge, kRelativeEdges, top, block.relative_bins);
}

void fill_ulp_bins(const int8_t *bytes, int n, int top, Block &block) {
    fill_bins(bytes, n, kUlpEdge, kUlpEdges, top, block.ulp_bins);
}

// Takes what is equal, or has no relative error, out of the bins of small errors.
void set_equal(Block &block) {
    int64_t *bins = block.relative_bins;
    bins[0] = block.equal;
    bins[1] -= block.equal + block.zero_golden;
    bins[OD_RELATIVE_BINS - 1] += block.zero_golden;
    block.over_1_permille += block.zero_golden;
    block.over_5_permille += block.zero_golden;
    block.ulp_bins[0] = block.equal;
    block.ulp_bins[1] -= block.equal;
}

}  // namespace
}  // namespace opdiff

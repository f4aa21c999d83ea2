// Histograms of errors from one byte per pair; larger errors have larger bytes. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel.hpp"
#include "vectors.hpp"

namespace opdiff {
namespace {

// Per-pair values of one block.
struct Scratch {
    alignas(64) int32_t relative[kBlock];
    alignas(64) int8_t relative_bytes[kBlock];
    alignas(64) int8_t ulp_bytes[kBlock];
};

// The byte of a relative error is its exponent without the last bit: one edge per factor of four, from 2^-27 on.
constexpr int kRelativeEdge = 50, kRelativeEdges = OD_RELATIVE_BINS - 2;
// The byte of a distance is its exponent: one edge per factor of two, from 1/2 on.
constexpr int kUlpEdge = -2, kUlpEdges = OD_ULP_BINS - 2;

// Edges counted in one pass, which costs little more than one edge.
constexpr int kEdgesAtOnce = 2;

// Number of bytes at or above each edge `first`, `first + 1`, …. Counts from the highest edge down: no byte is above
// `top`, and once all bytes are above an edge, they are above all lower ones.
void count_at_least(const int8_t *bytes, int n, int first, int edges, int top, int *counts) {
    int left = std::clamp(top - first + 1, 0, edges);
    std::fill(counts + left, counts + edges, 0);
    for (bool all = false; left > 0 && !all;) {
        Bytes sums[kEdgesAtOnce] = {}, limits[kEdgesAtOnce];
        for (int k = 0; k < kEdgesAtOnce; ++k)
            limits[k] = Bytes{} + static_cast<int8_t>(first + std::max(left - 1 - k, 0) - 1);
        for (int i = 0; i < n; i += kWidth) {
            const Bytes values = load<Bytes>(bytes + i);
            for (int k = 0; k < kEdgesAtOnce; ++k)
                count(sums[k], values > limits[k]);
        }
        for (int k = 0; k < kEdgesAtOnce && left > 0; ++k) {
            counts[--left] = total(sums[k]);
            all = counts[left] == n;
        }
    }
    std::fill(counts, counts + left, n);
}

// Number of zero bytes.
int count_zeros(const int8_t *bytes, int n) {
    Bytes sum = {};
    for (int i = 0; i < n; i += kWidth)
        count(sum, load<Bytes>(bytes + i) > Bytes{});
    return n - total(sum);
}

// Number of bytes between edges. The caller fills bin 0 and subtracts it from bin 1.
void fill_bins(const int8_t *bytes, int n, int first, int edges, int top, int64_t *bins) {
    int counts[std::max(kRelativeEdges, kUlpEdges)];
    count_at_least(bytes, n, first, edges, top, counts);
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

// Moves equal pairs to bin 0, and pairs with a golden zero to the last bin.
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

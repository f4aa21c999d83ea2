// First pass over one block in single precision. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "prefetch.hpp"
#include "histograms.hpp"
#include "kernel.hpp"
#include "ranking.hpp"
#include "vectors.hpp"

namespace opdiff {
namespace {

constexpr int32_t kAbs = 0x7fffffff;

// Floats per iteration: four vectors, whose exponents fill one vector of bytes.
constexpr int kStep = 4 * kFloats;

// Floats that are summed in single precision before the sum is widened.
constexpr int kTerms = 16 * kStep;

// Bits `First` … `First + 7` of each word, moved to byte `Place`.
template <int First, int Place> Words byte_at(Words word) {
    constexpr int kShift = First - 8 * Place;
    const Words moved = kShift > 0 ? word >> std::max(kShift, 0) : word << std::max(-kShift, 0);
    return First == 24 && Place == 0 ? moved : moved & (0xffu << (8 * Place));
}

void add_products(const float *x_, const float *y_, int padded, const PrefetchStreams &ahead, Block &block) {
    Doubles xx = {}, yy = {}, xy = {}, dd = {}, sx = {}, sy = {}, sd = {};
    for (int start = 0; start < padded; start += kStep) {
        // `add_errors` prefetches the rest.
        prefetch(ahead.x, start, kStep);
        prefetch(ahead.y, start / 2, kStep / 2);
        for (int i = start; i < start + kStep; i += kDoubles) {
            const Doubles x = widen(x_ + i), y = widen(y_ + i);
            const Doubles d = x - y;
            xx += x * x;
            yy += y * y;
            xy += x * y;
            dd += d * d;
            sx += x;
            sy += y;
            sd += d;
        }
    }
    block.xx = total(xx);
    block.yy = total(yy);
    block.xy = total(xy);
    block.dd = total(dd);
    block.x = total(sx);
    block.y = total(sy);
    block.errors = total(sd);
}

struct Maxima {
    int32_t error, relative, ulps;
};

Maxima add_errors(const float *x_, const float *y_, int padded, UlpBits scale, const PrefetchStreams &ahead,
                  Scratch &scratch, Block &block) {
    Ints worst = {}, worst_relative = {}, worst_ulps = Ints{} - scale.shift;
    Floats min_x = load<Floats>(x_), max_x = min_x, min_y = load<Floats>(y_), max_y = min_y;
    const Ints lowest = Ints{} + scale.lowest;
    // The exponent of an error is at most 1 above and 254 below that of the larger number: biased by 126 it fits in a
    // byte and keeps the order. The unit then determines which byte stands for 1 ULP.
    const int unit = (scale.shift >> 23) - 254;
    const Bytes offset = Bytes{} + static_cast<int8_t>(unit), floor = Bytes{} + static_cast<int8_t>(-128 - unit);
    const Floats small = Floats{} + kFloatZeroThreshold;
    block.error_sizes = block.relative = 0;
    for (int start = 0; start < padded; start += kTerms) {
        Floats sizes = {}, quotients = {};
        for (int i = start; i < std::min(start + kTerms, padded); i += kStep) {
            prefetch(ahead.y, (padded + i) / 2, kStep / 2);
            Words relative_bytes = {}, ulp_bytes = {};
            const auto step = [&](auto place) {
                constexpr int kPlace = decltype(place)::value;
                const int at = i + kPlace * kFloats;
                const Floats x = load<Floats>(x_ + at), y = load<Floats>(y_ + at);
                const Ints size = (Ints)(x - y) & kAbs, golden = (Ints)y & kAbs;
                const Ints larger = largest((Ints)x & kAbs, golden);
                const Ints counted = (Floats)golden > small;
                const Ints quotient = (Ints)((Floats)size / (Floats)golden) & counted;
                const Ints ulps = size - (largest(larger, lowest) & kExponent);
                sizes += (Floats)size;
                quotients += (Floats)quotient;
                min_x = x < min_x ? x : min_x;
                max_x = x > max_x ? x : max_x;
                min_y = y < min_y ? y : min_y;
                max_y = y > max_y ? y : max_y;
                worst = largest(size, worst);
                worst_relative = largest(quotient, worst_relative);
                worst_ulps = largest(ulps, worst_ulps);
                store(scratch.relative + at, quotient);
                relative_bytes |= byte_at<24, kPlace>((Words)quotient);
                ulp_bytes |= byte_at<23, kPlace>((Words)ulps);
            };
            step(std::integral_constant<int, 0>{});
            step(std::integral_constant<int, 1>{});
            step(std::integral_constant<int, 2>{});
            step(std::integral_constant<int, 3>{});
            store(scratch.relative_bytes + i, relative_bytes);
            store(scratch.ulp_bytes + i, largest((Bytes)((Octets)ulp_bytes + uint8_t{126}), floor) + offset);
        }
        block.error_sizes += total(sizes);
        block.relative += total(quotients);
    }
    float low_x = min_x[0], high_x = max_x[0], low_y = min_y[0], high_y = max_y[0];
    for (int i = 1; i < kFloats; ++i) {
        low_x = std::min(low_x, min_x[i]);
        high_x = std::max(high_x, max_x[i]);
        low_y = std::min(low_y, min_y[i]);
        high_y = std::max(high_y, max_y[i]);
    }
    block.min_x = static_cast<double>(low_x);
    block.max_x = static_cast<double>(high_x);
    block.min_y = static_cast<double>(low_y);
    block.max_y = static_cast<double>(high_y);
    const int32_t error = largest_of(worst);
    return {error, largest_of(worst_relative), error ? std::max(largest_of(worst_ulps) + scale.shift, 0) : 0};
}

// Number of pairs whose relative error is at least `limit`.
int count_over(const int32_t *relative, int n, int32_t largest_relative, float limit) {
    if (largest_relative < bits_of(limit))
        return 0;
    Ints counts = {};
    for (int i = 0; i < n; i += kFloats)
        count(counts, load<Ints>(relative + i) >= bits_of(limit));
    return total(counts);
}

// Number of pairs with a golden zero and another target; `has_tiny`: both numbers of some such pair are tiny.
int count_zero_golden(const float *x_, const float *y_, int n, bool &has_tiny) {
    Ints zeros = {}, tiny = {};
    for (int i = 0; i < n; i += kFloats) {
        const Floats x = load<Floats>(x_ + i), y = load<Floats>(y_ + i);
        const Ints x_bits = (Ints)x & kAbs, y_bits = (Ints)y & kAbs;
        const Ints found = (y_bits <= bits_of(kFloatZeroThreshold)) & (x != y);
        count(zeros, found);
        tiny |= found & (largest(x_bits, y_bits) < ((kMinFloatExponent + 127) << 23));
    }
    has_tiny = total(tiny) != 0;
    return total(zeros);
}

void finish_bins(const float *x, const float *y, int n, const Scratch &scratch, const Maxima &most, Block &block) {
    fill_relative_bins(scratch.relative_bytes, n, most.relative >> 24, block);
    fill_ulp_bins(scratch.ulp_bytes, n, (most.ulps >> 23) - 128, block);
    const int zeros = block.relative_bins[1] ? count_zeros(scratch.relative_bytes, n) : 0;
    if (zeros) {
        // These pairs are equal, or their golden value counts as zero.
        bool has_tiny = false;
        block.zero_golden = count_zero_golden(x, y, n, has_tiny);
        block.equal = zeros - block.zero_golden;
        block.overflowed |= has_tiny;
    }
    set_equal(block);
}

// Differences are computed in the loops: cheaper than loading them.
void measure_floats(const float *x, const float *y, const float *, int n, UlpScale scale, const PrefetchStreams &ahead,
                    Block &block) {
    Scratch scratch;
    const int padded = (n + kStep - 1) / kStep * kStep;
    add_products(x, y, padded, ahead, block);
    const Maxima most = add_errors(x, y, padded, ulp_bits(scale), ahead, scratch, block);
    if (padded != n) {
        // Exclude the zeros of the padding.
        find_range(x, n, block.min_x, block.max_x);
        find_range(y, n, block.min_y, block.max_y);
    }
    block.worst = static_cast<double>(float_of(most.error));
    block.worst_relative = static_cast<double>(float_of(most.relative));
    block.worst_ulps = static_cast<double>(float_of(most.ulps));
    block.overflowed = !std::isfinite(block.error_sizes + block.relative);
    block.equal = block.zero_golden = 0;
    block.over_1_permille = count_over(scratch.relative, n, most.relative, 0.001f);
    block.over_5_permille = count_over(scratch.relative, n, most.relative, 0.005f);
    finish_bins(x, y, n, scratch, most, block);
}

}  // namespace
}  // namespace opdiff

// First pass over one block in double precision. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "histograms.hpp"
#include "kernel.hpp"
#include "ranking.hpp"
#include "vectors.hpp"

namespace opdiff {
namespace {

// Biased exponent of a number as a float has it, clamped to the range of floats.
inline int64_t float_exponent(double number) {
    const int64_t exponent = exponent_of(number) + 127;
    return exponent < 0 ? 0 : exponent > 254 ? 254 : exponent;
}

// Fills the exponent bytes of all pairs and of the padding; returns the largest distance in ULPs.
template <bool Single>
double set_bytes(const double *x, const double *y, const double *errors, int n, UlpScale scale, Scratch &scratch) {
    double worst = 0;
#pragma omp simd reduction(max : worst)
    for (int i = 0; i < n; ++i) {
        const double size = std::fabs(errors[i]);
        const double ulps = ulps_between(x[i], y[i], ranked_error<Single>(size), scale);
        worst = ulps > worst ? ulps : worst;
        scratch.relative_bytes[i] = static_cast<int8_t>(float_exponent(ranked_relative_error<Single>(size, y[i])) / 2);
        scratch.ulp_bytes[i] = static_cast<int8_t>(float_exponent(ulps) - 128);
    }
    const int64_t padded = ceil_div(n, kWidth) * kWidth;
    std::fill(scratch.relative_bytes + n, scratch.relative_bytes + padded, int8_t{0});
    std::fill(scratch.ulp_bytes + n, scratch.ulp_bytes + padded, int8_t{-128});
    return worst;
}

template <bool Single>
void measure_ranked(const double *x_, const double *y_, const double *errors_, int n, UlpScale scale, Block &block) {
    constexpr double kOne = Single ? double{0.001f} : 0.001, kFive = Single ? double{0.005f} : 0.005;
    Scratch scratch;
    double xx = 0, yy = 0, xy = 0, dd = 0, sx = 0, sy = 0, errors = 0, sizes = 0, quotients = 0;
    double worst = 0, worst_relative = 0;
    int over_one = 0, over_five = 0, equal = 0, zero_golden = 0;
#pragma omp simd reduction(+ : xx, yy, xy, dd, sx, sy, errors, sizes, quotients, over_one, over_five)                  \
    reduction(+ : equal, zero_golden) reduction(max : worst, worst_relative)
    for (int i = 0; i < n; ++i) {
        const double x = x_[i], y = y_[i], d = errors_[i], size = std::fabs(d);
        const double relative = relative_error(size, y), quotient = ranked_relative_error<Single>(size, y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
        dd += d * d;
        sx += x;
        sy += y;
        errors += d;
        sizes += size;
        quotients += relative;
        worst = size > worst ? size : worst;
        worst_relative = relative > worst_relative ? relative : worst_relative;
        over_one += quotient >= kOne;
        over_five += quotient >= kFive;
        equal += size == 0;
        zero_golden += !(std::fabs(y) > kZeroThreshold) & (size != 0);
    }
    block.xx = xx, block.yy = yy, block.xy = xy, block.dd = dd;
    block.x = sx, block.y = sy, block.errors = errors, block.error_sizes = sizes, block.relative = quotients;
    find_range(x_, n, block.min_x, block.max_x);
    find_range(y_, n, block.min_y, block.max_y);
    block.worst = worst, block.worst_relative = worst_relative;
    block.worst_ulps = set_bytes<Single>(x_, y_, errors_, n, scale, scratch);
    block.equal = equal, block.zero_golden = zero_golden;
    block.over_1_permille = over_one, block.over_5_permille = over_five;
    block.overflowed = false;
    fill_relative_bins(scratch.relative_bytes, n, 127, block);
    fill_ulp_bins(scratch.ulp_bytes, n, 127, block);
    set_equal(block);
}

void measure_doubles(const double *x, const double *y, const double *errors, int n, UlpScale scale,
                     const PrefetchStreams &, Block &block) {
    if (scale.single)
        measure_ranked<true>(x, y, errors, n, scale, block);
    else
        measure_ranked<false>(x, y, errors, n, scale, block);
}

}  // namespace
}  // namespace opdiff

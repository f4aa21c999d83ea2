// Sums for the columns of graph mode, in double precision. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernel.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

// Golden values up to this magnitude are left out.
constexpr double kMinGolden = 0x1p-23;

// exp() of a number that is not positive, with a relative error of about 1e-15; 0 where the result is not normal.
inline double exp_nonpositive(double number) {
    const double t = number > -708 ? number : -708;
    // Adding 1.5·2^52 rounds to an integer, which is then in the last bits.
    const double shifted = t * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;
    const double r = (t - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double sum = 1.0 / 6227020800.0;
    constexpr double kTerms[] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                                 1.0 / 5040.0,      1.0 / 720.0,      1.0 / 120.0,     1.0 / 24.0,     1.0 / 6.0,
                                 1.0 / 2.0,         1.0,              1.0};
    for (const double term : kTerms)
        sum = sum * r + term;
    const double scale = bit_cast<double>((bit_cast<uint64_t>(shifted) + 1023) << 52);
    return number > -708 ? sum * scale : 0;
}

template <typename Real>
void add_weights(const Real *x_, const Real *y_, int n, const SoftmaxScale &scale, GraphBlock &sums) {
    double p = 0, q = 0, pq = 0;
#pragma omp simd reduction(+ : p, q, pq)
    for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(x_[i]) - scale.max_x, y = static_cast<double>(y_[i]) - scale.max_y;
        const double weight = exp_nonpositive(y);
        p += weight;
        q += exp_nonpositive(x);
        pq += weight * (y - x);
    }
    sums.golden_weight = p;
    sums.target_weight = q;
    sums.weighted = pq;
}

// Pairs whose golden value counts as zero.
template <typename Real> void count_near_zeros(const Real *x_, const Real *y_, int n, GraphBlock &sums) {
    for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(x_[i]), y = static_cast<double>(y_[i]);
        if (!(std::fabs(y) <= kZeroThreshold) || x == y)
            continue;
        if (y == 0) {
            ++sums.zeros;
            continue;
        }
        const double relative = std::fabs(x - y) / std::fabs(y);
        sums.tiny_relative = std::max(sums.tiny_relative, relative);
        sums.tiny_over_1_permille += relative >= 0.001;
        sums.tiny_over_5_permille += relative >= 0.005;
    }
}

// All pairs are finite on both sides.
template <typename Real>
void add_graph(const Real *x_, const Real *y_, int n, const SoftmaxScale &scale, GraphBlock &sums) {
    sums = {};
    double sizes = 0, relatives = 0, worst = 0, worst_relative = 0;
    int64_t near_zero = 0;
#pragma omp simd reduction(+ : sizes, relatives, near_zero) reduction(max : worst, worst_relative)
    for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(x_[i]), y = static_cast<double>(y_[i]);
        const double size = std::fabs(y), error = size > kMinGolden ? std::fabs(x - y) : 0;
        const double relative = error / (size > kMinGolden ? size : 1);
        sizes += error;
        relatives += relative;
        worst = error > worst ? error : worst;
        worst_relative = relative > worst_relative ? relative : worst_relative;
        near_zero += (size <= kZeroThreshold) & (x != y);
    }
    sums.error_sizes = sizes;
    sums.relative = relatives;
    sums.worst = worst;
    sums.worst_relative = worst_relative;
    if (near_zero)
        count_near_zeros(x_, y_, n, sums);
    if (scale.with_weights)
        add_weights(x_, y_, n, scale, sums);
}

}  // namespace
}  // namespace opdiff

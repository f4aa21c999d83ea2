// Kullback-Leibler divergence of one block. Compiled for each instruction set.
//
// For likelihoods p and q with sums P and Q, not yet divided by them, the divergence is Σ p·ln(p/q) / P + ln(Q / P).
// Its terms nearly cancel where p and q are close, so p·ln(p/q) - p + q is summed instead: small where they are close,
// never negative; with t = (p - q) / q it equals q·((1 + t)·ln(1 + t) - t). To keep its digits, p - q is computed from
// the numbers themselves: p - q = ((x - y) - (min x - min y))·s + (y - min y)·(s - r) with the scale factors s and r of
// both sides, unless these differ much. In single precision, P and Q follow from the sums of the first pass and what the
// floor adds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "prefetch.hpp"
#include "kernel.hpp"
#include "vectors.hpp"

namespace opdiff {
namespace {

// Largest |t| for which the series is used.
constexpr double kMaxSeriesRatio = 0.25;

// Elements summed in single precision at a time: 16 terms per lane of a vector.
constexpr int kChunk = 16 * kFloats;

// (1 + t)·ln(1 + t) - t = t²·Σ (-t)^k / ((k + 1)·(k + 2))
template <int Terms, typename Real> Real entropy_series(Real t) {
    Real sum = 0;
    for (int k = Terms - 1; k >= 0; --k)
        sum = sum * -t + Real{1} / static_cast<Real>((k + 1) * (k + 2));
    return t * t * sum;
}

template <int Terms, typename Real>
double add_series(const Real *ratios, const Real *q, int n, const PrefetchStream &ahead) {
    constexpr Real kMost = static_cast<Real>(kMaxSeriesRatio);
    double sum = 0;
    for (int start = 0; start < n; start += kChunk) {
        Real part = 0;
        prefetch(ahead, start, kChunk);
#pragma omp simd reduction(+ : part)
        for (int i = start; i < std::min(start + kChunk, n); ++i)
            part += std::fabs(ratios[i]) < kMost ? q[i] * entropy_series<Terms>(ratios[i]) : Real{0};
        sum += static_cast<double>(part);
    }
    return sum;
}

// Terms with |t| of at least kMaxSeriesRatio, one by one.
template <typename Real>
double add_exact_terms(const Real *x, const Real *y, const Real *ratios, int n, const KlScale &scale) {
    constexpr Real kMost = static_cast<Real>(kMaxSeriesRatio);
    double sum = 0;
    for (int start = 0; start < n; start += kChunk) {
        const int end = std::min(start + kChunk, n);
        Real most = 0;
#pragma omp simd reduction(max : most)
        for (int i = start; i < end; ++i)
            most = std::fabs(ratios[i]) > most ? std::fabs(ratios[i]) : most;
        for (int i = start; i < end && most >= kMost; ++i) {
            if (std::fabs(ratios[i]) < kMost)
                continue;
            const KlSide &a = scale.target, &b = scale.golden;
            const double p = std::max((static_cast<double>(x[i]) - a.low) * a.factor, a.floor);
            const double q = std::max((static_cast<double>(y[i]) - b.low) * b.factor, b.floor);
            sum += p * std::log(p / q) - (p - q);
        }
    }
    return sum;
}

template <typename Real>
void add_divergence(const Real *x, const Real *y, int n, const KlScale &scale, const PrefetchStreams &ahead,
                    KlSums &sums) {
    alignas(64) Real ratios[kBlock], likelihoods[kBlock];
    const Real x_low = static_cast<Real>(scale.target.low), y_low = static_cast<Real>(scale.golden.low);
    const Real x_factor = static_cast<Real>(scale.target.factor), y_factor = static_cast<Real>(scale.golden.factor);
    const Real x_floor = static_cast<Real>(scale.target.floor), y_floor = static_cast<Real>(scale.golden.floor);
    const Real between = static_cast<Real>(scale.target.low - scale.golden.low);
    const Real factors = static_cast<Real>(scale.target.factor - scale.golden.factor);
    const Real x_limit = scale.similar_ranges ? x_floor : std::numeric_limits<Real>::infinity();
    constexpr bool kDirect = std::is_same_v<Real, double>;
    double sum_p = 0, sum_q = 0;
    Real most = 0;
    for (int start = 0; start < n; start += kChunk) {
        Real part_p = 0, part_q = 0;
        prefetch(ahead.x, start, kChunk);
#pragma omp simd reduction(+ : part_p, part_q) reduction(max : most)
        for (int i = start; i < std::min(start + kChunk, n); ++i) {
            const Real above = y[i] - y_low;
            const Real p_found = (x[i] - x_low) * x_factor, q_found = above * y_factor;
            const Real p = p_found > x_floor ? p_found : x_floor, q = q_found > y_floor ? q_found : y_floor;
            const Real apart = ((x[i] - y[i]) - between) * x_factor + above * factors;
            const Real difference = ((p_found < x_limit) | (q_found < y_floor)) ? p - q : apart;
            part_p += kDirect ? p : p - p_found;
            part_q += kDirect ? q : q - q_found;
            const Real ratio = difference / q, size = std::fabs(ratio);
            most = size > most ? size : most;
            ratios[i] = ratio;
            likelihoods[i] = q;
        }
        sum_p += static_cast<double>(part_p);
        sum_q += static_cast<double>(part_q);
    }
    sums.p = sum_p;
    sums.q = sum_q;
    // What the series leaves out is below 2^-24 of it in single precision, and 2^-36 in double precision.
    constexpr int kTerms = std::is_same_v<Real, float> ? 4 : 6;
    if (most < static_cast<Real>(0x1p-6))
        sums.terms = add_series<kTerms>(ratios, likelihoods, n, ahead.y);
    else if (most < static_cast<Real>(0x1p-3))
        sums.terms = add_series<2 * kTerms>(ratios, likelihoods, n, ahead.y);
    else
        sums.terms = add_series<3 * kTerms>(ratios, likelihoods, n, ahead.y);
    if (most >= static_cast<Real>(kMaxSeriesRatio))
        sums.terms += add_exact_terms(x, y, ratios, n, scale);
}

}  // namespace
}  // namespace opdiff

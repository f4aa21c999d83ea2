// Numbers by which the errors of pairs are ranked and counted. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernel.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

constexpr int32_t kExponent = 0x7f800000;
constexpr float kFloatZeroThreshold = 2.220446049250313e-16f;

struct UlpBits {
    int32_t lowest, shift;
};

// Exponent below which distances between two numbers are not computed in single precision.
constexpr int kMinFloatExponent = -100;

// Distance in ULPs from the bits of a float error: the exponent of the larger number, at least `lowest`, is subtracted
// and `shift` added. Equal pairs, whose error is zero, rank below all others.
UlpBits ulp_bits(UlpScale scale) {
    if (scale.digits < 0)
        return {254 << 23, 254 << 23};
    return {(std::clamp(scale.min_exponent, kMinFloatExponent, 127) + 127) << 23, (127 + scale.digits) << 23};
}

// No branches and no calls below: the compiler vectorizes these functions.

inline int64_t exponent_of(double number) {
    return static_cast<int64_t>((bit_cast<uint64_t>(number) >> 52) & 0x7ff) - 1023;
}

inline double power_of_two(int64_t power) { return bit_cast<double>(static_cast<uint64_t>(power + 1023) << 52); }

// An error in ULPs of the scale's type at a number.
inline double in_ulps(double size, double number, UlpScale scale) {
    const int64_t exponent = exponent_of(number), min_exponent = scale.min_exponent;
    const int64_t power = scale.digits - (exponent > min_exponent ? exponent : min_exponent);
    // The power exceeds the exponent range of doubles only for subnormal doubles, whose unit is 2^-1074.
    const int64_t first = power < 1000 ? power : 1000;
    return scale.digits < 0 ? size : size * power_of_two(first) * power_of_two(power - first);
}

inline double relative_error(double size, double golden) {
    return std::fabs(golden) > kZeroThreshold ? size / std::fabs(golden) : 0;
}

// Relative errors and distances are ranked and counted in single precision, unless they exceed its range.
inline double ranked(float single, double number) {
    return single <= std::numeric_limits<float>::max() ? static_cast<double>(single) : number;
}

template <bool Single> double ranked_error(double size) {
    return Single ? ranked(static_cast<float>(size), size) : size;
}

template <bool Single> double ranked_relative_error(double size, double golden) {
    const double quotient = relative_error(size, golden);
    const float single = static_cast<float>(size) / static_cast<float>(std::fabs(golden));
    return Single && std::fabs(golden) > kZeroThreshold ? ranked(single, quotient) : quotient;
}

template <typename Real> double ulps_between(Real x, Real y, Real size, UlpScale scale) {
    const Real a = std::fabs(x), b = std::fabs(y), larger = a > b ? a : b;
    if constexpr (std::is_same_v<Real, float>) {
        const UlpBits bits = ulp_bits(scale);
        const int32_t exponent = std::max(bits_of(larger) & kExponent, bits.lowest);
        return size == 0 ? 0 : static_cast<double>(float_of(std::max(bits_of(size) - exponent + bits.shift, 0)));
    } else {
        return in_ulps(size, larger, scale);
    }
}

// The measure of one pair, as it is ranked.
double error_of(float x, float y, float error, UlpScale scale, ErrorMeasure measure) {
    const float size = std::fabs(error);
    if (measure == ErrorMeasure::kUlps)
        return ulps_between(x, y, size, scale);
    if (measure == ErrorMeasure::kAbsolute)
        return std::fabs(static_cast<double>(x) - static_cast<double>(y));
    return std::fabs(y) > kFloatZeroThreshold ? static_cast<double>(size / std::fabs(y)) : 0;
}

double error_of(double x, double y, double error, UlpScale scale, ErrorMeasure measure) {
    const double size = std::fabs(error);
    if (measure == ErrorMeasure::kRelative)
        return relative_error(size, y);
    if (measure == ErrorMeasure::kAbsolute)
        return size;
    return ulps_between(x, y, scale.single ? ranked_error<true>(size) : size, scale);
}

template <typename Real>
int find(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale, ErrorMeasure measure, double value) {
    for (int i = 0; i < n; ++i)
        if (error_of(x[i], y[i], errors[i], scale, measure) == value)
            return i;
    return 0;
}

}  // namespace
}  // namespace opdiff

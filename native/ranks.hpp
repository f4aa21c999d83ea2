// By which number the error of one pair is ranked and counted; included by what is compiled for each set of
// instructions.
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
constexpr float kSmallFloat = 2.220446049250313e-16f;

struct UlpBits {
    int32_t lowest, shift;
};

// Where both numbers of a pair are smaller than this and differ, their distance is not worked out in single precision.
constexpr int kTiny = -100;

// In the bits of a float: the exponent of the larger number, at least `lowest`, is taken off, and `shift` added. So
// pairs that are equal, whose error has no exponent, stay behind all others.
UlpBits ulp_bits(UlpScale scale) {
    if (scale.digits < 0)
        return {254 << 23, 254 << 23};
    return {(std::clamp(scale.min_exponent, kTiny, 127) + 127) << 23, (127 + scale.digits) << 23};
}

// What follows is free of branches and calls, so that compilers make vectors of it.

inline int64_t exponent_of(double number) {
    return static_cast<int64_t>((bits_as<uint64_t>(number) >> 52) & 0x7ff) - 1023;
}

inline double power_of_two(int64_t power) { return bits_as<double>(static_cast<uint64_t>(power + 1023) << 52); }

// `size` in steps of the scale's type, as they are at a number.
inline double in_ulps(double size, double number, UlpScale scale) {
    const int64_t exponent = exponent_of(number), least = scale.min_exponent;
    const int64_t power = scale.digits - (exponent > least ? exponent : least);
    // Beyond the range of a double's exponent only beside subnormal doubles, whose unit is 2^-1074.
    const int64_t first = power < 1000 ? power : 1000;
    return scale.digits < 0 ? size : size * power_of_two(first) * power_of_two(power - first);
}

inline double relative_error(double size, double golden) {
    return std::fabs(golden) > kSmall ? size / std::fabs(golden) : 0;
}

// By which errors are ranked and counted: what single precision makes of them, unless that is beyond its range.
inline double ranked(float single, double number) {
    return single <= std::numeric_limits<float>::max() ? static_cast<double>(single) : number;
}

template <bool Single> double ranked_size(double size) {
    return Single ? ranked(static_cast<float>(size), size) : size;
}

template <bool Single> double ranked_quotient(double size, double golden) {
    const double quotient = relative_error(size, golden);
    const float single = static_cast<float>(size) / static_cast<float>(std::fabs(golden));
    return Single && std::fabs(golden) > kSmall ? ranked(single, quotient) : quotient;
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

// What `measure` is of one pair, as errors are ranked.
double number_of(float x, float y, float error, UlpScale scale, Measure measure) {
    const float size = std::fabs(error);
    if (measure == Measure::kUlps)
        return ulps_between(x, y, size, scale);
    if (measure == Measure::kError)
        return static_cast<double>(size);
    return std::fabs(y) > kSmallFloat ? static_cast<double>(size / std::fabs(y)) : 0;
}

double number_of(double x, double y, double error, UlpScale scale, Measure measure) {
    const double size = std::fabs(error);
    if (measure == Measure::kRelative)
        return scale.single ? ranked_quotient<true>(size, y) : ranked_quotient<false>(size, y);
    const double ranked = scale.single ? ranked_size<true>(size) : size;
    return measure == Measure::kUlps ? ulps_between(x, y, ranked, scale) : ranked;
}

template <typename Real>
int find(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale, Measure measure, double value) {
    for (int i = 0; i < n; ++i)
        if (number_of(x[i], y[i], errors[i], scale, measure) == value)
            return i;
    return 0;
}

}  // namespace
}  // namespace opdiff

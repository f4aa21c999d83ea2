// Small functions on single numbers, in an unnamed namespace: each file may be compiled for another instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "opdiff_kernel.h"

namespace opdiff {
namespace {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Reinterprets the bits of a value as another type of the same size.
template <typename To, typename From> To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof from);
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline int32_t bits_of(float number) { return bit_cast<int32_t>(number); }

inline float float_of(int32_t bits) { return bit_cast<float>(bits); }

// Smaller of two indices; a negative index means none.
inline int64_t earlier(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

// Whether a < b as 64-bit integers of this kind.
inline bool is_below(int64_t a, int64_t b, int kind) {
    return kind == OD_UINT64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

}  // namespace
}  // namespace opdiff

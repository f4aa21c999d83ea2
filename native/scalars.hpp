// Small functions on single numbers. None of them is shared between files: each of these may be compiled for another
// set of instructions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "opdiff_kernel.h"

namespace opdiff {
namespace {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The bits of one number taken as another of the same size.
template <typename To, typename From> To bits_as(From from) {
    static_assert(sizeof(To) == sizeof from);
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline int32_t bits_of(float number) { return bits_as<int32_t>(number); }

inline float float_of(int32_t bits) { return bits_as<float>(bits); }

// The smaller of two indices, of which those below 0 stand for none.
inline int64_t earlier(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

// Whether one 64-bit integer is smaller than another; both are bits of `kind`.
inline bool is_below(int64_t a, int64_t b, int kind) {
    return kind == OD_UINT64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

}  // namespace
}  // namespace opdiff

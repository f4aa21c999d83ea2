// Decoding of stored elements. Compiled for each instruction set.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernel.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

template <typename Code, typename Real> void convert(const void *codes, int n, Real *numbers) {
    const auto *bytes = static_cast<const unsigned char *>(codes);
    for (int i = 0; i < n; ++i) {
        Code code;
        std::memcpy(&code, bytes + static_cast<size_t>(i) * sizeof code, sizeof code);
        numbers[i] = static_cast<Real>(code);
    }
}

template <typename Real> void convert_bytes(const void *codes, const float *table, int n, Real *numbers) {
    const auto *bytes = static_cast<const unsigned char *>(codes);
    for (int i = 0; i < n; ++i)
        numbers[i] = static_cast<Real>(table[bytes[i]]);
}

template <typename Real> void convert_bools(const void *codes, int n, Real *numbers) {
    const auto *bytes = static_cast<const unsigned char *>(codes);
    for (int i = 0; i < n; ++i)
        numbers[i] = bytes[i] ? Real{1} : Real{0};
}

template <typename Real> void convert_bfloat16(const void *codes, int n, Real *numbers) {
    const auto *bytes = static_cast<const unsigned char *>(codes);
    for (int i = 0; i < n; ++i) {
        uint16_t code;
        std::memcpy(&code, bytes + 2 * static_cast<size_t>(i), sizeof code);
        numbers[i] = static_cast<Real>(float_of(static_cast<int32_t>(static_cast<uint32_t>(code) << 16)));
    }
}

#if !defined(__aarch64__)
// Shifts exponent and fraction into place; a multiplication corrects the bias, also of subnormal numbers.
float float_of_half(uint16_t code) {
    const uint32_t size = code & 0x7fffu;
    const uint32_t moved = size << 13;
    const float number = float_of(static_cast<int32_t>(moved)) * 0x1p112f;
    uint32_t bits = static_cast<uint32_t>(bits_of(number));
    bits = size >= 0x7c00u ? moved | 0x7f800000u : bits;
    return float_of(static_cast<int32_t>(bits | (static_cast<uint32_t>(code & 0x8000u) << 16)));
}
#endif

template <typename Real> void convert_half(const void *codes, int n, Real *numbers) {
    const auto *bytes = static_cast<const unsigned char *>(codes);
    int i = 0;
#if defined(__F16C__)
    // Compilers do not emit this instruction on their own; it decodes three times as fast.
    if constexpr (std::is_same_v<Real, float>)
        for (; i + 8 <= n; i += 8) {
            const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes + 2 * i));
            _mm256_storeu_ps(numbers + i, _mm256_cvtph_ps(eight));
        }
#endif
    for (; i < n; ++i) {
#if defined(__aarch64__)
        __fp16 code;
        std::memcpy(&code, bytes + 2 * static_cast<size_t>(i), sizeof code);
        numbers[i] = static_cast<Real>(static_cast<float>(code));
#else
        uint16_t code;
        std::memcpy(&code, bytes + 2 * static_cast<size_t>(i), sizeof code);
        numbers[i] = static_cast<Real>(float_of_half(code));
#endif
    }
}

template <typename Real> void decode(const void *codes, int kind, const float *table, int n, Real *numbers) {
    switch (kind) {
    case OD_FLOAT16: return convert_half(codes, n, numbers);
    case OD_BFLOAT16: return convert_bfloat16(codes, n, numbers);
    case OD_FLOAT32: return convert<float>(codes, n, numbers);
    case OD_FLOAT64: return convert<double>(codes, n, numbers);
    case OD_TABLE: return convert_bytes(codes, table, n, numbers);
    case OD_BOOL: return convert_bools(codes, n, numbers);
    case OD_INT8: return convert<int8_t>(codes, n, numbers);
    case OD_UINT8: return convert<uint8_t>(codes, n, numbers);
    case OD_INT16: return convert<int16_t>(codes, n, numbers);
    case OD_UINT16: return convert<uint16_t>(codes, n, numbers);
    case OD_INT32: return convert<int32_t>(codes, n, numbers);
    case OD_UINT32: return convert<uint32_t>(codes, n, numbers);
    case OD_INT64: return convert<int64_t>(codes, n, numbers);
    default: return convert<uint64_t>(codes, n, numbers);
    }
}

}  // namespace
}  // namespace opdiff

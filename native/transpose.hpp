// Transposition of stored elements. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vectors.hpp"

namespace opdiff {
namespace {

// Squares of elements of two or four bytes are transposed in registers, by interleaving units that double in size.
typedef uint16_t U16x8 __attribute__((vector_size(16)));
typedef uint32_t U32x4 __attribute__((vector_size(16)));
typedef uint64_t U64x2 __attribute__((vector_size(16)));

void transpose_square(const unsigned char *from, int64_t stride, uint16_t *to, int64_t pitch) {
    U16x8 rows[8], pairs[8];
    for (int i = 0; i < 8; ++i)
        rows[i] = load<U16x8>(from + i * stride * 2);
    for (int i = 0; i < 4; ++i) {
        pairs[2 * i] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
        pairs[2 * i + 1] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    U32x4 quads[8];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const U32x4 a = (U32x4)pairs[4 * i + j], b = (U32x4)pairs[4 * i + 2 + j];
            quads[4 * i + 2 * j] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
            quads[4 * i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        }
    for (int j = 0; j < 4; ++j) {
        const U64x2 a = (U64x2)quads[j], b = (U64x2)quads[4 + j];
        store(to + 2 * j * pitch, __builtin_shufflevector(a, b, 0, 2));
        store(to + (2 * j + 1) * pitch, __builtin_shufflevector(a, b, 1, 3));
    }
}

void transpose_square(const unsigned char *from, int64_t stride, uint32_t *to, int64_t pitch) {
    U32x4 rows[4];
    for (int i = 0; i < 4; ++i)
        rows[i] = load<U32x4>(from + i * stride * 4);
    for (int j = 0; j < 2; ++j) {
        const U64x2 a = (U64x2)(j ? __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7)
                              : __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5));
        const U64x2 b = (U64x2)(j ? __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7)
                              : __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5));
        store(to + 2 * j * pitch, __builtin_shufflevector(a, b, 0, 2));
        store(to + (2 * j + 1) * pitch, __builtin_shufflevector(a, b, 1, 3));
    }
}

// A tile of rows stays in the L1 cache while its columns are written.
template <typename Code>
void transpose_codes(const void *in, int64_t stride, int rows, int width, void *out, int64_t pitch) {
    const auto *from = static_cast<const unsigned char *>(in);
    auto *to = static_cast<Code *>(out);
    constexpr int64_t kSize = sizeof(Code);
    int squared = 0;
    if constexpr (kSize == 2 || kSize == 4) {
        constexpr int kSide = 16 / kSize;
        if (width % kSide == 0)
            for (; squared + kSide <= rows; squared += kSide)
                for (int j = 0; j < width; j += kSide)
                    transpose_square(from + (squared * stride + j) * kSize, stride, to + j * pitch + squared, pitch);
    }
    constexpr int kRows = 64;
    for (int start = squared; start < rows; start += kRows) {
        const int end = std::min(start + kRows, rows);
        for (int j = 0; j < width; ++j)
            for (int i = start; i < end; ++i)
                std::memcpy(to + j * pitch + i, from + (i * stride + j) * kSize, kSize);
    }
}

void transpose(const void *in, int size, int64_t stride, int rows, int width, void *out, int64_t pitch) {
    switch (size) {
    case 1: return transpose_codes<uint8_t>(in, stride, rows, width, out, pitch);
    case 2: return transpose_codes<uint16_t>(in, stride, rows, width, out, pitch);
    case 4: return transpose_codes<uint32_t>(in, stride, rows, width, out, pitch);
    default: return transpose_codes<uint64_t>(in, stride, rows, width, out, pitch);
    }
}

}  // namespace
}  // namespace opdiff

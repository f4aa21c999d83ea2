// Vectors of the machine's width. Compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "scalars.hpp"

namespace opdiff {
namespace {

#if defined(__AVX512BW__)
constexpr int kWidth = 64;
#elif defined(__AVX2__)
constexpr int kWidth = 32;
#else
constexpr int kWidth = 16;
#endif

typedef float Floats __attribute__((vector_size(kWidth)));
typedef int32_t Ints __attribute__((vector_size(kWidth)));
typedef uint32_t Words __attribute__((vector_size(kWidth)));
typedef double Doubles __attribute__((vector_size(kWidth)));
typedef int8_t Bytes __attribute__((vector_size(kWidth)));
typedef uint8_t Octets __attribute__((vector_size(kWidth)));
typedef uint64_t Quads __attribute__((vector_size(kWidth)));

constexpr int kFloats = kWidth / 4, kDoubles = kWidth / 8;

template <typename Vector> Vector load(const void *from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

template <typename Vector> void store(void *to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }

template <typename Vector> Vector largest(Vector a, Vector b) { return a > b ? a : b; }

// Adds 1 where `mask` is set: one masked instruction with AVX-512, a subtraction of -1 elsewhere.
template <typename Vector, typename Mask> void count(Vector &counts, Mask mask) {
    if constexpr (kWidth == 64)
        counts = mask ? counts + 1 : counts;
    else
        counts -= (Vector)mask;
}

// Compilers turn this loop into one instruction, unlike a conversion of vectors.
Doubles widen(const float *from) {
    Doubles result;
    for (int i = 0; i < kDoubles; ++i)
        result[i] = static_cast<double>(from[i]);
    return result;
}

// Pairwise, to shorten the dependency chain.
double total(Doubles vector) {
    for (int half = kDoubles / 2; half; half /= 2)
        for (int i = 0; i < half; ++i)
            vector[i] += vector[half + i];
    return vector[0];
}

double total(Floats vector) {
    float lanes[kFloats];
    store(lanes, vector);
    return total(widen(lanes) + widen(lanes + kDoubles));
}

int total(Ints vector) {
    int sum = 0;
    for (int i = 0; i < kFloats; ++i)
        sum += vector[i];
    return sum;
}

int32_t largest_of(Ints vector) {
    int32_t most = vector[0];
    for (int i = 1; i < kFloats; ++i)
        most = std::max(most, vector[i]);
    return most;
}

// Sum of bytes, none of which is above 1024 / kWidth.
int total(Bytes vector) {
    const Quads quads = (Quads)vector;
    uint64_t sum = 0;
    for (int i = 0; i < kWidth / 8; ++i)
        sum += quads[i];
    constexpr uint64_t even = 0x00ff00ff00ff00ff;
    sum = (sum & even) + ((sum >> 8) & even);
    return static_cast<int>((sum * 0x0001000100010001) >> 48);
}

template <typename Real> void find_range(const Real *numbers, int n, double &low, double &high) {
    Real lowest = numbers[0], most = numbers[0];
#pragma omp simd reduction(min : lowest) reduction(max : most)
    for (int i = 0; i < n; ++i) {
        lowest = numbers[i] < lowest ? numbers[i] : lowest;
        most = numbers[i] > most ? numbers[i] : most;
    }
    low = static_cast<double>(lowest);
    high = static_cast<double>(most);
}

}  // namespace
}  // namespace opdiff

// The loops in which the time goes. Plain C++ with the vectors of the compiler, as wide as those of the machine;
// compiled once for each set of instructions (OPDIFF_KERNEL names the result).

#include "kernel.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "divergence.hpp"
#include "graph.hpp"

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
typedef uint64_t Quads __attribute__((vector_size(kWidth)));

constexpr int kFloats = kWidth / 4, kDoubles = kWidth / 8;
// The loop over floats makes one vector of bytes of four vectors.
constexpr int kStep = 4 * kFloats;

// Up to here a sum of floats is kept in single precision.
constexpr int kTerms = 16 * kStep;

constexpr int32_t kAbs = 0x7fffffff, kExponent = 0x7f800000;
constexpr float kSmallFloat = 2.220446049250313e-16f;

template <typename Vector> Vector load(const void *from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

template <typename Vector> void store(void *to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }

template <typename Vector> Vector largest(Vector a, Vector b) { return a > b ? a : b; }

int32_t bits_of(float number) {
    int32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

float float_of(int32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

// A loop that compilers make one instruction of, which they do not of a conversion of vectors.
Doubles widen(const float *from) {
    Doubles result;
    for (int i = 0; i < kDoubles; ++i)
        result[i] = static_cast<double>(from[i]);
    return result;
}

double total(Doubles vector) {
    double sum = 0;
    for (int i = 0; i < kDoubles; ++i)
        sum += vector[i];
    return sum;
}

double total(Floats vector) {
    double sum = 0;
    for (int i = 0; i < kFloats; ++i)
        sum += static_cast<double>(vector[i]);
    return sum;
}

int32_t largest_of(Ints vector) {
    int32_t most = vector[0];
    for (int i = 1; i < kFloats; ++i)
        most = std::max(most, vector[i]);
    return most;
}

// The sum of bytes of which none is above 1024 / kWidth.
int total(Bytes vector) {
    const Quads quads = (Quads)vector;
    uint64_t sum = 0;
    for (int i = 0; i < kWidth / 8; ++i)
        sum += quads[i];
    constexpr uint64_t even = 0x00ff00ff00ff00ff;
    sum = (sum & even) + ((sum >> 8) & even);
    return static_cast<int>((sum * 0x0001000100010001) >> 48);
}

// --- Decoding

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
// Exponent and fraction are moved in place, and a multiplication mends the bias, also of subnormal numbers.
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
    // The one place where the compiler does not find the instruction by itself; it makes decoding three times as fast.
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

// --- Histograms, from one byte for each pair, in which larger numbers have larger bytes

// Edges of bins, as bytes, in groups of four: four of them cost little more than one.
template <int Count> struct Edges {
    static constexpr int kCount = Count, kGroups = (Count + 3) / 4;
    int8_t bytes[kGroups * 4];
};

// The byte of a relative error is the upper half of its exponent: one edge for each factor of four, from 2^-27 on, and
// before them one that tells zero apart.
constexpr Edges<OD_RELATIVE_BINS - 1> kRelativeEdges = {
    {1, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 127, 127}};
// The byte of a distance is its exponent; from one half on.
constexpr Edges<OD_ULP_BINS - 2> kUlpEdges = {
    {-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 127, 127}};

// How many of the bytes are not below each edge; `top` is the largest byte.
template <int Count> void count_from(const int8_t *bytes, int padded, const Edges<Count> &edges, int top, int *counts) {
    std::fill(counts, counts + edges.kGroups * 4, 0);
    for (int group = 0; group < edges.kGroups && edges.bytes[4 * group] <= top; ++group) {
        Bytes sums[4] = {};
        Bytes limits[4];
        for (int k = 0; k < 4; ++k)
            limits[k] = Bytes{} + static_cast<int8_t>(edges.bytes[4 * group + k] - 1);
        for (int i = 0; i < padded; i += kWidth) {
            const Bytes values = load<Bytes>(bytes + i);
            for (int k = 0; k < 4; ++k)
                sums[k] -= (Bytes)(values > limits[k]);
        }
        for (int k = 0; k < 4; ++k)
            counts[4 * group + k] = total(sums[k]);
    }
}

// What is between the edges. Bin 0 is up to the caller, and what it takes from bin 1.
void fill_bins(const int *counts, int edges, int n, int64_t *bins) {
    int above = n;
    for (int k = 0; k < edges; ++k) {
        bins[k + 1] = above - counts[k];
        above = counts[k];
    }
    bins[edges + 1] = above;
}

// --- One block in single precision

struct Scratch {
    alignas(64) int32_t relative[kBlock];
    alignas(64) int8_t relative_bytes[kBlock];
    alignas(64) int8_t ulp_bytes[kBlock];
};

struct UlpBits {
    int32_t lowest, shift;
};

// In the bits of a float: the exponent of the larger number, at least `lowest`, is taken off, and `shift` added.
UlpBits ulp_bits(UlpScale scale) {
    if (scale.digits < 0)
        return {254 << 23, 254 << 23};
    return {std::clamp(scale.min_exponent + 127, 1, 254) << 23, (127 + scale.digits) << 23};
}

template <int Place> Words upper_byte(Words word) {
    if constexpr (Place == 0)
        return word >> 24;
    else if constexpr (Place == 3)
        return word & 0xff000000u;
    else
        return (word >> (24 - 8 * Place)) & (0xffu << (8 * Place));
}

void add_products(const float *x_, const float *y_, int padded, Block &block) {
    Doubles xx = {}, yy = {}, xy = {}, dd = {}, sx = {}, sy = {}, sd = {};
    for (int i = 0; i < padded; i += kDoubles) {
        const Doubles x = widen(x_ + i), y = widen(y_ + i);
        const Doubles d = x - y;
        xx += x * x;
        yy += y * y;
        xy += x * y;
        dd += d * d;
        sx += x;
        sy += y;
        sd += d;
    }
    block.xx = total(xx);
    block.yy = total(yy);
    block.xy = total(xy);
    block.dd = total(dd);
    block.x = total(sx);
    block.y = total(sy);
    block.errors = total(sd);
}

struct Maxima {
    int32_t error, relative, ulps;
};

Maxima add_errors(const float *x_, const float *y_, int padded, UlpBits scale, Scratch &scratch, Block &block) {
    Ints worst = {}, worst_relative = {}, worst_ulps = {};
    Floats min_x = load<Floats>(x_), max_x = min_x, min_y = load<Floats>(y_), max_y = min_y;
    const Ints lowest = Ints{} + scale.lowest, shift = Ints{} + scale.shift;
    const Floats small = Floats{} + kSmallFloat;
    block.error_sizes = block.relative = 0;
    for (int start = 0; start < padded; start += kTerms) {
        Floats sizes = {}, quotients = {};
        for (int i = start; i < std::min(start + kTerms, padded); i += kStep) {
            Words relative_bytes = {}, ulp_bytes = {};
            const auto step = [&](auto place) {
                constexpr int kPlace = decltype(place)::value;
                const int at = i + kPlace * kFloats;
                const Floats x = load<Floats>(x_ + at), y = load<Floats>(y_ + at);
                const Ints size = (Ints)(x - y) & kAbs, golden = (Ints)y & kAbs;
                const Ints larger = largest((Ints)x & kAbs, golden);
                const Ints counted = (Floats)golden > small;
                const Ints quotient = (Ints)((Floats)size / (Floats)golden) & counted;
                const Ints ulps = largest(size - largest(larger & kExponent, lowest) + shift, Ints{}) & (size != 0);
                sizes += (Floats)size;
                quotients += (Floats)quotient;
                min_x = x < min_x ? x : min_x;
                max_x = x > max_x ? x : max_x;
                min_y = y < min_y ? y : min_y;
                max_y = y > max_y ? y : max_y;
                worst = largest(size, worst);
                worst_relative = largest(quotient, worst_relative);
                worst_ulps = largest(ulps, worst_ulps);
                store(scratch.relative + at, quotient);
                relative_bytes |= upper_byte<kPlace>((Words)quotient);
                ulp_bytes |= upper_byte<kPlace>((Words)ulps + (Words)ulps);
            };
            step(std::integral_constant<int, 0>{});
            step(std::integral_constant<int, 1>{});
            step(std::integral_constant<int, 2>{});
            step(std::integral_constant<int, 3>{});
            store(scratch.relative_bytes + i, relative_bytes);
            store(scratch.ulp_bytes + i, ulp_bytes ^ 0x80808080u);
        }
        block.error_sizes += total(sizes);
        block.relative += total(quotients);
    }
    float low_x = min_x[0], high_x = max_x[0], low_y = min_y[0], high_y = max_y[0];
    for (int i = 1; i < kFloats; ++i) {
        low_x = std::min(low_x, min_x[i]);
        high_x = std::max(high_x, max_x[i]);
        low_y = std::min(low_y, min_y[i]);
        high_y = std::max(high_y, max_y[i]);
    }
    block.min_x = static_cast<double>(low_x);
    block.max_x = static_cast<double>(high_x);
    block.min_y = static_cast<double>(low_y);
    block.max_y = static_cast<double>(high_y);
    return {largest_of(worst), largest_of(worst_relative), largest_of(worst_ulps)};
}

template <typename Real> void find_range(const Real *numbers, int n, double &low, double &high) {
    Real least = numbers[0], most = numbers[0];
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int i = 0; i < n; ++i) {
        least = numbers[i] < least ? numbers[i] : least;
        most = numbers[i] > most ? numbers[i] : most;
    }
    low = static_cast<double>(least);
    high = static_cast<double>(most);
}

// Pairs with a relative error of at least one and five in a thousand.
void count_over(const int32_t *relative, int padded, Block &block) {
    const Ints one = Ints{} + bits_of(0.001f), five = Ints{} + bits_of(0.005f);
    Ints over_one = {}, over_five = {};
    for (int i = 0; i < padded; i += kFloats) {
        const Ints quotient = load<Ints>(relative + i);
        over_one -= quotient >= one;
        over_five -= quotient >= five;
    }
    for (int i = 0; i < kFloats; ++i) {
        block.over_1_permille += over_one[i];
        block.over_5_permille += over_five[i];
    }
}

// Equal pairs, pairs with a golden zero, and whether an error is so small that its exponent is not in its bits.
bool count_zeros(const float *x, const float *y, int n, Block &block) {
    int equal = 0, zero_golden = 0, subnormal = 0;
#pragma omp simd reduction(+ : equal, zero_golden, subnormal)
    for (int i = 0; i < n; ++i) {
        const float size = std::fabs(x[i] - y[i]);
        equal += size == 0;
        zero_golden += !(std::fabs(y[i]) > kSmallFloat) & (size != 0);
        subnormal += (size != 0) & (size < 0x1p-126f);
    }
    block.equal = equal;
    block.zero_golden = zero_golden;
    return subnormal != 0;
}

// Takes what is equal, or has no relative error, out of the bins of small errors.
void set_equal(Block &block) {
    int64_t *bins = block.relative_bins;
    bins[0] = block.equal;
    bins[1] -= block.equal + block.zero_golden;
    bins[OD_RELATIVE_BINS - 1] += block.zero_golden;
    block.over_1_permille += block.zero_golden;
    block.over_5_permille += block.zero_golden;
    block.ulp_bins[0] = block.equal;
    block.ulp_bins[1] -= block.equal;
}

struct Tops {
    int relative, ulps;
};

void finish_bins(const float *x, const float *y, int n, const Scratch &scratch, Tops tops, Block &block) {
    const int padded = (n + kStep - 1) / kStep * kStep;
    int counts[kUlpEdges.kGroups * 4];
    count_from(scratch.relative_bytes, padded, kRelativeEdges, tops.relative, counts);
    if (counts[0] < n)
        block.overflowed |= count_zeros(x, y, n, block);
    fill_bins(counts + 1, kRelativeEdges.kCount - 1, n, block.relative_bins);
    count_from(scratch.ulp_bytes, padded, kUlpEdges, tops.ulps, counts);
    fill_bins(counts, kUlpEdges.kCount, n, block.ulp_bins);
    set_equal(block);
}

// Here the differences are taken on the way: that costs less than to load them.
void measure_single(const float *x, const float *y, const float *, int n, UlpScale scale, Block &block) {
    Scratch scratch;
    const int padded = (n + kStep - 1) / kStep * kStep;
    add_products(x, y, padded, block);
    const Maxima most = add_errors(x, y, padded, ulp_bits(scale), scratch, block);
    if (padded != n) {
        // The zeros behind the numbers are not among them.
        find_range(x, n, block.min_x, block.max_x);
        find_range(y, n, block.min_y, block.max_y);
    }
    block.worst = static_cast<double>(float_of(most.error));
    block.worst_relative = static_cast<double>(float_of(most.relative));
    block.worst_ulps = static_cast<double>(float_of(most.ulps));
    block.overflowed = !std::isfinite(block.error_sizes + block.relative);
    block.equal = block.zero_golden = block.over_1_permille = block.over_5_permille = 0;
    if (most.relative >= bits_of(0.001f))
        count_over(scratch.relative, padded, block);
    finish_bins(x, y, n, scratch, {most.relative >> 24, (most.ulps >> 23) - 128}, block);
}

// --- One block in double precision

int exponent_of(double number) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return static_cast<int>((bits >> 52) & 0x7ff) - 1023;
}

// `size` in steps of the scale's type, as they are at a number.
double in_ulps(double size, double number, UlpScale scale) {
    if (scale.digits < 0)
        return size;
    const int power = scale.digits - std::max(exponent_of(number), scale.min_exponent);
    // Beyond the range of a double's exponent only beside subnormal doubles, whose unit is 2^-1074.
    const int first = std::min(power, 1000);
    const uint64_t bits = static_cast<uint64_t>(first + 1023) << 52;
    double factor;
    std::memcpy(&factor, &bits, sizeof factor);
    return power > first ? size * factor * std::ldexp(1.0, power - first) : size * factor;
}

double relative_error(double size, double golden) { return std::fabs(golden) > kSmall ? size / std::fabs(golden) : 0; }

// By which errors are ranked and counted: what single precision makes of them, unless that is beyond its range.
template <bool Single> double ranked_size(double size) {
    const float rounded = static_cast<float>(size);
    return Single && std::isfinite(rounded) ? static_cast<double>(rounded) : size;
}

template <bool Single> double ranked_quotient(double size, double golden) {
    const double quotient = relative_error(size, golden);
    if (!Single || !(std::fabs(golden) > kSmall))
        return quotient;
    const float rounded = static_cast<float>(size) / static_cast<float>(std::fabs(golden));
    return std::isfinite(rounded) ? static_cast<double>(rounded) : quotient;
}

template <typename Real> double ulps_between(Real x, Real y, Real size, UlpScale scale) {
    const Real larger = std::max(std::fabs(x), std::fabs(y));
    if (size == 0)
        return 0;
    if constexpr (std::is_same_v<Real, float>) {
        const UlpBits bits = ulp_bits(scale);
        const int32_t exponent = std::max(bits_of(larger) & kExponent, bits.lowest);
        return static_cast<double>(float_of(std::max(bits_of(size) - exponent + bits.shift, 0)));
    } else {
        return in_ulps(size, larger, scale);
    }
}

// The exponent of a number as a float would have it, 0 for what is too small for one.
int float_exponent(double number) { return std::clamp(exponent_of(number) + 127, 0, 254); }

int8_t relative_byte(double quotient) { return static_cast<int8_t>(float_exponent(quotient) / 2); }

int8_t ulp_byte(double ulps) { return static_cast<int8_t>(float_exponent(ulps) - 128); }

template <bool Single>
void measure_ranked(const double *x_, const double *y_, const double *errors_, int n, UlpScale scale, Block &block) {
    constexpr double kOne = Single ? double{0.001f} : 0.001, kFive = Single ? double{0.005f} : 0.005;
    Scratch scratch;
    double xx = 0, yy = 0, xy = 0, dd = 0, sx = 0, sy = 0, errors = 0, sizes = 0, quotients = 0;
    double worst = 0, worst_relative = 0, worst_ulps = 0;
    int over_one = 0, over_five = 0, equal = 0, zero_golden = 0;
#pragma omp simd reduction(+ : xx, yy, xy, dd, sx, sy, errors, sizes, quotients, over_one, over_five)                  \
    reduction(+ : equal, zero_golden) reduction(max : worst, worst_relative)
    for (int i = 0; i < n; ++i) {
        const double x = x_[i], y = y_[i], d = errors_[i], size = std::fabs(d);
        const double ranked = ranked_size<Single>(size), quotient = ranked_quotient<Single>(size, y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
        dd += d * d;
        sx += x;
        sy += y;
        errors += d;
        sizes += size;
        quotients += relative_error(size, y);
        worst = ranked > worst ? ranked : worst;
        worst_relative = quotient > worst_relative ? quotient : worst_relative;
        over_one += quotient >= kOne;
        over_five += quotient >= kFive;
        equal += size == 0;
        zero_golden += !(std::fabs(y) > kSmall) & (size != 0);
    }
    const int padded = (n + kWidth - 1) / kWidth * kWidth;
    std::fill(scratch.relative_bytes + n, scratch.relative_bytes + padded, int8_t{0});
    std::fill(scratch.ulp_bytes + n, scratch.ulp_bytes + padded, int8_t{-128});
    for (int i = 0; i < n; ++i) {
        const double size = std::fabs(errors_[i]);
        const double ulps = ulps_between(x_[i], y_[i], ranked_size<Single>(size), scale);
        worst_ulps = std::max(worst_ulps, ulps);
        scratch.relative_bytes[i] = relative_byte(ranked_quotient<Single>(size, y_[i]));
        scratch.ulp_bytes[i] = ulp_byte(ulps);
    }
    block.xx = xx, block.yy = yy, block.xy = xy, block.dd = dd;
    block.x = sx, block.y = sy, block.errors = errors, block.error_sizes = sizes, block.relative = quotients;
    find_range(x_, n, block.min_x, block.max_x);
    find_range(y_, n, block.min_y, block.max_y);
    block.worst = worst, block.worst_relative = worst_relative, block.worst_ulps = worst_ulps;
    block.equal = equal, block.zero_golden = zero_golden;
    block.over_1_permille = over_one, block.over_5_permille = over_five;
    block.overflowed = false;
    int counts[kUlpEdges.kGroups * 4];
    count_from(scratch.relative_bytes, padded, kRelativeEdges, 127, counts);
    fill_bins(counts + 1, kRelativeEdges.kCount - 1, n, block.relative_bins);
    count_from(scratch.ulp_bytes, padded, kUlpEdges, 127, counts);
    fill_bins(counts, kUlpEdges.kCount, n, block.ulp_bins);
    set_equal(block);
}

void measure_wide(const double *x, const double *y, const double *errors, int n, UlpScale scale, Block &block) {
    if (scale.single)
        measure_ranked<true>(x, y, errors, n, scale, block);
    else
        measure_ranked<false>(x, y, errors, n, scale, block);
}

// --- Both precisions

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

template <typename Real> bool is_finite(const Real *numbers, int n) {
    Real sum = 0;
    // The difference of a number with itself is a NaN unless it is finite.
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; ++i)
        sum += numbers[i] - numbers[i];
    return sum == 0;
}

template <typename Real>
void add_moments(const Real *x_, const Real *y_, int n, double pivot_x, double pivot_y, Moments &moments) {
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
#pragma omp simd reduction(+ : sx, sy, xx, yy, xy)
    for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(x_[i]) - pivot_x, y = static_cast<double>(y_[i]) - pivot_y;
        sx += x;
        sy += y;
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    moments = {sx, sy, xx, yy, xy};
}

// --- Layouts

// Squares of codes of two or four bytes are transposed in registers: lanes of both halves are interleaved again and
// again, in units that double.
typedef uint16_t Eight __attribute__((vector_size(16)));
typedef uint32_t Four __attribute__((vector_size(16)));
typedef uint64_t Two __attribute__((vector_size(16)));

void transpose_square(const unsigned char *from, int64_t stride, uint16_t *to, int64_t pitch) {
    Eight rows[8], pairs[8];
    for (int i = 0; i < 8; ++i)
        rows[i] = load<Eight>(from + i * stride * 2);
    for (int i = 0; i < 4; ++i) {
        pairs[2 * i] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
        pairs[2 * i + 1] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    Four quads[8];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const Four a = (Four)pairs[4 * i + j], b = (Four)pairs[4 * i + 2 + j];
            quads[4 * i + 2 * j] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
            quads[4 * i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        }
    for (int j = 0; j < 4; ++j) {
        const Two a = (Two)quads[j], b = (Two)quads[4 + j];
        store(to + 2 * j * pitch, __builtin_shufflevector(a, b, 0, 2));
        store(to + (2 * j + 1) * pitch, __builtin_shufflevector(a, b, 1, 3));
    }
}

void transpose_square(const unsigned char *from, int64_t stride, uint32_t *to, int64_t pitch) {
    Four rows[4];
    for (int i = 0; i < 4; ++i)
        rows[i] = load<Four>(from + i * stride * 4);
    for (int j = 0; j < 2; ++j) {
        const Two a = j ? (Two)__builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7) : (Two)__builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
        const Two b = j ? (Two)__builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7) : (Two)__builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
        store(to + 2 * j * pitch, __builtin_shufflevector(a, b, 0, 2));
        store(to + (2 * j + 1) * pitch, __builtin_shufflevector(a, b, 1, 3));
    }
}

// Columns are written as runs; a tile of rows stays in the nearest cache while its columns are taken.
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

#if defined(__AVX512BW__)
#define OPDIFF_KERNEL kV4
#define OPDIFF_NAME "x86-64-v4"
#elif defined(__AVX2__)
#define OPDIFF_KERNEL kV3
#define OPDIFF_NAME "x86-64-v3"
#elif defined(__x86_64__)
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "x86-64"
#elif defined(__aarch64__)
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "aarch64"
#else
#define OPDIFF_KERNEL kBaseline
#define OPDIFF_NAME "generic"
#endif

extern const Kernel OPDIFF_KERNEL = {
    OPDIFF_NAME,
    {decode<float>, measure_single, find<float>, diverge<float>, add_graph<float>, add_moments<float>, is_finite<float>},
    {decode<double>, measure_wide, find<double>, diverge<double>, add_graph<double>, add_moments<double>, is_finite<double>},
    transpose,
};

}  // namespace opdiff

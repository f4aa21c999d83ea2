// Functions compiled once per instruction set: decoding, and the arithmetic of one block.
#pragma once

#include <cstdint>

#include "opdiff_kernel.h"

namespace opdiff {

// Elements per block: both decoded sides stay in the L1 cache.
constexpr int kBlock = 1024;
constexpr int kPadding = 64;

// Golden values up to this magnitude count as zero in relative errors.
constexpr double kZeroThreshold = 2.220446049250313e-16;

// Unit in the last place of a float type with `digits` fraction bits; 1 if `digits` is negative. `single`: relative
// errors and distances are ranked and counted in single precision, whatever precision they are summed in.
struct UlpScale {
    int digits;
    int min_exponent;
    bool single;
};

// Sums of one block without NaNs and infinities.
struct Block {
    double xx, yy, xy, dd;
    double x, y, errors, error_sizes, relative;
    double min_x, max_x, min_y, max_y;
    double worst, worst_relative, worst_ulps;  // in the precision in which the block was measured
    int64_t equal, zero_golden, over_1_permille, over_5_permille;
    int64_t relative_bins[OD_RELATIVE_BINS];
    int64_t ulp_bins[OD_ULP_BINS];
    bool overflowed;  // beyond single precision: measure the block in double precision
};

// Normalization of one side to likelihoods: to 0 … 1, then raised to the floor; a constant side becomes all ones.
struct KlSide {
    double low, factor, floor;
};

struct KlScale {
    KlSide target, golden;
    bool similar_ranges;  // both sides have about the same range
};

// `p` and `q`: sums of the likelihoods of either side; in single precision only what the floor adds to them.
struct KlSums {
    double p, q, terms;
};

// Moments around two pivots, for numbers that are close together.
struct Moments {
    double x, y, xx, yy, xy;
};

// Maxima of both sides, subtracted before the softmax; none is computed if a side has NaNs or infinities.
struct SoftmaxScale {
    double max_x, max_y;
    bool with_weights;
};

using GraphBlock = od_graph;

// Addresses of elements needed soon: the first, and the average distance to the next in bytes. They need not be valid.
struct PrefetchStream {
    const unsigned char *from;
    int64_t step;
};

// Streams of both sides, prefetched while a block is measured.
struct PrefetchStreams {
    PrefetchStream x, y;
};

// Absolute error, relative error, or distance in units of the last place.
enum class ErrorMeasure { kAbsolute, kRelative, kUlps };

template <typename Real> struct BlockFunctions {
    void (*decode)(const void *codes, int kind, const float *table, int n, Real *numbers);
    // Both sides are padded with zeros to a multiple of kPadding. `errors` are their differences.
    void (*measure)(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale,
                    const PrefetchStreams &ahead, Block &block);
    // Index of the first pair whose error is `value`, which one pair has.
    int (*find)(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale, ErrorMeasure measure,
                double value);
    void (*divergence)(const Real *x, const Real *y, int n, const KlScale &scale, const PrefetchStreams &ahead,
                       KlSums &sums);
    void (*graph)(const Real *x, const Real *y, int n, const SoftmaxScale &scale, GraphBlock &sums);
    void (*moments)(const Real *x, const Real *y, int n, double pivot_x, double pivot_y, Moments &moments);
    bool (*is_finite)(const Real *x, int n);
};

struct Kernel {
    const char *name;
    BlockFunctions<float> floats;
    BlockFunctions<double> doubles;
    // Transposes rows of `width` elements, `stride` elements apart: out[j * pitch + i] = in[i * stride + j].
    void (*transpose)(const void *in, int size, int64_t stride, int rows, int width, void *out, int64_t pitch);
};

// Best kernel for this machine.
const Kernel &kernel();

extern const Kernel kBaseline;
#if defined(__x86_64__)
extern const Kernel kV3, kV4;
#endif

}  // namespace opdiff

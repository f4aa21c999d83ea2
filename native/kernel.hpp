// What is compiled once for each set of instructions: decoding, and the arithmetic of one block.
#pragma once

#include <cstdint>

#include "opdiff_kernel.h"

namespace opdiff {

// Both sides of a block, decoded, stay in the nearest cache.
constexpr int kBlock = 1024;
constexpr int kPadding = 64;

// Golden values up to this size count as zero in relative errors.
constexpr double kSmall = 2.220446049250313e-16;

// The distance between neighbours of a float type with `digits` fraction bits; without them the unit is 1. `single`:
// errors are ranked and counted as single precision has them, whatever precision they are added up in.
struct UlpScale {
    int digits;
    int min_exponent;
    bool single;
};

// What one block without NaNs and infinities adds up to.
struct Block {
    double xx, yy, xy, dd;
    double x, y, errors, error_sizes, relative;
    double min_x, max_x, min_y, max_y;
    double worst, worst_relative, worst_ulps;
    int64_t equal, zero_golden, over_1_permille, over_5_permille;
    int64_t relative_bins[OD_RELATIVE_BINS];
    int64_t ulp_bins[OD_ULP_BINS];
    bool overflowed;  // single precision does not do: measure the block in double precision
};

// The numbers of a side are moved and stretched to 0 … 1, and raised to the floor; a constant side is all ones.
struct KlSide {
    double low, factor, floor;
};

struct KlScale {
    KlSide target, golden;
    bool alike;  // both sides have about the same range
};

// `p` and `q` are what the floor adds to the likelihoods of both sides.
struct KlSums {
    double p, q, terms;
};

// Sums around two pivots, for the spread of numbers that lie close together.
struct Moments {
    double x, y, xx, yy, xy;
};

// What the softmax of both sides is taken relative to; without it where there are NaNs or infinities.
struct GraphScale {
    double top_x, top_y;
    bool with_weights;
};

using GraphBlock = od_graph;

// Where elements lie that will soon be looked at, and how many bytes there are from one to the next, on an average. The
// addresses need not be valid.
struct Lane {
    const unsigned char *from;
    int64_t step;
};

// Those of both sides: they are asked for while a block is being worked on.
struct Ahead {
    Lane x, y;
};

// Which number of a pair is looked for: the error, the relative error, the distance in units of the last place.
enum class Measure { kError, kRelative, kUlps };

template <typename Real> struct Arithmetic {
    void (*decode)(const void *codes, int kind, const float *table, int n, Real *numbers);
    // Both sides are filled up with zeros to a multiple of kPadding. `errors` are their differences.
    void (*measure)(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale, const Ahead &ahead,
                    Block &block);
    // The first pair whose number is `value`, which is one of theirs.
    int (*find)(const Real *x, const Real *y, const Real *errors, int n, UlpScale scale, Measure measure, double value);
    void (*divergence)(const Real *x, const Real *y, int n, const KlScale &scale, const Ahead &ahead, KlSums &sums);
    void (*graph)(const Real *x, const Real *y, int n, const GraphScale &scale, GraphBlock &sums);
    void (*moments)(const Real *x, const Real *y, int n, double pivot_x, double pivot_y, Moments &moments);
    bool (*is_finite)(const Real *x, int n);
};

struct Kernel {
    const char *name;
    Arithmetic<float> single;
    Arithmetic<double> wide;
    // Rows of `width` elements, `stride` elements apart, as columns: out[j * pitch + i] = in[i * stride + j].
    void (*transpose)(const void *in, int size, int64_t stride, int rows, int width, void *out, int64_t pitch);
};

// The best for this machine.
const Kernel &kernel();

extern const Kernel kBaseline;
#if defined(__x86_64__)
extern const Kernel kV3, kV4;
#endif

}  // namespace opdiff

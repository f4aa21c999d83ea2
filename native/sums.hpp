// Sums of parts of a pair of tensors. Parts can be merged in any order without loss.
#pragma once

#include <cstdint>

#include "exact_sum.hpp"
#include "kernel.hpp"

namespace opdiff {

// A maximum and the first element that has it. `exact` distinguishes integers beyond the precision of doubles.
struct Extreme {
    double value = 0;
    unsigned __int128 exact = 0;
    int64_t index = -1, target = 0, golden = 0;

    void offer(const Extreme &other);
    // Whether a value from the block at `start` may replace it.
    bool can_be_replaced_by(double other, int64_t start) const;
};

struct SideSums {
    int64_t nans = 0, positive_infs = 0, negative_infs = 0, first_nan = -1, first_inf = -1, finite = 0;
    double minimum = 0, maximum = 0;
    int64_t lowest_integer = 0, highest_integer = 0;  // of 64-bit integers
    bool has_range = false, has_integers = false;
    // Elements that are finite while the other side is not.
    ExactSum unpaired, unpaired_squares;

    void include(double low, double high);
    void merge(const SideSums &other, int kind);
};

// Result of the first pass.
struct Sums {
    SideSums target, golden;
    int64_t pairs = 0, unequal = 0;
    ExactSum x, y, xx, yy, xy, errors, error_sizes, error_squares, relative;
    int64_t over_1_permille = 0, over_5_permille = 0, zero_golden = 0;
    Extreme worst, worst_relative, worst_ulps;
    int64_t same_infs = 0, opposite_infs = 0, target_infs = 0, golden_infs = 0, mismatches = 0, first_mismatch = -1;
    int64_t relative_bins[OD_RELATIVE_BINS] = {};
    int64_t ulp_bins[OD_ULP_BINS] = {};
    bool beyond_range = false;

    void add(const Block &block, int n);
    void add_non_finite(double a, double b, int64_t index);
    void merge(const Sums &other, int target_kind, int golden_kind);
};

// Parameters and result of the second pass.
struct SecondPass {
    bool with_moments = false, with_kl = false, for_graphs = false;
    double pivot_x = 0, pivot_y = 0;
    KlScale scale = {};
    double total_p = 0, total_q = 0;  // single precision: the sums without what the floor adds
    bool needs_double = false;       // as the first pass, or as the factors exceed the range of floats
    ExactSum x, y, xx, yy, xy, unpaired_x, unpaired_y, unpaired_xx, unpaired_yy, p, q, terms;
    SoftmaxScale softmax = {};
    od_graph graph = {};  // maxima and counts; the sums are below
    ExactSum golden_weight, target_weight, weighted, error_sizes, relative;

    bool is_needed() const { return with_moments || with_kl || for_graphs; }
    void add(const od_graph &block);
    // The same parameters without a result.
    SecondPass empty() const;
    void merge(const SecondPass &other);
};

}  // namespace opdiff

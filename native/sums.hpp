// What is kept of the parts of a pair of tensors. The parts can be merged in any order, and nothing is lost.
#pragma once

#include <cstdint>

#include "exact.hpp"
#include "kernel.hpp"

namespace opdiff {

// The largest of something. Equal ones: the first. `exact` tells apart what is too large for a double.
struct Extreme {
    double value = 0;
    unsigned __int128 exact = 0;
    int64_t index = -1, target = 0, golden = 0;

    void offer(const Extreme &other);
    // Whether a number in the block that begins at `start` may take its place.
    bool may_yield_to(double other, int64_t start) const;
};

struct SideSums {
    int64_t nans = 0, positive_infs = 0, negative_infs = 0, first_nan = -1, first_inf = -1, finite = 0;
    double minimum = 0, maximum = 0;
    int64_t least = 0, most = 0;  // of 64-bit integers
    bool has_range = false, has_integers = false;
    // Of the elements that are finite while the other side is not.
    ExactSum alone, squares_alone;

    void include(double low, double high);
    void merge(const SideSums &other, int kind);
};

// What the first pass keeps of a part of a pair.
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
    void add_special(double a, double b, int64_t index);
    void merge(const Sums &other, int target_kind, int golden_kind);
};

// What the second pass needs to know, and keeps.
struct Second {
    bool with_moments = false, with_kl = false, for_graphs = false;
    double pivot_x = 0, pivot_y = 0;
    KlScale scale = {};
    double all_p = 0, all_q = 0;  // without what the floor adds
    bool in_double = false;       // the factors are beyond the range of floats
    ExactSum x, y, xx, yy, xy, x_alone, y_alone, xx_alone, yy_alone, p, q, terms;
    GraphScale tops = {};
    od_graph graph = {};  // maxima and counts; the sums are in the next line
    ExactSum golden_weight, target_weight, weighted, error_sizes, relative;

    bool wanted() const { return with_moments || with_kl || for_graphs; }
    void add(const od_graph &block);
    // The same without what was kept.
    Second empty() const;
    void merge(const Second &other);
};

}  // namespace opdiff

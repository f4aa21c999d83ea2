// One pair of tensors: first pass, then, where asked for or needed, a second one.
#pragma once

#include <cstdint>
#include <vector>

#include "exact.hpp"
#include "kernel.hpp"
#include "walk.hpp"

namespace opdiff {

// One tensor in memory.
struct Side {
    View view;
    int kind = 0;
    int size = 1;
    const float *table = nullptr;

    bool is_wide_integer() const { return kind == OD_INT64 || kind == OD_UINT64; }
    bool is_integer() const { return kind >= OD_BOOL; }
};

// The bytes of one element, 0 for kinds that do not exist.
int size_of(int64_t kind);

struct Pair {
    Side target, golden;
    int64_t count = 0, run = 0;
    UlpScale scale = {};
    bool with_kl = false, for_graphs = false;

    // Whether a second pass is asked for.
    bool has_second() const { return with_kl || for_graphs; }
    // Whether single precision holds every number of both sides.
    bool is_narrow() const;
    bool has_wide_integers() const;
    // The side whose order of elements is followed.
    const View *guide() const;
    // Parts that can be measured apart, and elements of one.
    int64_t units() const { return units_; }
    void plan();

private:
    friend class Worker;
    int64_t units_ = 0, unit_ = 0;
};

// The largest of something. Equal ones: the first. `exact` tells apart what is too large for a double.
struct Extreme {
    double value = 0;
    unsigned __int128 exact = 0;
    int64_t index = -1, target = 0, golden = 0;

    void offer(const Extreme &other);
    // Whether a number in the block that begins at `start` may take its place.
    bool may_yield_to(double other, int64_t start) const;
};

// One block as it is stored. `places` tells where in it the numbers were that are measured, unless all of them are.
struct Codes {
    int64_t start;
    const unsigned char *x, *y;
    const int *places;
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
    void merge(const Sums &other, const Pair &pair);
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

// The buffers of one thread, used for one unit after the other.
class Worker {
public:
    Worker();
    void first_pass(const Pair &pair, int64_t unit, Sums &sums);
    void second_pass(const Pair &pair, int64_t unit, Second &second);

private:
    template <typename Visit> void each_block(const Pair &pair, int64_t unit, Visit visit);
    template <typename Visit> void each_tile_block(const Pair &pair, int64_t unit, Visit visit);
    const unsigned char *fetch(const View &view, int64_t start, int n, std::vector<unsigned char> &buffer);

    template <typename Real> struct Numbers {
        alignas(64) Real x[kBlock], y[kBlock], errors[kBlock];
    };
    template <typename Real>
    const Real *decode(const Side &side, const unsigned char *codes, int n, Real *buffer) const;
    template <typename Real>
    void measure(const Pair &pair, int64_t start, int n, const unsigned char *x, const unsigned char *y, Sums &sums);
    template <typename Real>
    const Real *take_errors(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes);
    template <typename Real>
    bool measure_finite(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes, Sums &sums);
    template <typename Real> int keep_finite(int64_t start, int n, const Real *x, const Real *y, Sums &sums);
    template <typename Real>
    void measure_again(const Pair &pair, int n, const unsigned char *x, const unsigned char *y, Second &second);
    template <typename Real> Numbers<Real> &numbers();
    template <typename Real> const Arithmetic<Real> &arithmetic() const;

    Numbers<float> single_;
    Numbers<double> wide_;
    int places_[kBlock];
    std::vector<unsigned char> x_block_, y_block_, tile_;
    std::vector<View::Piece> pieces_;
};

// What is to be done after the first pass; and the end.
Second plan_second(const Pair &pair, const Sums &sums);
void finish(const Pair &pair, const Sums &sums, const Second &second, od_result &result);

}  // namespace opdiff

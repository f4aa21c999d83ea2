// Two tensors in memory, and the units in which they are measured.
#pragma once

#include <cstdint>

#include "kernel.hpp"
#include "strided_view.hpp"

namespace opdiff {

// Elements that one thread measures at a time.
constexpr int64_t kUnitElements = int64_t{1} << 20;

// Tensors of up to so many elements are summed in double precision whatever their type: it costs them next to nothing.
constexpr int64_t kSmallCount = int64_t{1} << 14;

// One tensor in memory.
struct Side {
    StridedView view;
    int kind = 0;
    int size = 1;
    const float *table = nullptr;

    bool is_wide_integer() const { return kind == OD_INT64 || kind == OD_UINT64; }
    bool is_integer() const { return kind >= OD_BOOL; }
};

// Bytes of one element; 0 for an unknown kind.
int size_of(int64_t kind);

struct Pair {
    Side target, golden;
    int64_t count = 0, run = 0;
    UlpScale scale = {};
    bool with_kl = false, for_graphs = false;

    // Whether a second pass is requested.
    bool has_second() const { return with_kl || for_graphs; }
    // Whether single precision represents every number of both sides.
    bool fits_float() const;
    // Whether it is also precise enough for the sums: only the rounding errors of many numbers cancel.
    bool is_summed_in_float() const { return count > kSmallCount && fits_float(); }
    bool has_wide_integers() const;
    // The tiled side, whose order of elements is followed; null if there is none.
    const StridedView *tiled_view() const;
    // Number of units, which can be measured independently.
    int64_t units() const { return units_; }
    void plan();

private:
    friend class Worker;
    int64_t units_ = 0, unit_ = 0;
};

// One stored block, and the addresses to prefetch meanwhile. `positions`: which of its elements are measured; null for
// all.
struct EncodedBlock {
    int64_t start;
    const unsigned char *x, *y;
    PrefetchStreams ahead;
    const int *positions;
};

}  // namespace opdiff

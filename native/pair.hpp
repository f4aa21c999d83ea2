// Two tensors in memory, and the parts in which they are measured.
#pragma once

#include <cstdint>

#include "kernel.hpp"
#include "walk.hpp"

namespace opdiff {

// Elements of a part that one thread measures at a time.
constexpr int64_t kUnit = int64_t{1} << 20;

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

// One block as it is stored, and what comes next. `places` tells where in it the numbers were that are measured, unless
// all of them are.
struct Codes {
    int64_t start;
    const unsigned char *x, *y;
    Ahead ahead;
    const int *places;
};

}  // namespace opdiff

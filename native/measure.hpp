// One pair of tensors: a first pass, and a second one if requested or needed.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel.hpp"
#include "pair.hpp"
#include "sums.hpp"

namespace opdiff {

// Buffers of one thread, reused for all units.
class Worker {
public:
    Worker();
    void first_pass(const Pair &pair, int64_t unit, Sums &sums);
    void second_pass(const Pair &pair, int64_t unit, SecondPass &second);

private:
    template <typename Visit> void for_each_block(const Pair &pair, int64_t unit, Visit visit);
    template <typename Visit> void for_each_tile_block(const Pair &pair, int64_t unit, Visit visit);
    const unsigned char *fetch(const StridedView &view, int64_t start, int n, std::vector<unsigned char> &buffer);

    template <typename Real> struct Buffers {
        alignas(64) Real x[kBlock], y[kBlock], errors[kBlock];
    };
    template <typename Real>
    const Real *decode(const Side &side, const unsigned char *codes, int n, Real *buffer) const;
    template <typename Real> void measure(const Pair &pair, const EncodedBlock &codes, int n, Sums &sums);
    template <typename Real>
    const Real *compute_errors(const Pair &pair, const Real *x, const Real *y, int n, const EncodedBlock &codes);
    template <typename Real>
    bool measure_finite(const Pair &pair, const Real *x, const Real *y, int n, const EncodedBlock &codes, Sums &sums);
    template <typename Real> int compact_finite(int64_t start, int n, const Real *x, const Real *y, Sums &sums);
    template <typename Real>
    void measure_second(const Pair &pair, const EncodedBlock &codes, int n, SecondPass &second);
    template <typename Real> Buffers<Real> &numbers();
    template <typename Real> const BlockFunctions<Real> &functions() const;

    Buffers<float> floats_;
    Buffers<double> doubles_;
    int positions_[kBlock];
    std::vector<unsigned char> x_block_, y_block_, tile_;
    std::vector<StridedView::Segment> segments_;
};

// Decides about the second pass; fills the result.
SecondPass plan_second_pass(const Pair &pair, const Sums &sums);
void finish(const Pair &pair, const Sums &sums, const SecondPass &second, od_result &result);

}  // namespace opdiff

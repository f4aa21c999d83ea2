// One pair of tensors: first pass, then, where asked for or needed, a second one.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel.hpp"
#include "pair.hpp"
#include "sums.hpp"

namespace opdiff {

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
    template <typename Real> void measure(const Pair &pair, const Codes &codes, int n, Sums &sums);
    template <typename Real>
    const Real *take_errors(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes);
    template <typename Real>
    bool measure_finite(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes, Sums &sums);
    template <typename Real> int keep_finite(int64_t start, int n, const Real *x, const Real *y, Sums &sums);
    template <typename Real> void measure_again(const Pair &pair, const Codes &codes, int n, Second &second);
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

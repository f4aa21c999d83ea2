// Exact errors and extremes of 64-bit integers, which doubles would round.
#pragma once

#include "pair.hpp"
#include "sums.hpp"

namespace opdiff {

// The extreme at position `i` of the measured numbers.
Extreme extreme_at(const Pair &pair, const EncodedBlock &codes, int i, double x, double y, double value);

// Difference of a pair with at least one 64-bit integer.
double exact_error(const Pair &pair, const EncodedBlock &codes, int i, double x, double y);

// First of the largest errors between integers.
Extreme worst_integer(const Pair &pair, const EncodedBlock &codes, int n);

// Updates the range of a side of 64-bit integers; does nothing for other types.
void update_integer_range(const Side &side, const unsigned char *codes, int n, SideSums &sums);

}  // namespace opdiff

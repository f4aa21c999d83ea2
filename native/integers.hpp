// Integers of 64 bits, which doubles would round: their errors, the largest of them, and what extremes show of them.
#pragma once

#include "pair.hpp"
#include "sums.hpp"

namespace opdiff {

// What stands at place `i` of the numbers that were measured, as an extreme shows it.
Extreme shown(const Pair &pair, const Codes &codes, int i, double x, double y, double value);

// The difference of a pair with a 64-bit integer in it.
double exact_error(const Pair &pair, const Codes &codes, int i, double x, double y);

// The first of the largest errors between integers, which are all finite.
Extreme worst_integer(const Pair &pair, const Codes &codes, int n);

// The smallest and the largest of 64-bit integers; other numbers are not looked at.
void widen_integers(const Side &side, const unsigned char *codes, int n, SideSums &sums);

}  // namespace opdiff

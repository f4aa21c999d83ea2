// Software prefetching. Compiled for each instruction set.
//
// A few cache lines at a time, between arithmetic: more at once stall each other and everything behind them.
#pragma once

#include <cstdint>

#include "kernel.hpp"

namespace opdiff {
namespace {

// Four-byte elements per cache line. For longer elements the hardware fetches the lines in between.
constexpr int kLine = 16;

// Prefetches the lines that hold elements `start` … `start + n` of the stream.
inline void prefetch(const PrefetchStream &lane_axis, int start, int n) {
    for (int i = start; i < start + n; i += kLine)
        __builtin_prefetch(lane_axis.from + i * lane_axis.step);
}

}  // namespace
}  // namespace opdiff

// Asking for memory before it is needed; included by what is compiled for each set of instructions.
//
// It is done a few lines of the cache at a time, between arithmetic: more of them at once have to wait for each other,
// and everything else waits with them.
#pragma once

#include <cstdint>

#include "kernel.hpp"

namespace opdiff {
namespace {

// Elements of four bytes in a line of the cache; of longer ones, the machine brings what lies between by itself.
constexpr int kLine = 16;

// Asks for what is ahead of `n` elements from `start` on.
inline void ask_for(const Lane &lane, int start, int n) {
    for (int i = start; i < start + n; i += kLine)
        __builtin_prefetch(lane.from + i * lane.step);
}

}  // namespace
}  // namespace opdiff

// Many pairs of tensors on several threads: large pairs in parts, small ones whole.
#pragma once

#include "opdiff_kernel.h"

namespace opdiff {

// Fills the result of every job; returns false if memory is exhausted.
bool measure_batch(od_batch &batch);

}  // namespace opdiff

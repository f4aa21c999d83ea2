// Many pairs of tensors on several threads: large ones in parts, small ones whole.
#pragma once

#include "opdiff_kernel.h"

namespace opdiff {

// Every job gets its result; false when memory ran out.
bool measure_batch(od_batch &batch);

}  // namespace opdiff

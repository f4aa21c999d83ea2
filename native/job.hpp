// Validation of jobs.
#pragma once

#include <cstdint>

#include "measure.hpp"

namespace opdiff {

// Whether the byte range of a side is valid.
inline bool is_usable(const od_side &side, const od_batch &batch) {
    return side.offset >= 0 && side.nbytes >= 0 && side.offset <= INT64_MAX - side.nbytes &&
           (side.path < 0 ? side.data != 0 || side.nbytes == 0 : side.path < batch.paths_size);
}

// Returns false unless all described elements are within the bytes at `data`.
inline bool set_side(const od_side &description, const od_batch &batch, const void *data, int64_t count, Side &side) {
    side.kind = static_cast<int>(description.kind);
    side.size = size_of(description.kind);
    side.table = reinterpret_cast<const float *>(description.table);
    const bool known = side.size > 0 && (description.kind != OD_TABLE || side.table) && description.rank >= 0 &&
                       description.axes >= 0 && description.rank <= batch.axes_count - description.axes;
    return known && side.view.set(data, side.size, description.nbytes / side.size, batch.axes + description.axes,
                                  description.rank, count);
}

}  // namespace opdiff

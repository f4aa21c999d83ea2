// The exported functions.

#include <new>

#include "batch.hpp"
#include "kernel.hpp"

extern "C" {

int64_t od_version(void) { return OD_VERSION; }

void od_sizes(int64_t sizes[5]) {
    sizes[0] = sizeof(od_axis);
    sizes[1] = sizeof(od_side);
    sizes[2] = sizeof(od_job);
    sizes[3] = sizeof(od_result);
    sizes[4] = sizeof(od_batch);
}

const char *od_instructions(void) { return opdiff::kernel().name; }

int64_t od_measure(od_batch *batch) {
    if (!batch || batch->count < 0 || batch->threads < 1)
        return -1;
    for (int64_t i = 0; i < batch->count; ++i)
        batch->results[i].status = OD_NOT_MEASURED;
    try {
        return opdiff::measure_batch(*batch) ? 0 : -1;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}
}

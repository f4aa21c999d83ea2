// Errors of one pair by slices of its axes.

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "pair_blocks.hpp"

namespace opdiff {
namespace {

struct Work {
    PairBlocks pair;
    const od_sample *sample = nullptr;
    const od_axis_slices *axes = nullptr;
    int64_t axis_count = 0;
    od_slice *slices = nullptr;

    void add(const od_axis_slices &axis, int64_t start, int n, od_slice *out) const {
        int64_t index = start / axis.inner_count % axis.extent, left = axis.inner_count - start % axis.inner_count;
        od_slice *slice = out + index / axis.width;
        for (int i = 0; i < n; ++i) {
            ++slice->count;
            if (std::isinf(pair.x[i])) {
                ++slice->not_finite;
            } else {
                const double error = std::min(pair.x[i], kMaxError);
                slice->squares += error * error;
                slice->largest = std::max(slice->largest, pair.x[i]);
            }
            if (--left == 0) {
                left = axis.inner_count;
                index = index + 1 == axis.extent ? 0 : index + 1;
                slice = out + index / axis.width;
            }
        }
    }

    void run() {
        for (int64_t k = 0; k < sample->count; ++k) {
            const int64_t start = sample->starts[k];
            const int n = static_cast<int>(std::min(sample->length, pair.count() - start));
            pair.read(start, n);
            subtract(pair.x, pair.y, n);
            od_slice *out = slices;
            for (int64_t i = 0; i < axis_count; ++i) {
                add(axes[i], start, n, out);
                out += (axes[i].extent + axes[i].width - 1) / axes[i].width;
            }
        }
    }
};

bool is_possible(const od_batch &batch, const od_sample &sample, const od_axis_slices *axes, int64_t count) {
    if (batch.count < 1 || sample.length < 1 || sample.length > kBlock)
        return false;
    const od_job &job = batch.jobs[0];
    for (int64_t k = 0; k < sample.count; ++k)
        if (sample.starts[k] < 0 || sample.starts[k] >= job.count)
            return false;
    for (int64_t i = 0; i < count; ++i)
        if (axes[i].extent < 1 || axes[i].inner_count < 1 || axes[i].width < 1)
            return false;
    return is_usable(job.target, batch) && is_usable(job.golden, batch);
}

}  // namespace
}  // namespace opdiff

extern "C" int64_t od_axis_errors(const od_batch *batch, const od_sample *sample, const od_axis_slices *axes,
                                  int64_t count, od_slice *slices) {
    if (!batch || !sample || !opdiff::is_possible(*batch, *sample, axes, count))
        return -1;
    try {
        const auto work = std::make_unique<opdiff::Work>();
        work->sample = sample;
        work->axes = axes;
        work->axis_count = count;
        work->slices = slices;
        return work->pair.run(*batch, [](void *argument) { static_cast<opdiff::Work *>(argument)->run(); }, work.get());
    } catch (const std::bad_alloc &) {
        return OD_NO_MEMORY;
    }
}

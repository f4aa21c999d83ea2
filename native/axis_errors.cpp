// Errors of one pair by slices of its axes.

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "file_data.hpp"
#include "job.hpp"

namespace opdiff {
namespace {

// Larger errors would overflow when squared.
constexpr double kMaxError = 1e150;

struct Work {
    Side target, golden;
    int64_t count = 0;
    const od_sample *sample = nullptr;
    const od_axis_slices *axes = nullptr;
    int64_t axis_count = 0;
    od_slice *slices = nullptr;
    alignas(64) double x[kBlock], y[kBlock];
    unsigned char codes[kBlock * 8];

    void decode(const Side &side, int64_t start, int n, double *numbers) {
        const unsigned char *from = codes;
        if (side.view.contiguous())
            from = side.view.at(start);
        else
            side.view.gather(start, n, codes);
        kernel().doubles.decode(from, side.kind, side.table, n, numbers);
    }

    // Replaces `x` by the absolute errors; infinity if not finite.
    void subtract(int n) {
        for (int i = 0; i < n; ++i) {
            const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
            const double error = same ? 0.0 : std::fabs(x[i] - y[i]);
            x[i] = std::isfinite(error) ? error : INFINITY;
        }
    }

    void add(const od_axis_slices &axis, int64_t start, int n, od_slice *out) const {
        int64_t index = start / axis.inner_count % axis.extent, left = axis.inner_count - start % axis.inner_count;
        od_slice *slice = out + index / axis.width;
        for (int i = 0; i < n; ++i) {
            ++slice->count;
            if (std::isinf(x[i])) {
                ++slice->not_finite;
            } else {
                const double error = std::min(x[i], kMaxError);
                slice->squares += error * error;
                slice->largest = std::max(slice->largest, x[i]);
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
            const int n = static_cast<int>(std::min(sample->length, count - start));
            decode(target, start, n, x);
            decode(golden, start, n, y);
            subtract(n);
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

int64_t measure(const od_batch &batch, Work &work) {
    const od_job &job = batch.jobs[0];
    Mapping mappings[2];
    const void *data[2];
    const od_side *sides[2] = {&job.target, &job.golden};
    for (int i = 0; i < 2; ++i) {
        data[i] = reinterpret_cast<const void *>(sides[i]->data);
        if (sides[i]->path < 0)
            continue;
        const Failure failure = mappings[i].open(batch.paths + sides[i]->path, sides[i]->offset, sides[i]->nbytes);
        if (failure.status != OD_DONE)
            return failure.status;
        data[i] = mappings[i].data();
    }
    work.count = job.count;
    if (!set_side(job.target, batch, data[0], job.count, work.target) ||
        !set_side(job.golden, batch, data[1], job.count, work.golden))
        return OD_BAD_JOB;
    const FaultHandler handler;
    const void *fault_address = guarded([](void *argument) { static_cast<Work *>(argument)->run(); }, &work);
    return fault_address ? OD_TOO_SHORT : OD_DONE;
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
        return opdiff::measure(*batch, *work);
    } catch (const std::bad_alloc &) {
        return OD_NO_MEMORY;
    }
}

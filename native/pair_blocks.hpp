// Blocks of both sides of one pair as doubles, in logical order.
#pragma once

#include <cmath>

#include "file_data.hpp"
#include "job.hpp"

namespace opdiff {

class PairBlocks {
public:
    alignas(64) double x[kBlock], y[kBlock];

    int64_t count() const { return count_; }

    // Decodes `n` elements of both sides, from the logical index `start` on.
    void read(int64_t start, int n) {
        decode(target_, start, n, x);
        decode(golden_, start, n, y);
    }

    // Returns the pages read so far to the system, if they are more than allowed.
    void release_behind(int64_t start) {
        if ((start - released_) * (target_.size + golden_.size) < resident_)
            return;
        released_ = start;
        for (const Mapping &mapping : mappings_)
            mapping.release();
    }

    // Opens the first job of a batch and calls `work`, which must not own resources. Returns an od_status.
    int64_t run(const od_batch &batch, void (*work)(void *), void *argument) {
        const od_job &job = batch.jobs[0];
        const od_side *sides[2] = {&job.target, &job.golden};
        const void *data[2];
        for (int i = 0; i < 2; ++i) {
            data[i] = reinterpret_cast<const void *>(sides[i]->data);
            if (sides[i]->path < 0)
                continue;
            const Failure failure = mappings_[i].open(batch.paths + sides[i]->path, sides[i]->offset, sides[i]->nbytes);
            if (failure.status != OD_DONE)
                return failure.status;
            data[i] = mappings_[i].data();
        }
        count_ = job.count;
        resident_ = batch.resident;
        if (!set_side(job.target, batch, data[0], count_, target_) || !set_side(job.golden, batch, data[1], count_, golden_))
            return OD_BAD_JOB;
        const FaultHandler handler;
        return guarded(work, argument) ? OD_TOO_SHORT : OD_DONE;
    }

private:
    void decode(const Side &side, int64_t start, int n, double *numbers) {
        const unsigned char *from = codes_;
        if (side.view.contiguous())
            from = side.view.at(start);
        else
            side.view.gather(start, n, codes_);
        kernel().doubles.decode(from, side.kind, side.table, n, numbers);
    }

    Mapping mappings_[2];
    Side target_, golden_;
    int64_t count_ = 0, released_ = 0, resident_ = 0;
    unsigned char codes_[kBlock * 8];
};

// Replaces `x` by the absolute errors; infinity if not finite. Equal infinities, and NaN on both sides, are no error.
inline void subtract(double *x, const double *y, int n) {
    for (int i = 0; i < n; ++i) {
        const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
        const double error = same ? 0.0 : std::fabs(x[i] - y[i]);
        x[i] = std::isfinite(error) ? error : INFINITY;
    }
}

// Larger errors would overflow when squared.
constexpr double kMaxError = 1e150;

}  // namespace opdiff

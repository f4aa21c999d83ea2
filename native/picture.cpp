// Range of values, errors by plane and cell, and the density of value pairs, for the picture of one pair.

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "pair_blocks.hpp"

namespace opdiff {
namespace {

// Larger values are clipped: sums and differences of them overflow.
constexpr double kMaxValue = 1e300;

template <class Work>
int64_t run(const od_batch &batch, Work &work) {
    return work.pair.run(batch, [](void *argument) { static_cast<Work *>(argument)->run(); }, &work);
}

// Calls `use` with the number of elements of each block, whose values are finite ones within bounds, or not finite.
template <class Use>
void for_each_block(PairBlocks &pair, Use use) {
    for (int64_t start = 0; start < pair.count(); start += kBlock) {
        const int n = static_cast<int>(std::min<int64_t>(kBlock, pair.count() - start));
        pair.read(start, n);
        for (double *side : {pair.x, pair.y})
            for (int i = 0; i < n; ++i)
                if (std::isfinite(side[i]))
                    side[i] = std::min(std::max(side[i], -kMaxValue), kMaxValue);
        use(n);
        pair.release_behind(start);
    }
}

struct Range {
    PairBlocks pair;
    double low = INFINITY, high = -INFINITY;

    void run() {
        for_each_block(pair, [this](int n) {
            for (const double *side : {pair.x, pair.y})
                for (int i = 0; i < n; ++i) {
                    const bool is_finite = std::isfinite(side[i]);
                    low = is_finite && side[i] < low ? side[i] : low;
                    high = is_finite && side[i] > high ? side[i] : high;
                }
        });
    }
};

struct Picture {
    PairBlocks pair;
    const od_grid *grid = nullptr;
    od_cell *planes = nullptr, *cells = nullptr;
    int64_t *density = nullptr, *counts = nullptr;
    std::vector<int64_t> index;  // of the row, along all axes but the last
    int64_t column = 0, plane = 0, cell = 0;
    int golden_bins[kBlock], target_bins[kBlock];

    void run() {
        for_each_block(pair, [this](int n) {
            count_pairs(n);
            subtract(pair.x, pair.y, n);
            const int64_t extent = grid->axes[grid->rank - 1].extent;
            for (int i = 0; i < n;) {
                const int length = static_cast<int>(std::min<int64_t>(n - i, extent - column));
                add_errors(pair.x + i, length);
                i += length;
                column += length;
                if (column == extent)
                    next_row();
            }
        });
    }

    // Bins of values; those of values that are not finite have no meaning.
    void find_bins(const double *values, int n, int *bins) const {
        const double low = grid->low, range = grid->high - grid->low, count = static_cast<double>(grid->bins);
        for (int i = 0; i < n; ++i) {
            const double position = (values[i] - low) / range * count;
            bins[i] = static_cast<int>(position > 0.0 ? std::min(position, count - 1.0) : 0.0);
        }
    }

    bool is_within(double value) const { return value >= grid->low && value <= grid->high; }

    void count_pairs(int n) {
        find_bins(pair.x, n, target_bins);
        find_bins(pair.y, n, golden_bins);
        for (int i = 0; i < n; ++i) {
            const double x = pair.x[i], y = pair.y[i];
            if (!std::isfinite(x) || !std::isfinite(y)) {
                ++counts[1];
                continue;
            }
            counts[0] += !(is_within(x) && is_within(y));
            ++density[golden_bins[i] * grid->bins + target_bins[i]];
        }
    }

    void add_errors(const double *errors, int n) {
        const od_grid_axis &axis = grid->axes[grid->rank - 1];
        od_cell *in_plane = planes + plane + column * axis.plane, *in_cell = cells + cell + column / axis.width * axis.cell;
        int64_t left = axis.width - column % axis.width;
        for (int i = 0; i < n; ++i) {
            const bool is_special = std::isinf(errors[i]);
            const double error = is_special ? 0.0 : std::min(errors[i], kMaxError);
            add(in_plane, is_special, error);
            add(in_cell, is_special, error);
            in_plane += axis.plane;
            if (--left == 0) {
                left = axis.width;
                in_cell += axis.cell;
            }
        }
    }

    static void add(od_cell *out, bool is_special, double error) {
        ++out->count;
        out->not_finite += is_special;
        out->squares += error * error;
    }

    void next_row() {
        column = 0;
        for (int64_t i = grid->rank - 2; i >= 0 && ++index[i] == grid->axes[i].extent; --i)
            index[i] = 0;
        plane = cell = 0;
        for (int64_t i = 0; i < grid->rank - 1; ++i) {
            plane += index[i] * grid->axes[i].plane;
            cell += index[i] / grid->axes[i].width * grid->axes[i].cell;
        }
    }
};

bool is_pair(const od_batch *batch) {
    return batch && batch->count > 0 && is_usable(batch->jobs[0].target, *batch) &&
           is_usable(batch->jobs[0].golden, *batch);
}

// Whether every element is in one of the planes and cells. Bounds are far below those of 64-bit numbers.
bool is_possible(const od_grid &grid, int64_t count) {
    constexpr int64_t kMax = int64_t{1} << 40;
    if (grid.rank < 1 || grid.bins < 1 || grid.bins > 1 << 10 || !(grid.low < grid.high))
        return false;
    int64_t elements = 1, plane = 0, cell = 0;
    for (int64_t i = 0; i < grid.rank; ++i) {
        const od_grid_axis &axis = grid.axes[i];
        if (axis.extent < 1 || axis.extent > kMax || axis.width < 1 || axis.plane < 0 || axis.cell < 0)
            return false;
        if (elements > kMax / axis.extent || std::max(axis.plane, axis.cell) > kMax / axis.extent)
            return false;
        elements *= axis.extent;
        plane += (axis.extent - 1) * axis.plane;
        cell += (axis.extent - 1) / axis.width * axis.cell;
    }
    return elements == count && plane < grid.planes && cell < grid.cells;
}

}  // namespace
}  // namespace opdiff

extern "C" int64_t od_value_range(const od_batch *batch, double ends[2]) {
    if (!opdiff::is_pair(batch))
        return -1;
    try {
        const auto work = std::make_unique<opdiff::Range>();
        const int64_t status = opdiff::run(*batch, *work);
        ends[0] = work->low;
        ends[1] = work->high;
        return status;
    } catch (const std::bad_alloc &) {
        return OD_NO_MEMORY;
    }
}

extern "C" int64_t od_picture(const od_batch *batch, const od_grid *grid, od_cell *planes, od_cell *cells,
                              int64_t *density, int64_t counts[2]) {
    if (!opdiff::is_pair(batch) || !grid || !opdiff::is_possible(*grid, batch->jobs[0].count))
        return -1;
    try {
        const auto work = std::make_unique<opdiff::Picture>();
        work->grid = grid;
        work->planes = planes;
        work->cells = cells;
        work->density = density;
        work->counts = counts;
        work->index.assign(static_cast<size_t>(grid->rank), 0);
        return opdiff::run(*batch, *work);
    } catch (const std::bad_alloc &) {
        return OD_NO_MEMORY;
    }
}

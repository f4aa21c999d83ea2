#include "strided_view.hpp"

#include <algorithm>
#include <cstring>

#include "scalars.hpp"

namespace opdiff {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 46;

// Indices per tile if the layout does not say.
constexpr int64_t kDefaultWidth = 16;
constexpr int64_t kMaxTileWidth = 64;

// Distance between columns of a strip: not a power of two, so that columns do not compete for cache lines.
constexpr int64_t kStripPitch = kStripRows + 32;

// Rows of a panel, as in the tiles of most layouts.
constexpr int64_t kPanelRows = 16;
// Distance between rows of a panel that is one block wide; padded for the same reason.
constexpr int64_t kPanelPitch = kBlock + 32;

bool is_unsplit(const od_axis &axis) { return axis.split == 1; }

od_axis strided_axis(int64_t extent, int64_t stride) { return {extent, 1, stride, 0}; }

// Whether runs and the indices of an axis, of `inner_count` elements each, divide each other.
bool runs_fit(int64_t run, int64_t inner_count, int64_t extent) {
    if (run <= inner_count)
        return inner_count % run == 0;
    const int64_t rows = run / inner_count;
    return run % inner_count == 0 && (extent % rows == 0 || rows % extent == 0);
}

}  // namespace

bool StridedView::set(const void *data, int size, int64_t stored, const od_axis *axes, int64_t rank, int64_t count) {
    data_ = static_cast<const unsigned char *>(data);
    size_ = size;
    if (count < 0 || count > kMaxElements || rank < 0 || rank > 64)
        return false;
    if (rank == 0)
        return count <= stored;
    int64_t product = 1, last = 0;
    for (int64_t i = 0; i < rank; ++i) {
        const od_axis &axis = axes[i];
        if (axis.extent < 1 || axis.split < 1 || axis.outer < 0 || axis.inner < 0 || axis.extent > kMaxElements ||
            axis.split > kMaxElements || axis.outer > kMaxElements || axis.inner > kMaxElements)
            return false;
        __int128 wide = static_cast<__int128>(product) * axis.extent;
        if (wide > kMaxElements)
            return false;
        product = static_cast<int64_t>(wide);
        const int64_t quotient = (axis.extent - 1) / axis.split, rest = (axis.extent - 1) % axis.split;
        __int128 far = static_cast<__int128>(quotient) * axis.outer + static_cast<__int128>(rest) * axis.inner;
        if (quotient)
            far = std::max(far, static_cast<__int128>(quotient - 1) * axis.outer +
                                    static_cast<__int128>(axis.split - 1) * axis.inner);
        if (far > kMaxElements || last + static_cast<int64_t>(far) > kMaxElements)
            return false;
        last += static_cast<int64_t>(far);
        axes_.push_back(axis);
    }
    if (product != count || last >= stored)
        return false;
    simplify();
    return true;
}

// Drops axes of extent 1, replaces splits that are plain strides, and merges adjacent axes.
void StridedView::simplify() {
    std::vector<od_axis> simplified;
    for (od_axis axis : axes_) {
        if (axis.extent == 1)
            continue;
        if (axis.split > 1 && (axis.extent <= axis.split || axis.outer == axis.split * axis.inner))
            axis = strided_axis(axis.extent, axis.inner);
        if (!simplified.empty() && is_unsplit(axis) && is_unsplit(simplified.back()) &&
            simplified.back().outer == axis.extent * axis.outer)
            simplified.back() = strided_axis(simplified.back().extent * axis.extent, axis.outer);
        else
            simplified.push_back(axis);
    }
    if (simplified.size() == 1 && is_unsplit(simplified[0]) && simplified[0].outer == 1)
        simplified.clear();
    axes_ = simplified;
    weights_.assign(axes_.size(), 1);
    for (size_t i = axes_.size(); i-- > 1;)
        weights_[i - 1] = weights_[i] * axes_[i].extent;
}

// Tiles pay off if an axis other than the last has unit stride.
void StridedView::plan_tiles(int64_t run) {
    if (axes_.size() < 2)
        return;
    int lane_axis = -1;
    for (size_t i = 0; i + 1 < axes_.size(); ++i)
        if ((is_unsplit(axes_[i]) ? axes_[i].outer : axes_[i].inner) == 1)
            lane_axis = static_cast<int>(i);
    if (lane_axis < 0)
        return plan_panels(run);
    od_axis &axis = axes_[static_cast<size_t>(lane_axis)];
    for (size_t i = static_cast<size_t>(lane_axis) + 1; i < axes_.size(); ++i)
        if (!is_unsplit(axes_[i]))
            return;
    const int64_t last = axes_.back().extent, inner_count = weights_[static_cast<size_t>(lane_axis)];
    in_strips_ = last >= kBlock;
    if ((!in_strips_ && inner_count > 2 * kStripRows) || (in_strips_ && last % run != 0) || axis.split > kMaxTileWidth)
        return;
    if (!runs_fit(run, inner_count, axis.extent))
        return;
    if (is_unsplit(axis))
        axis = {axis.extent, kDefaultWidth, kDefaultWidth, 1};
    lane_axis_ = lane_axis;
    width_ = static_cast<int>(axis.split);
    inner_count_ = inner_count;
    run_ = run;
    groups_ = ceil_div(axis.extent, width_);
    int64_t middle = 1, outer = 1;
    if (in_strips_) {
        strip_ = run <= kStripRows ? kStripRows / run * run : kStripRows;
        strips_in_run_ = ceil_div(run, strip_);
        strips_ = run <= kStripRows ? ceil_div(last, strip_) : last / run * strips_in_run_;
        middle = inner_count / last;
    }
    for (int i = 0; i < lane_axis; ++i)
        outer *= axes_[static_cast<size_t>(i)].extent;
    tiles_ = outer * groups_ * middle * strips_;
    tiles_per_group_ = find_group(run);
}

// Panels pay off if rows are adjacent in the tiles of the last axis: the parts of a single row are far apart, and their
// cache lines would be loaded again for each row.
void StridedView::plan_panels(int64_t run) {
    const od_axis &last = axes_.back(), &rows = axes_[axes_.size() - 2];
    if (is_unsplit(last) || last.inner != 1 || !is_unsplit(rows) || rows.outer != last.split || kBlock % last.split)
        return;
    // A panel consists of whole blocks.
    const bool is_wide = last.extent >= kBlock;
    if (is_wide ? run != last.extent : run != rows.extent * last.extent || kPanelRows * last.extent % kBlock)
        return;
    in_panels_ = true;
    panel_width_ = is_wide ? kBlock : last.extent;
    tiles_ = ceil_div(rows.extent, kPanelRows) * ceil_div(last.extent, panel_width_);
    for (size_t i = 0; i + 2 < axes_.size(); ++i)
        tiles_ *= axes_[i].extent;
}

int64_t StridedView::find_group(int64_t run) const {
    if (run <= inner_count_)
        return 1;
    const int64_t rows = run / inner_count_, extent = axes_[static_cast<size_t>(lane_axis_)].extent;
    if (rows < extent)
        return rows % width_ == 0 ? rows / width_ : groups_;
    return rows / extent * groups_;
}

StridedView::Rows StridedView::rows_of(int64_t strip) const {
    const int64_t last = axes_.back().extent;
    if (run_ <= kStripRows)
        return {strip * strip_, static_cast<int>(std::min(strip_, last - strip * strip_))};
    const int64_t inside = strip % strips_in_run_ * strip_;
    return {strip / strips_in_run_ * run_ + inside, static_cast<int>(std::min(strip_, run_ - inside))};
}

size_t StridedView::tile_bytes() const {
    if (in_panels_)
        return static_cast<size_t>(kPanelRows * kPanelPitch * size_);
    return static_cast<size_t>(width_ * (in_strips_ ? kStripPitch : inner_count_) * size_);
}

int64_t StridedView::offset(size_t axis, int64_t index) const {
    const od_axis &a = axes_[axis];
    return is_unsplit(a) ? index * a.outer : index / a.split * a.outer + index % a.split * a.inner;
}

const unsigned char *StridedView::copy_tile(int64_t tile, unsigned char *buffer, std::vector<Segment> &segments) const {
    segments.clear();
    if (in_panels_)
        return copy_panel(tile, buffer, segments);
    const size_t lane_axis = static_cast<size_t>(lane_axis_);
    const int64_t positions = in_strips_ ? inner_count_ / axes_.back().extent * strips_ : 1;
    const int64_t group = tile / positions % groups_;
    int64_t rest = tile / positions / groups_, start = group * width_ * inner_count_;
    const unsigned char *from = data_ + offset(lane_axis, group * width_) * size_;
    for (size_t i = lane_axis; i-- > 0;) {
        const int64_t index = rest % axes_[i].extent;
        rest /= axes_[i].extent;
        start += index * weights_[i];
        from += offset(i, index) * size_;
    }
    const int width = static_cast<int>(std::min<int64_t>(width_, axes_[lane_axis].extent - group * width_));
    if (in_strips_)
        return copy_strip(from, start, tile % positions, width, buffer, segments);
    // All rows of the tile, so that its columns are consecutive.
    const int64_t rows = axes_.back().extent;
    const unsigned char *end = from;
    for (int64_t done = 0; done < inner_count_; done += rows) {
        int64_t position = done / rows;
        const unsigned char *part = from;
        for (size_t i = axes_.size() - 1; i-- > lane_axis + 1;) {
            part += offset(i, position % axes_[i].extent) * size_;
            position /= axes_[i].extent;
        }
        kernel().transpose(part, size_, axes_.back().outer, static_cast<int>(rows), width, buffer + done * size_,
                           inner_count_);
        end = part + rows * axes_.back().outer * size_;
    }
    segments.push_back({start, static_cast<int>(inner_count_ * width), buffer});
    return end;
}

const unsigned char *StridedView::copy_strip(const unsigned char *from, int64_t start, int64_t position, int width,
                                       unsigned char *buffer, std::vector<Segment> &segments) const {
    const Rows rows = rows_of(position % strips_);
    int64_t between = position / strips_;
    for (size_t i = axes_.size() - 1; i-- > static_cast<size_t>(lane_axis_) + 1;) {
        const int64_t index = between % axes_[i].extent;
        between /= axes_[i].extent;
        start += index * weights_[i];
        from += offset(i, index) * size_;
    }
    const int64_t stride = axes_.back().outer;
    from += rows.first * stride * size_;
    kernel().transpose(from, size_, stride, rows.count, width, buffer, kStripPitch);
    for (int j = 0; j < width; ++j) {
        const unsigned char *column = buffer + j * kStripPitch * size_;
        segments.push_back({start + rows.first + j * inner_count_, rows.count, column});
    }
    return from + rows.count * stride * size_;
}

namespace {

// Segments of equal length, which is known at compile time: no calls of memcpy.
template <int Bytes>
void copy_pieces(const unsigned char *from, int64_t stride, int64_t segments, unsigned char *out, int64_t pitch) {
    for (int64_t i = 0; i < segments; ++i)
        std::memcpy(out + i * pitch, from + i * stride, Bytes);
}

// Returns false if no tile has that many bytes.
bool copy_tiles(int64_t bytes, const unsigned char *from, int64_t stride, int64_t segments, unsigned char *out,
                int64_t pitch) {
    switch (bytes) {
    case 16: copy_pieces<16>(from, stride, segments, out, pitch); return true;
    case 32: copy_pieces<32>(from, stride, segments, out, pitch); return true;
    case 64: copy_pieces<64>(from, stride, segments, out, pitch); return true;
    default: return false;
    }
}

}  // namespace

// Panels are ordered by column, then by row, like elements.
const unsigned char *StridedView::copy_panel(int64_t panel, unsigned char *buffer,
                                             std::vector<Segment> &segments) const {
    const od_axis &last = axes_.back();
    const size_t down = axes_.size() - 2;
    const int64_t panels = ceil_div(axes_[down].extent, kPanelRows), columns = ceil_div(last.extent, panel_width_);
    const int64_t column = panel % columns * panel_width_, row = panel / columns % panels * kPanelRows;
    const int64_t rows = std::min(kPanelRows, axes_[down].extent - row);
    const int64_t width = std::min(panel_width_, last.extent - column);
    int64_t rest = panel / panels / columns, start = row * last.extent + column;
    const unsigned char *from = data_ + (offset(down, row) + offset(down + 1, column)) * size_;
    for (size_t i = down; i-- > 0;) {
        start += rest % axes_[i].extent * weights_[i];
        from += offset(i, rest % axes_[i].extent) * size_;
        rest /= axes_[i].extent;
    }
    const bool is_wide = panel_width_ < last.extent;
    const int64_t pitch = (is_wide ? kPanelPitch : panel_width_) * size_, stride = last.split * size_;
    for (int64_t done = 0; done < width; done += last.split, from += last.outer * size_) {
        const int64_t bytes = std::min(last.split, width - done) * size_;
        unsigned char *out = buffer + done * size_;
        if (!copy_tiles(bytes, from, stride, rows, out, pitch))
            for (int64_t i = 0; i < rows; ++i)
                std::memcpy(out + i * pitch, from + i * stride, static_cast<size_t>(bytes));
    }
    if (!is_wide)
        segments.push_back({start, static_cast<int>(rows * width), buffer});
    for (int64_t i = 0; i < rows && is_wide; ++i)
        segments.push_back({start + i * last.extent, static_cast<int>(width), buffer + i * pitch});
    return buffer;
}

// Copies elements of the last axis from `index` on; returns their number.
int StridedView::gather_row(const unsigned char *from, int64_t index, int n, unsigned char *out) const {
    const od_axis &last = axes_.back();
    int count = static_cast<int>(std::min<int64_t>(n, last.extent - index));
    int64_t stride = last.outer;
    const int64_t whole = is_unsplit(last) || index % last.split ? 0 : count / last.split;
    if (whole > 1 && last.inner == 1 &&
        copy_tiles(last.split * size_, from + offset(axes_.size() - 1, index) * size_, last.outer * size_, whole, out,
                   last.split * size_))
        return static_cast<int>(whole * last.split);
    if (!is_unsplit(last)) {
        count = static_cast<int>(std::min<int64_t>(count, last.split - index % last.split));
        stride = last.inner;
    }
    from += offset(axes_.size() - 1, index) * size_;
    const size_t size = static_cast<size_t>(size_);
    if (stride == 1) {
        std::memcpy(out, from, static_cast<size_t>(count) * size);
        return count;
    }
    kernel().transpose(from, size_, stride, count, 1, out, count);
    return count;
}

PrefetchStream StridedView::ahead(int64_t start) const {
    if (contiguous())
        return {at(start), size_};
    const unsigned char *from = data_;
    for (size_t i = axes_.size(); i-- > 0;) {
        from += offset(i, start % axes_[i].extent) * size_;
        start /= axes_[i].extent;
    }
    return {from, axes_.back().outer * size_ / axes_.back().split};
}

void StridedView::gather(int64_t start, int n, unsigned char *out) const {
    if (contiguous()) {
        std::memcpy(out, at(start), static_cast<size_t>(n) * static_cast<size_t>(size_));
        return;
    }
    while (n > 0) {
        int64_t rest = start / axes_.back().extent, index = start % axes_.back().extent;
        const unsigned char *from = data_;
        for (size_t i = axes_.size() - 1; i-- > 0;) {
            from += offset(i, rest % axes_[i].extent) * size_;
            rest /= axes_[i].extent;
        }
        while (n > 0 && index < axes_.back().extent) {
            const int count = gather_row(from, index, n, out);
            index += count;
            start += count;
            n -= count;
            out += static_cast<int64_t>(count) * size_;
        }
    }
}

}  // namespace opdiff

#include "walk.hpp"

#include <algorithm>
#include <cstring>

#include "scalars.hpp"

namespace opdiff {
namespace {

constexpr int64_t kMost = int64_t{1} << 46;

// Elements that lie side by side and are taken together where a layout does not say how many.
constexpr int64_t kWidth = 16;
constexpr int64_t kWidest = 64;

// Columns of a strip do not begin at the same place of a page: they would compete for the same lines of the cache.
constexpr int64_t kPitch = kStrip + 32;

// Rows of a panel: as many as the tiles of most layouts have.
constexpr int64_t kPanel = 16;
// A row of a panel that is one block wide has more room than it needs, for the same reason.
constexpr int64_t kPanelPitch = kBlock + 32;

bool is_plain(const od_axis &axis) { return axis.split == 1; }

od_axis plain(int64_t extent, int64_t stride) { return {extent, 1, stride, 0}; }

// Whether runs end where an index of an axis does that has `behind` elements behind each of its indices, or divide them.
bool is_whole(int64_t run, int64_t behind, int64_t extent) {
    if (run <= behind)
        return behind % run == 0;
    const int64_t rows = run / behind;
    return run % behind == 0 && (extent % rows == 0 || rows % extent == 0);
}

}  // namespace

bool View::set(const void *data, int size, int64_t stored, const od_axis *axes, int64_t rank, int64_t count) {
    data_ = static_cast<const unsigned char *>(data);
    size_ = size;
    if (count < 0 || count > kMost || rank < 0 || rank > 64)
        return false;
    if (rank == 0)
        return count <= stored;
    int64_t product = 1, last = 0;
    for (int64_t i = 0; i < rank; ++i) {
        const od_axis &axis = axes[i];
        if (axis.extent < 1 || axis.split < 1 || axis.outer < 0 || axis.inner < 0 || axis.extent > kMost ||
            axis.split > kMost || axis.outer > kMost || axis.inner > kMost)
            return false;
        __int128 wide = static_cast<__int128>(product) * axis.extent;
        if (wide > kMost)
            return false;
        product = static_cast<int64_t>(wide);
        const int64_t quotient = (axis.extent - 1) / axis.split, rest = (axis.extent - 1) % axis.split;
        __int128 far = static_cast<__int128>(quotient) * axis.outer + static_cast<__int128>(rest) * axis.inner;
        if (quotient)
            far = std::max(far, static_cast<__int128>(quotient - 1) * axis.outer +
                                    static_cast<__int128>(axis.split - 1) * axis.inner);
        if (far > kMost || last + static_cast<int64_t>(far) > kMost)
            return false;
        last += static_cast<int64_t>(far);
        axes_.push_back(axis);
    }
    if (product != count || last >= stored)
        return false;
    simplify();
    return true;
}

// Axes of one index are dropped, tiles that are none become strides, and neighbours that follow each other are joined.
void View::simplify() {
    std::vector<od_axis> kept;
    for (od_axis axis : axes_) {
        if (axis.extent == 1)
            continue;
        if (axis.split > 1 && (axis.extent <= axis.split || axis.outer == axis.split * axis.inner))
            axis = plain(axis.extent, axis.inner);
        if (!kept.empty() && is_plain(axis) && is_plain(kept.back()) &&
            kept.back().outer == axis.extent * axis.outer)
            kept.back() = plain(kept.back().extent * axis.extent, axis.outer);
        else
            kept.push_back(axis);
    }
    if (kept.size() == 1 && is_plain(kept[0]) && kept[0].outer == 1)
        kept.clear();
    axes_ = kept;
    weights_.assign(axes_.size(), 1);
    for (size_t i = axes_.size(); i-- > 1;)
        weights_[i - 1] = weights_[i] * axes_[i].extent;
}

// Tiles are worth it where some axis but the last has its neighbours side by side.
void View::plan_tiles(int64_t run) {
    if (axes_.size() < 2)
        return;
    int lane = -1;
    for (size_t i = 0; i + 1 < axes_.size(); ++i)
        if ((is_plain(axes_[i]) ? axes_[i].outer : axes_[i].inner) == 1)
            lane = static_cast<int>(i);
    if (lane < 0)
        return plan_panels(run);
    od_axis &axis = axes_[static_cast<size_t>(lane)];
    for (size_t i = static_cast<size_t>(lane) + 1; i < axes_.size(); ++i)
        if (!is_plain(axes_[i]))
            return;
    const int64_t last = axes_.back().extent, behind = weights_[static_cast<size_t>(lane)];
    in_strips_ = last >= kBlock;
    if ((!in_strips_ && behind > 2 * kStrip) || (in_strips_ && last % run != 0) || axis.split > kWidest)
        return;
    if (!is_whole(run, behind, axis.extent))
        return;
    if (is_plain(axis))
        axis = {axis.extent, kWidth, kWidth, 1};
    lane_ = lane;
    width_ = static_cast<int>(axis.split);
    behind_ = behind;
    run_ = run;
    groups_ = ceil_div(axis.extent, width_);
    int64_t middle = 1, outer = 1;
    if (in_strips_) {
        strip_ = run <= kStrip ? kStrip / run * run : kStrip;
        strips_in_run_ = ceil_div(run, strip_);
        strips_ = run <= kStrip ? ceil_div(last, strip_) : last / run * strips_in_run_;
        middle = behind / last;
    }
    for (int i = 0; i < lane; ++i)
        outer *= axes_[static_cast<size_t>(i)].extent;
    tiles_ = outer * groups_ * middle * strips_;
    together_ = find_together(run);
}

// Panels are worth it where rows lie side by side in the tiles of the last axis: the pieces of a single row are far
// apart, and what lies beside them would come into the cache for each row anew.
void View::plan_panels(int64_t run) {
    const od_axis &last = axes_.back(), &rows = axes_[axes_.size() - 2];
    if (is_plain(last) || last.inner != 1 || !is_plain(rows) || rows.outer != last.split || kBlock % last.split)
        return;
    // A panel holds whole blocks.
    const bool is_wide = last.extent >= kBlock;
    if (is_wide ? run != last.extent : run != rows.extent * last.extent || kPanel * last.extent % kBlock)
        return;
    in_panels_ = true;
    panel_width_ = is_wide ? kBlock : last.extent;
    tiles_ = ceil_div(rows.extent, kPanel) * ceil_div(last.extent, panel_width_);
    for (size_t i = 0; i + 2 < axes_.size(); ++i)
        tiles_ *= axes_[i].extent;
}

int64_t View::find_together(int64_t run) const {
    if (run <= behind_)
        return 1;
    const int64_t rows = run / behind_, extent = axes_[static_cast<size_t>(lane_)].extent;
    if (rows < extent)
        return rows % width_ == 0 ? rows / width_ : groups_;
    return rows / extent * groups_;
}

View::Rows View::rows_of(int64_t strip) const {
    const int64_t last = axes_.back().extent;
    if (run_ <= kStrip)
        return {strip * strip_, static_cast<int>(std::min(strip_, last - strip * strip_))};
    const int64_t inside = strip % strips_in_run_ * strip_;
    return {strip / strips_in_run_ * run_ + inside, static_cast<int>(std::min(strip_, run_ - inside))};
}

size_t View::tile_bytes() const {
    if (in_panels_)
        return static_cast<size_t>(kPanel * kPanelPitch * size_);
    return static_cast<size_t>(width_ * (in_strips_ ? kPitch : behind_) * size_);
}

int64_t View::offset(size_t axis, int64_t index) const {
    const od_axis &a = axes_[axis];
    return is_plain(a) ? index * a.outer : index / a.split * a.outer + index % a.split * a.inner;
}

const unsigned char *View::visit(int64_t tile, unsigned char *buffer, std::vector<Piece> &pieces) const {
    pieces.clear();
    if (in_panels_)
        return visit_panel(tile, buffer, pieces);
    const size_t lane = static_cast<size_t>(lane_);
    const int64_t places = in_strips_ ? behind_ / axes_.back().extent * strips_ : 1;
    const int64_t group = tile / places % groups_;
    int64_t rest = tile / places / groups_, start = group * width_ * behind_;
    const unsigned char *from = data_ + offset(lane, group * width_) * size_;
    for (size_t i = lane; i-- > 0;) {
        const int64_t index = rest % axes_[i].extent;
        rest /= axes_[i].extent;
        start += index * weights_[i];
        from += offset(i, index) * size_;
    }
    const int width = static_cast<int>(std::min<int64_t>(width_, axes_[lane].extent - group * width_));
    if (in_strips_)
        return visit_strip(from, start, tile % places, width, buffer, pieces);
    // All rows behind the lane, so that its columns follow each other.
    const int64_t rows = axes_.back().extent;
    const unsigned char *end = from;
    for (int64_t done = 0; done < behind_; done += rows) {
        int64_t place = done / rows;
        const unsigned char *part = from;
        for (size_t i = axes_.size() - 1; i-- > lane + 1;) {
            part += offset(i, place % axes_[i].extent) * size_;
            place /= axes_[i].extent;
        }
        kernel().transpose(part, size_, axes_.back().outer, static_cast<int>(rows), width, buffer + done * size_, behind_);
        end = part + rows * axes_.back().outer * size_;
    }
    pieces.push_back({start, static_cast<int>(behind_ * width), buffer});
    return end;
}

const unsigned char *View::visit_strip(const unsigned char *from, int64_t start, int64_t place, int width,
                                       unsigned char *buffer, std::vector<Piece> &pieces) const {
    const Rows rows = rows_of(place % strips_);
    int64_t between = place / strips_;
    for (size_t i = axes_.size() - 1; i-- > static_cast<size_t>(lane_) + 1;) {
        const int64_t index = between % axes_[i].extent;
        between /= axes_[i].extent;
        start += index * weights_[i];
        from += offset(i, index) * size_;
    }
    const int64_t stride = axes_.back().outer;
    from += rows.first * stride * size_;
    kernel().transpose(from, size_, stride, rows.count, width, buffer, kPitch);
    for (int j = 0; j < width; ++j) {
        const unsigned char *column = buffer + j * kPitch * size_;
        pieces.push_back({start + rows.first + j * behind_, rows.count, column});
    }
    return from + rows.count * stride * size_;
}

namespace {

// Pieces of equal length; the length is known to the compiler, so that none is a call.
template <int Bytes>
void copy_pieces(const unsigned char *from, int64_t stride, int64_t pieces, unsigned char *out, int64_t pitch) {
    for (int64_t i = 0; i < pieces; ++i)
        std::memcpy(out + i * pitch, from + i * stride, Bytes);
}

// False when no tile has that many bytes.
bool copy_tiles(int64_t bytes, const unsigned char *from, int64_t stride, int64_t pieces, unsigned char *out,
                int64_t pitch) {
    switch (bytes) {
    case 16: copy_pieces<16>(from, stride, pieces, out, pitch); return true;
    case 32: copy_pieces<32>(from, stride, pieces, out, pitch); return true;
    case 64: copy_pieces<64>(from, stride, pieces, out, pitch); return true;
    default: return false;
    }
}

}  // namespace

// Panels follow each other from column to column, then from row to row, as elements do.
const unsigned char *View::visit_panel(int64_t panel, unsigned char *buffer, std::vector<Piece> &pieces) const {
    const od_axis &last = axes_.back();
    const size_t down = axes_.size() - 2;
    const int64_t panels = ceil_div(axes_[down].extent, kPanel), columns = ceil_div(last.extent, panel_width_);
    const int64_t column = panel % columns * panel_width_, row = panel / columns % panels * kPanel;
    const int64_t rows = std::min(kPanel, axes_[down].extent - row);
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
        pieces.push_back({start, static_cast<int>(rows * width), buffer});
    for (int64_t i = 0; i < rows && is_wide; ++i)
        pieces.push_back({start + i * last.extent, static_cast<int>(width), buffer + i * pitch});
    return buffer;
}

// Elements of the last axis from `index` on; returns how many.
int View::gather_row(const unsigned char *from, int64_t index, int n, unsigned char *out) const {
    const od_axis &last = axes_.back();
    int count = static_cast<int>(std::min<int64_t>(n, last.extent - index));
    int64_t stride = last.outer;
    const int64_t whole = is_plain(last) || index % last.split ? 0 : count / last.split;
    if (whole > 1 && last.inner == 1 &&
        copy_tiles(last.split * size_, from + offset(axes_.size() - 1, index) * size_, last.outer * size_, whole, out,
                   last.split * size_))
        return static_cast<int>(whole * last.split);
    if (!is_plain(last)) {
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

Lane View::ahead(int64_t start) const {
    if (contiguous())
        return {at(start), size_};
    const unsigned char *from = data_;
    for (size_t i = axes_.size(); i-- > 0;) {
        from += offset(i, start % axes_[i].extent) * size_;
        start /= axes_[i].extent;
    }
    return {from, axes_.back().outer * size_ / axes_.back().split};
}

void View::gather(int64_t start, int n, unsigned char *out) const {
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

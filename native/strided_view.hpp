// Addresses of the elements of a tensor, and the order in which they are visited.
//
// A stored layout is a list of axes, each with one stride, or split into blocks with two. Elements are copied in
// logical order. If an axis other than the last has unit stride (NC1HWC0), tiles are transposed in a buffer that stays
// in the cache; if tiles hold parts of several rows (FRACTAL_NZ), these rows are copied together, as a panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace opdiff {

// Rows of a strip that is transposed at once.
constexpr int kStripRows = 2 * kBlock;

class StridedView {
public:
    // Returns false unless the axes describe `count` elements within the `stored` ones.
    bool set(const void *data, int size, int64_t stored, const od_axis *axes, int64_t rank, int64_t count);

    bool contiguous() const { return axes_.empty(); }
    bool tiled() const { return lane_axis_ >= 0 || in_panels_; }
    // Whether consecutive elements are far apart in memory.
    bool scattered() const { return !contiguous() && lane_axis_ < 0; }
    // Address of an element; only if contiguous.
    const unsigned char *at(int64_t start) const { return data_ + start * size_; }
    // Addresses of the elements from the logical index `start` on, which may be beyond the last.
    PrefetchStream ahead(int64_t start) const;
    // Copies `n` elements from the logical index `start` on.
    void gather(int64_t start, int n, unsigned char *out) const;

    // Plans tiles, unless runs do not fit in them; a new block starts every `run` elements.
    void plan_tiles(int64_t run);
    // Number of tiles, and how many consecutive ones hold whole runs.
    int64_t tiles() const { return tiles_; }
    int64_t tiles_per_group() const { return tiles_per_group_; }

    // Consecutive elements of a tile: logical index of the first, their number, and their codes in the buffer.
    struct Segment {
        int64_t start;
        int n;
        const unsigned char *codes;
    };
    // Copies one tile in logical order to `buffer`, of tile_bytes(), and lists its segments; returns the probable
    // address of the next tile.
    const unsigned char *copy_tile(int64_t tile, unsigned char *buffer, std::vector<Segment> &segments) const;
    size_t tile_bytes() const;

private:
    struct Rows {
        int64_t first;
        int count;
    };

    void simplify();
    void plan_panels(int64_t run);
    const unsigned char *copy_panel(int64_t panel, unsigned char *buffer, std::vector<Segment> &segments) const;
    int64_t find_group(int64_t run) const;
    Rows rows_of(int64_t strip) const;
    const unsigned char *copy_strip(const unsigned char *from, int64_t start, int64_t position, int width,
                                     unsigned char *buffer, std::vector<Segment> &segments) const;
    int64_t offset(size_t axis, int64_t index) const;
    int gather_row(const unsigned char *from, int64_t index, int n, unsigned char *out) const;

    const unsigned char *data_ = nullptr;
    int size_ = 1;
    std::vector<od_axis> axes_;
    std::vector<int64_t> weights_;  // logical elements per index of each axis
    // Tiles: the axis with unit stride, how many of its indices a tile has, and the elements per index.
    int lane_axis_ = -1, width_ = 0;
    int64_t inner_count_ = 0;
    // Strips of a long last axis: their number, rows per strip, strips per run.
    bool in_strips_ = false;
    int64_t strips_ = 1, strip_ = 0, strips_in_run_ = 1, run_ = 0;
    int64_t groups_ = 0, tiles_ = 0, tiles_per_group_ = 1;
    // Panels: some rows of the last axis, all of it or one block wide.
    bool in_panels_ = false;
    int64_t panel_width_ = 0;
};

}  // namespace opdiff

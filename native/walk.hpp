// Where the elements of a tensor are, and the order in which they are visited.
//
// A stored layout is a list of axes, each with a stride, or cut in tiles and then with two. Elements are handed out in
// logical order, copied together from where they are. In a layout whose channels lie side by side, a tile of it is
// transposed in a buffer that stays in the cache; in one whose tiles hold pieces of several rows, these rows are copied
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace opdiff {

// Rows of a tile that is transposed at once.
constexpr int kStrip = 2 * kBlock;

class View {
public:
    // False when the axes do not make up `count` elements inside the `stored` ones.
    bool set(const void *data, int size, int64_t stored, const od_axis *axes, int64_t rank, int64_t count);

    bool contiguous() const { return axes_.empty(); }
    bool tiled() const { return lane_ >= 0 || in_panels_; }
    // Whether elements are fetched from places that are far apart.
    bool scattered() const { return !contiguous() && lane_ < 0; }
    // One behind the other from here on; only when contiguous.
    const unsigned char *at(int64_t start) const { return data_ + start * size_; }
    // Where the elements from the logical index `start` on will be looked for, which may be beyond the last.
    Lane ahead(int64_t start) const;
    // `n` elements from the logical index `start` on, one behind the other.
    void gather(int64_t start, int n, unsigned char *out) const;

    // Looks for tiles; blocks are cut anew every `run` elements. There are none where runs do not fit in tiles.
    void plan_tiles(int64_t run);
    // The tiles in which a tiled view is visited, and how many of them hold whole runs.
    int64_t tiles() const { return tiles_; }
    int64_t tiles_together() const { return together_; }

    // A part of a tile: logical indices and how many elements are stored behind each other in the buffer.
    struct Piece {
        int64_t start;
        int n;
        const unsigned char *codes;
    };
    // Copies one tile in logical order into `buffer`, of tile_bytes(), and lists what is in it; returns where the next
    // one may begin.
    const unsigned char *visit(int64_t tile, unsigned char *buffer, std::vector<Piece> &pieces) const;
    size_t tile_bytes() const;

private:
    struct Rows {
        int64_t first;
        int count;
    };

    void simplify();
    void plan_panels(int64_t run);
    const unsigned char *visit_panel(int64_t panel, unsigned char *buffer, std::vector<Piece> &pieces) const;
    int64_t find_together(int64_t run) const;
    Rows rows_of(int64_t strip) const;
    const unsigned char *visit_strip(const unsigned char *from, int64_t start, int64_t place, int width,
                                     unsigned char *buffer, std::vector<Piece> &pieces) const;
    int64_t offset(size_t axis, int64_t index) const;
    int gather_row(const unsigned char *from, int64_t index, int n, unsigned char *out) const;

    const unsigned char *data_ = nullptr;
    int size_ = 1;
    std::vector<od_axis> axes_;
    std::vector<int64_t> weights_;  // logical elements to the next index of each axis
    // Tiles: the axis whose neighbours lie side by side, so many of them at once, and the elements behind each index.
    int lane_ = -1, width_ = 0;
    int64_t behind_ = 0;
    // A long last axis is visited in strips of rows: so many, of this length, so many of them in one run.
    bool in_strips_ = false;
    int64_t strips_ = 1, strip_ = 0, strips_in_run_ = 1, run_ = 0;
    int64_t groups_ = 0, tiles_ = 0, together_ = 1;
    // Tiles that are panels: some rows of the last axis, all of it or one block wide.
    bool in_panels_ = false;
    int64_t panel_width_ = 0;
};

}  // namespace opdiff

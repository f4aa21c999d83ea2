#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "integers.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

void pad(float *numbers, int n) { std::fill(numbers + n, numbers + ceil_div(n, kPadding) * kPadding, 0.0f); }
void pad(double *, int) {}

}  // namespace

const unsigned char *Worker::fetch(const View &view, int64_t start, int n, std::vector<unsigned char> &buffer) {
    if (view.contiguous())
        return view.at(start);
    view.gather(start, n, buffer.data());
    return buffer.data();
}

// Calls visit(codes, n) for every block of a unit.
template <typename Visit> void Worker::each_block(const Pair &pair, int64_t unit, Visit visit) {
    if (pair.guide())
        return each_tile_block(pair, unit, visit);
    int64_t start = unit * pair.unit_, end = std::min(start + pair.unit_, pair.count);
    if (pair.run > kUnit) {
        const int64_t parts = ceil_div(pair.run, pair.unit_), first = unit / parts * pair.run;
        start = first + unit % parts * pair.unit_;
        end = std::min(start + pair.unit_, first + pair.run);
    }
    while (start < end) {
        const int64_t left = pair.run - start % pair.run;
        const int n = static_cast<int>(std::min<int64_t>(std::min<int64_t>(left, end - start), kBlock));
        const View &x = pair.target.view, &y = pair.golden.view;
        const Ahead ahead{x.ahead(start + n), y.ahead(start + n)};
        visit(Codes{start, fetch(x, start, n, x_block_), fetch(y, start, n, y_block_), ahead, nullptr}, n);
        start += n;
    }
}

// The same, in the order of the tiles of one side. A block that begins in one piece may go on in the next.
template <typename Visit> void Worker::each_tile_block(const Pair &pair, int64_t unit, Visit visit) {
    const View &tiles = *pair.guide();
    const bool is_target = &tiles == &pair.target.view;
    const int64_t size = is_target ? pair.target.size : pair.golden.size;
    std::vector<unsigned char> &begun = is_target ? x_block_ : y_block_;
    if (tile_.size() < tiles.tile_bytes())
        tile_.resize(tiles.tile_bytes());
    // While a tile is measured, the next one is asked for bit by bit; and of the other side the block that is next.
    const auto hand_over = [&](int64_t start, int n, const unsigned char *codes, Lane next_tile, int64_t next) {
        const View &other = is_target ? pair.golden.view : pair.target.view;
        const unsigned char *beside = fetch(other, start, n, is_target ? y_block_ : x_block_);
        const Lane ahead = other.ahead(next);
        if (is_target)
            visit(Codes{start, codes, beside, {next_tile, ahead}, nullptr}, n);
        else
            visit(Codes{start, beside, codes, {ahead, next_tile}, nullptr}, n);
    };
    int held = 0;
    for (int64_t tile = unit * pair.unit_; tile < std::min((unit + 1) * pair.unit_, tiles.tiles()); ++tile) {
        Lane next_tile{tiles.visit(tile, tile_.data(), pieces_), size};
        const int64_t beyond = pieces_.front().start + pieces_.front().n;
        for (size_t number = 0; number < pieces_.size(); ++number) {
            const View::Piece &piece = pieces_[number];
            const int64_t after = number + 1 < pieces_.size() ? pieces_[number + 1].start : beyond;
            for (int done = 0; done < piece.n;) {
                const int64_t at = piece.start + done, block = at - held, place = block % pair.run;
                const int whole = static_cast<int>(std::min<int64_t>(kBlock - place % kBlock, pair.run - place));
                const int n = std::min(whole - held, piece.n - done);
                const unsigned char *codes = piece.codes + done * size;
                done += n;
                if (n < whole) {
                    std::memcpy(begun.data() + held * size, codes, static_cast<size_t>(n * size));
                    held += n;
                    if (held < whole)
                        continue;
                    codes = begun.data();
                }
                hand_over(block, whole, codes, next_tile, done < piece.n ? at + n : after);
                next_tile.from += whole * size;
                held = 0;
            }
        }
    }
}

// --- Numbers

Worker::Worker() : x_block_(kBlock * 8), y_block_(kBlock * 8) {}

template <> Worker::Numbers<float> &Worker::numbers<float>() { return single_; }
template <> Worker::Numbers<double> &Worker::numbers<double>() { return wide_; }
template <> const Arithmetic<float> &Worker::arithmetic<float>() const { return kernel().single; }
template <> const Arithmetic<double> &Worker::arithmetic<double>() const { return kernel().wide; }

template <typename Real>
const Real *Worker::decode(const Side &side, const unsigned char *codes, int n, Real *buffer) const {
    if constexpr (std::is_same_v<Real, float>)
        if (side.kind == OD_FLOAT32 && n == kBlock && reinterpret_cast<uintptr_t>(codes) % alignof(float) == 0)
            return reinterpret_cast<const float *>(codes);
    arithmetic<Real>().decode(codes, side.kind, side.table, n, buffer);
    pad(buffer, n);
    return buffer;
}

void Worker::first_pass(const Pair &pair, int64_t unit, Sums &sums) {
    const bool narrow = pair.is_narrow();
    each_block(pair, unit, [&](const Codes &codes, int n) {
        if (narrow)
            measure<float>(pair, codes, n, sums);
        else
            measure<double>(pair, codes, n, sums);
    });
}

template <typename Real> void Worker::measure(const Pair &pair, const Codes &codes, int n, Sums &sums) {
    Numbers<Real> &buffers = numbers<Real>();
    const Real *x = decode(pair.target, codes.x, n, buffers.x), *y = decode(pair.golden, codes.y, n, buffers.y);
    widen_integers(pair.target, codes.x, n, sums.target);
    widen_integers(pair.golden, codes.y, n, sums.golden);
    if (measure_finite(pair, x, y, n, codes, sums))
        return;
    // There are NaNs or infinities, or numbers whose squares are too large.
    const int kept = keep_finite(codes.start, n, x, y, sums);
    Codes finite = codes;
    finite.places = places_;
    if (kept == n || (kept && !measure_finite<Real>(pair, buffers.x, buffers.y, kept, finite, sums)))
        sums.beyond_range = true;
}

template <typename Real>
const Real *Worker::take_errors(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes) {
    Real *errors = numbers<Real>().errors;
    for (int i = 0; i < n; ++i)
        errors[i] = x[i] - y[i];
    if constexpr (std::is_same_v<Real, double>) {
        if (pair.has_wide_integers())
            for (int i = 0; i < n; ++i)
                errors[i] = exact_error(pair, codes, i, x[i], y[i]);
    }
    return errors;
}

// Adds the sums of numbers that are all finite; false, and nothing is added, when they or their squares are not.
template <typename Real>
bool Worker::measure_finite(const Pair &pair, const Real *x, const Real *y, int n, const Codes &codes, Sums &sums) {
    Block block;
    const Arithmetic<Real> &work = arithmetic<Real>();
    const Real *errors = std::is_same_v<Real, double> ? take_errors(pair, x, y, n, codes) : nullptr;
    work.measure(x, y, errors, n, pair.scale, codes.ahead, block);
    if (!std::isfinite(block.xx + block.yy))
        return false;
    if constexpr (std::is_same_v<Real, float>) {
        if (block.overflowed) {
            std::copy(x, x + n, wide_.x);
            std::copy(y, y + n, wide_.y);
            return measure_finite<double>(pair, wide_.x, wide_.y, n, codes, sums);
        }
    }
    if (!std::isfinite(block.dd + block.relative))
        return false;
    sums.add(block, n);
    const auto note = [&](Extreme &extreme, Measure measure, double value) {
        if (!extreme.may_yield_to(value, codes.start) || (value == 0 && measure == Measure::kRelative))
            return;
        if (!errors)
            errors = take_errors(pair, x, y, n, codes);
        const int i = work.find(x, y, errors, n, pair.scale, measure, value);
        extreme.offer(shown(pair, codes, i, static_cast<double>(x[i]), static_cast<double>(y[i]), value));
    };
    if (pair.has_wide_integers() && pair.target.is_integer() && pair.golden.is_integer()) {
        const Extreme found = worst_integer(pair, codes, n);
        sums.worst.offer(found);
        sums.worst_ulps.offer(found);
    } else {
        note(sums.worst, Measure::kError, block.worst);
        note(sums.worst_ulps, Measure::kUlps, block.worst_ulps);
    }
    note(sums.worst_relative, Measure::kRelative, block.worst_relative);
    return true;
}

// Counts NaNs and infinities, and moves the pairs that are finite on both sides to the front of the buffers.
template <typename Real> int Worker::keep_finite(int64_t start, int n, const Real *x, const Real *y, Sums &sums) {
    Numbers<Real> &buffers = numbers<Real>();
    int kept = 0;
    for (int i = 0; i < n; ++i) {
        const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
        if (std::isfinite(a) && std::isfinite(b)) {
            buffers.x[kept] = x[i];
            buffers.y[kept] = y[i];
            places_[kept++] = i;
        } else {
            sums.add_special(a, b, start + i);
        }
    }
    pad(buffers.x, kept);
    pad(buffers.y, kept);
    return kept;
}

// --- The second pass

void Worker::second_pass(const Pair &pair, int64_t unit, Second &second) {
    const bool narrow = pair.is_narrow() && !second.in_double;
    each_block(pair, unit, [&](const Codes &codes, int n) {
        if (narrow)
            measure_again<float>(pair, codes, n, second);
        else
            measure_again<double>(pair, codes, n, second);
    });
}

template <typename Real>
void Worker::measure_again(const Pair &pair, const Codes &codes, int n, Second &second) {
    Numbers<Real> &buffers = numbers<Real>();
    const Arithmetic<Real> &work = arithmetic<Real>();
    const Real *x = decode(pair.target, codes.x, n, buffers.x), *y = decode(pair.golden, codes.y, n, buffers.y);
    if (second.with_kl) {
        KlSums sums;
        work.divergence(x, y, n, second.scale, codes.ahead, sums);
        second.p.add(sums.p);
        second.q.add(sums.q);
        second.terms.add(sums.terms);
    }
    if (!second.with_moments && !second.for_graphs)
        return;
    if (!work.is_finite(x, n) || !work.is_finite(y, n)) {
        int kept = 0;
        for (int i = 0; i < n; ++i) {
            const double a = static_cast<double>(x[i]) - second.pivot_x, b = static_cast<double>(y[i]) - second.pivot_y;
            if (std::isfinite(a) && std::isfinite(b)) {
                buffers.x[kept] = x[i];
                buffers.y[kept++] = y[i];
            } else if (std::isfinite(a)) {
                second.x_alone.add(a);
                second.xx_alone.add(a * a);
            } else if (std::isfinite(b)) {
                second.y_alone.add(b);
                second.yy_alone.add(b * b);
            }
        }
        x = buffers.x, y = buffers.y, n = kept;
    }
    if (second.for_graphs) {
        od_graph graph;
        work.graph(x, y, n, second.tops, graph);
        second.add(graph);
    }
    if (!second.with_moments)
        return;
    Moments moments;
    work.moments(x, y, n, second.pivot_x, second.pivot_y, moments);
    second.x.add(moments.x);
    second.y.add(moments.y);
    second.xx.add(moments.xx);
    second.yy.add(moments.yy);
    second.xy.add(moments.xy);
}

}  // namespace opdiff

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

// Largest |x - y|, which single precision would round.
double largest_error(const float *x, const float *y, int n) {
    double worst = 0;
#pragma omp simd reduction(max : worst)
    for (int i = 0; i < n; ++i) {
        const double size = std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
        worst = size > worst ? size : worst;
    }
    return worst;
}

}  // namespace

const unsigned char *Worker::fetch(const StridedView &view, int64_t start, int n, std::vector<unsigned char> &buffer) {
    if (view.contiguous())
        return view.at(start);
    view.gather(start, n, buffer.data());
    return buffer.data();
}

// Calls visit(codes, n) for every block of a unit.
template <typename Visit> void Worker::for_each_block(const Pair &pair, int64_t unit, Visit visit) {
    if (pair.tiled_view())
        return for_each_tile_block(pair, unit, visit);
    int64_t start = unit * pair.unit_, end = std::min(start + pair.unit_, pair.count);
    if (pair.run > kUnitElements) {
        const int64_t parts = ceil_div(pair.run, pair.unit_), first = unit / parts * pair.run;
        start = first + unit % parts * pair.unit_;
        end = std::min(start + pair.unit_, first + pair.run);
    }
    while (start < end) {
        const int64_t left = pair.run - start % pair.run;
        const int n = static_cast<int>(std::min<int64_t>(std::min<int64_t>(left, end - start), kBlock));
        const StridedView &x = pair.target.view, &y = pair.golden.view;
        const PrefetchStreams ahead{x.ahead(start + n), y.ahead(start + n)};
        visit(EncodedBlock{start, fetch(x, start, n, x_block_), fetch(y, start, n, y_block_), ahead, nullptr}, n);
        start += n;
    }
}

// The same in the order of the tiles of one side. A block may continue from one segment to the next.
template <typename Visit> void Worker::for_each_tile_block(const Pair &pair, int64_t unit, Visit visit) {
    const StridedView &tiles = *pair.tiled_view();
    const bool is_target = &tiles == &pair.target.view;
    const int64_t size = is_target ? pair.target.size : pair.golden.size;
    std::vector<unsigned char> &partial = is_target ? x_block_ : y_block_;
    if (tile_.size() < tiles.tile_bytes())
        tile_.resize(tiles.tile_bytes());
    // Measuring a tile prefetches the next tile, and the next block of the other side.
    const auto emit = [&](int64_t start, int n, const unsigned char *codes, PrefetchStream next_tile, int64_t next) {
        const StridedView &other = is_target ? pair.golden.view : pair.target.view;
        const unsigned char *other_codes = fetch(other, start, n, is_target ? y_block_ : x_block_);
        const PrefetchStream ahead = other.ahead(next);
        if (is_target)
            visit(EncodedBlock{start, codes, other_codes, {next_tile, ahead}, nullptr}, n);
        else
            visit(EncodedBlock{start, other_codes, codes, {ahead, next_tile}, nullptr}, n);
    };
    int buffered = 0;
    for (int64_t tile = unit * pair.unit_; tile < std::min((unit + 1) * pair.unit_, tiles.tiles()); ++tile) {
        PrefetchStream next_tile{tiles.copy_tile(tile, tile_.data(), segments_), size};
        const int64_t beyond = segments_.front().start + segments_.front().n;
        for (size_t number = 0; number < segments_.size(); ++number) {
            const StridedView::Segment &segment = segments_[number];
            const int64_t after = number + 1 < segments_.size() ? segments_[number + 1].start : beyond;
            for (int done = 0; done < segment.n;) {
                const int64_t at = segment.start + done, block = at - buffered, position = block % pair.run;
                const int whole = static_cast<int>(std::min<int64_t>(kBlock - position % kBlock, pair.run - position));
                const int n = std::min(whole - buffered, segment.n - done);
                const unsigned char *codes = segment.codes + done * size;
                done += n;
                if (n < whole) {
                    std::memcpy(partial.data() + buffered * size, codes, static_cast<size_t>(n * size));
                    buffered += n;
                    if (buffered < whole)
                        continue;
                    codes = partial.data();
                }
                emit(block, whole, codes, next_tile, done < segment.n ? at + n : after);
                next_tile.from += whole * size;
                buffered = 0;
            }
        }
    }
}

// --- First pass

Worker::Worker() : x_block_(kBlock * 8), y_block_(kBlock * 8) {}

template <> Worker::Buffers<float> &Worker::numbers<float>() { return floats_; }
template <> Worker::Buffers<double> &Worker::numbers<double>() { return doubles_; }
template <> const BlockFunctions<float> &Worker::functions<float>() const { return kernel().floats; }
template <> const BlockFunctions<double> &Worker::functions<double>() const { return kernel().doubles; }

template <typename Real>
const Real *Worker::decode(const Side &side, const unsigned char *codes, int n, Real *buffer) const {
    if constexpr (std::is_same_v<Real, float>)
        if (side.kind == OD_FLOAT32 && n == kBlock && reinterpret_cast<uintptr_t>(codes) % alignof(float) == 0)
            return reinterpret_cast<const float *>(codes);
    functions<Real>().decode(codes, side.kind, side.table, n, buffer);
    pad(buffer, n);
    return buffer;
}

void Worker::first_pass(const Pair &pair, int64_t unit, Sums &sums) {
    const bool in_float = pair.is_summed_in_float();
    for_each_block(pair, unit, [&](const EncodedBlock &codes, int n) {
        if (in_float)
            measure<float>(pair, codes, n, sums);
        else
            measure<double>(pair, codes, n, sums);
    });
}

template <typename Real> void Worker::measure(const Pair &pair, const EncodedBlock &codes, int n, Sums &sums) {
    Buffers<Real> &buffers = numbers<Real>();
    const Real *x = decode(pair.target, codes.x, n, buffers.x), *y = decode(pair.golden, codes.y, n, buffers.y);
    update_integer_range(pair.target, codes.x, n, sums.target);
    update_integer_range(pair.golden, codes.y, n, sums.golden);
    if (measure_finite(pair, x, y, n, codes, sums))
        return;
    // NaNs, infinities, or numbers whose squares overflow.
    const int finite_count = compact_finite(codes.start, n, x, y, sums);
    EncodedBlock finite = codes;
    finite.positions = positions_;
    if (finite_count == n ||
        (finite_count && !measure_finite<Real>(pair, buffers.x, buffers.y, finite_count, finite, sums)))
        sums.beyond_range = true;
}

template <typename Real>
const Real *Worker::compute_errors(const Pair &pair, const Real *x, const Real *y, int n, const EncodedBlock &codes) {
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

// Adds the sums of finite numbers; returns false and adds nothing if they or their squares are not finite.
template <typename Real>
bool Worker::measure_finite(const Pair &pair, const Real *x, const Real *y, int n, const EncodedBlock &codes,
                            Sums &sums) {
    Block block;
    const BlockFunctions<Real> &work = functions<Real>();
    const Real *errors = std::is_same_v<Real, double> ? compute_errors(pair, x, y, n, codes) : nullptr;
    work.measure(x, y, errors, n, pair.scale, codes.ahead, block);
    if (!std::isfinite(block.xx + block.yy))
        return false;
    if constexpr (std::is_same_v<Real, float>) {
        if (block.overflowed) {
            std::copy(x, x + n, doubles_.x);
            std::copy(y, y + n, doubles_.y);
            return measure_finite<double>(pair, doubles_.x, doubles_.y, n, codes, sums);
        }
    }
    if (!std::isfinite(block.dd + block.relative))
        return false;
    sums.add(block, n);
    const auto note = [&](Extreme &extreme, ErrorMeasure measure, double value) {
        if (!extreme.can_be_replaced_by(value, codes.start) || (value == 0 && measure == ErrorMeasure::kRelative))
            return;
        if (!errors)
            errors = compute_errors(pair, x, y, n, codes);
        const int i = work.find(x, y, errors, n, pair.scale, measure, value);
        extreme.offer(extreme_at(pair, codes, i, static_cast<double>(x[i]), static_cast<double>(y[i]), value));
    };
    if (pair.has_wide_integers() && pair.target.is_integer() && pair.golden.is_integer()) {
        const Extreme found = worst_integer(pair, codes, n);
        sums.worst.offer(found);
        sums.worst_ulps.offer(found);
    } else {
        if constexpr (std::is_same_v<Real, float>)
            if (block.worst > 0 && static_cast<float>(block.worst) >= static_cast<float>(sums.worst.value))
                block.worst = largest_error(x, y, n);
        note(sums.worst, ErrorMeasure::kAbsolute, block.worst);
        note(sums.worst_ulps, ErrorMeasure::kUlps, block.worst_ulps);
    }
    note(sums.worst_relative, ErrorMeasure::kRelative, block.worst_relative);
    return true;
}

// Counts NaNs and infinities, and compacts the pairs that are finite on both sides; returns their number.
template <typename Real> int Worker::compact_finite(int64_t start, int n, const Real *x, const Real *y, Sums &sums) {
    Buffers<Real> &buffers = numbers<Real>();
    int finite_count = 0;
    for (int i = 0; i < n; ++i) {
        const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
        if (std::isfinite(a) && std::isfinite(b)) {
            buffers.x[finite_count] = x[i];
            buffers.y[finite_count] = y[i];
            positions_[finite_count++] = i;
        } else {
            sums.add_non_finite(a, b, start + i);
        }
    }
    pad(buffers.x, finite_count);
    pad(buffers.y, finite_count);
    return finite_count;
}

// --- Second pass

void Worker::second_pass(const Pair &pair, int64_t unit, SecondPass &second) {
    for_each_block(pair, unit, [&](const EncodedBlock &codes, int n) {
        if (!second.needs_double)
            measure_second<float>(pair, codes, n, second);
        else
            measure_second<double>(pair, codes, n, second);
    });
}

template <typename Real>
void Worker::measure_second(const Pair &pair, const EncodedBlock &codes, int n, SecondPass &second) {
    Buffers<Real> &buffers = numbers<Real>();
    const BlockFunctions<Real> &work = functions<Real>();
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
        int finite_count = 0;
        for (int i = 0; i < n; ++i) {
            const double a = static_cast<double>(x[i]) - second.pivot_x, b = static_cast<double>(y[i]) - second.pivot_y;
            if (std::isfinite(a) && std::isfinite(b)) {
                buffers.x[finite_count] = x[i];
                buffers.y[finite_count++] = y[i];
            } else if (std::isfinite(a)) {
                second.unpaired_x.add(a);
                second.unpaired_xx.add(a * a);
            } else if (std::isfinite(b)) {
                second.unpaired_y.add(b);
                second.unpaired_yy.add(b * b);
            }
        }
        x = buffers.x, y = buffers.y, n = finite_count;
    }
    if (second.for_graphs) {
        od_graph graph;
        work.graph(x, y, n, second.softmax, graph);
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

#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace opdiff {
namespace {

// Elements of a part that one thread measures at a time.
constexpr int64_t kUnit = int64_t{1} << 20;

constexpr int kSizes[OD_KINDS] = {2, 2, 4, 8, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t earlier(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

int64_t bits_of(double number) {
    int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

__int128 integer_at(const Side &side, const unsigned char *codes, int i) {
    int64_t code = 0;
    const unsigned char *at = codes + static_cast<int64_t>(i) * side.size;
    switch (side.kind) {
    case OD_BOOL: return *at != 0;
    case OD_INT8: return static_cast<int8_t>(*at);
    case OD_UINT8: return *at;
    case OD_INT16: { int16_t v; std::memcpy(&v, at, 2); return v; }
    case OD_UINT16: { uint16_t v; std::memcpy(&v, at, 2); return v; }
    case OD_INT32: { int32_t v; std::memcpy(&v, at, 4); return v; }
    case OD_UINT32: { uint32_t v; std::memcpy(&v, at, 4); return v; }
    default: std::memcpy(&code, at, 8); break;
    }
    return side.kind == OD_INT64 ? static_cast<__int128>(code) : static_cast<__int128>(static_cast<uint64_t>(code));
}

// What an extreme shows of one side: the number, or of 64-bit integers the bits.
int64_t shown_side(const Side &side, const unsigned char *codes, int i, double number) {
    return side.is_wide_integer() ? static_cast<int64_t>(integer_at(side, codes, i)) : bits_of(number);
}

Extreme shown(const Pair &pair, const Codes &codes, int i, double x, double y, double value) {
    const int at = codes.places ? codes.places[i] : i;
    Extreme extreme;
    extreme.value = value;
    extreme.index = codes.start + at;
    extreme.target = shown_side(pair.target, codes.x, at, x);
    extreme.golden = shown_side(pair.golden, codes.y, at, y);
    return extreme;
}

void pad(float *numbers, int n) { std::fill(numbers + n, numbers + ceil_div(n, kPadding) * kPadding, 0.0f); }
void pad(double *, int) {}

// The upper and the lower half of a 64-bit integer are doubles; the difference from a float is rounded once.
double minus(const Side &side, const unsigned char *codes, int i, double other) {
    const __int128 number = integer_at(side, codes, i);
    // The halves of a small integer are larger than their sum, and so would round off more.
    if (constexpr __int128 kExact = __int128{1} << 53; -kExact < number && number < kExact)
        return static_cast<double>(number) - other;
    const double high = static_cast<double>(static_cast<int64_t>(number >> 32)) * 0x1p32;
    return (high - other) + static_cast<double>(static_cast<uint32_t>(number));
}

__int128 integer_error(const Pair &pair, const Codes &codes, int at) {
    return integer_at(pair.target, codes.x, at) - integer_at(pair.golden, codes.y, at);
}

// The difference of a pair with a 64-bit integer in it.
double exact_error(const Pair &pair, const Codes &codes, int i, double x, double y) {
    const int at = codes.places ? codes.places[i] : i;
    if (pair.target.is_integer() && pair.golden.is_integer())
        return static_cast<double>(integer_error(pair, codes, at));
    return pair.target.is_wide_integer() ? minus(pair.target, codes.x, at, y) : -minus(pair.golden, codes.y, at, x);
}

// The first of the largest errors between integers, which are all finite.
Extreme worst_integer(const Pair &pair, const Codes &codes, int n) {
    int worst = 0;
    unsigned __int128 most = 0;
    for (int i = 0; i < n; ++i) {
        const __int128 error = integer_error(pair, codes, i);
        const auto size = static_cast<unsigned __int128>(error < 0 ? -error : error);
        if (size > most) {
            most = size;
            worst = i;
        }
    }
    const double x = static_cast<double>(integer_at(pair.target, codes.x, worst));
    const double y = static_cast<double>(integer_at(pair.golden, codes.y, worst));
    Extreme found = shown(pair, codes, worst, x, y, static_cast<double>(most));
    found.exact = most;
    return found;
}

// The smallest and the largest of 64-bit integers, which doubles would round. They are finite, all of them.
void widen_integers(const Side &side, const unsigned char *codes, int n, SideSums &sums) {
    if (!side.is_wide_integer())
        return;
    const auto before = [&](int64_t a, int64_t b) {
        return side.kind == OD_UINT64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
    };
    for (int i = 0; i < n; ++i) {
        const int64_t bits = static_cast<int64_t>(integer_at(side, codes, i));
        const bool first = !sums.has_integers;
        sums.has_integers = true;
        sums.least = first || before(bits, sums.least) ? bits : sums.least;
        sums.most = first || before(sums.most, bits) ? bits : sums.most;
    }
}

}  // namespace

int size_of(int64_t kind) { return kind < 0 || kind >= OD_KINDS ? 0 : kSizes[kind]; }

bool Pair::has_wide_integers() const { return target.is_wide_integer() || golden.is_wide_integer(); }

bool Pair::is_narrow() const {
    const auto narrow = [](const Side &side) {
        return side.kind != OD_FLOAT64 && side.kind != OD_INT32 && side.kind != OD_UINT32 && !side.is_wide_integer();
    };
    return narrow(target) && narrow(golden);
}

const View *Pair::guide() const {
    return target.view.tiled() ? &target.view : golden.view.tiled() ? &golden.view : nullptr;
}

void Pair::plan() {
    if (run <= 0 || run > count || count % std::max<int64_t>(run, 1))
        run = std::max<int64_t>(count, 1);
    target.view.plan_tiles(run);
    golden.view.plan_tiles(run);
    if (const View *tiles = guide()) {
        const int64_t together = tiles->tiles_together(), size = count / tiles->tiles() + 1;
        unit_ = ceil_div(std::max<int64_t>(kUnit / size, 1), together) * together;
        units_ = ceil_div(tiles->tiles(), unit_);
    } else if (run <= kUnit) {
        unit_ = kUnit / run * run;
        units_ = ceil_div(count, unit_);
    } else {
        unit_ = kUnit;
        units_ = count / run * ceil_div(run, unit_);
    }
}

// --- Blocks

const unsigned char *Worker::fetch(const View &view, int64_t start, int n, std::vector<unsigned char> &buffer) {
    if (view.contiguous())
        return view.at(start);
    view.gather(start, n, buffer.data());
    return buffer.data();
}

// Calls visit(start, n, target's codes, golden codes) for every block of a unit.
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
        visit(start, n, fetch(pair.target.view, start, n, x_block_), fetch(pair.golden.view, start, n, y_block_));
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
    const auto hand_over = [&](int64_t start, int n, const unsigned char *codes) {
        if (is_target)
            visit(start, n, codes, fetch(pair.golden.view, start, n, y_block_));
        else
            visit(start, n, fetch(pair.target.view, start, n, x_block_), codes);
    };
    int held = 0;
    for (int64_t tile = unit * pair.unit_; tile < std::min((unit + 1) * pair.unit_, tiles.tiles()); ++tile) {
        tiles.visit(tile, tile_.data(), pieces_);
        for (const View::Piece &piece : pieces_)
            for (int done = 0; done < piece.n;) {
                const int64_t at = piece.start + done, block = at - held, place = block % pair.run;
                const int64_t whole = std::min<int64_t>(kBlock - place % kBlock, pair.run - place);
                const int n = static_cast<int>(std::min<int64_t>(whole - held, piece.n - done));
                const unsigned char *codes = piece.codes + done * size;
                done += n;
                if (held == 0 && n == whole) {
                    hand_over(block, n, codes);
                    continue;
                }
                std::memcpy(begun.data() + held * size, codes, static_cast<size_t>(n * size));
                held += n;
                if (held == whole) {
                    hand_over(block, held, begun.data());
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

void Extreme::offer(const Extreme &other) {
    if (other.index < 0)
        return;
    const bool larger = other.exact != exact ? other.exact > exact : other.value > value;
    const bool equal = other.exact == exact && other.value == value;
    if (index < 0 || larger || (equal && other.index < index))
        *this = other;
}

bool Extreme::may_yield_to(double other, int64_t start) const {
    return index < 0 || other > value || (other == value && start < index);
}

void SideSums::include(double low, double high) {
    minimum = has_range ? std::min(minimum, low) : low;
    maximum = has_range ? std::max(maximum, high) : high;
    has_range = true;
}

void Sums::add(const Block &block, int n) {
    target.finite += n;
    golden.finite += n;
    target.include(block.min_x, block.max_x);
    golden.include(block.min_y, block.max_y);
    pairs += n;
    unequal += n - block.equal;
    x.add(block.x);
    y.add(block.y);
    xx.add(block.xx);
    yy.add(block.yy);
    xy.add(block.xy);
    errors.add(block.errors);
    error_sizes.add(block.error_sizes);
    error_squares.add(block.dd);
    relative.add(block.relative);
    over_1_permille += block.over_1_permille;
    over_5_permille += block.over_5_permille;
    zero_golden += block.zero_golden;
    for (int i = 0; i < OD_RELATIVE_BINS; ++i)
        relative_bins[i] += block.relative_bins[i];
    for (int i = 0; i < OD_ULP_BINS; ++i)
        ulp_bins[i] += block.ulp_bins[i];
}

// A pair with a NaN or an infinity in it.
void Sums::add_special(double a, double b, int64_t index) {
    const auto look = [&](double number, SideSums &side) {
        if (std::isnan(number)) {
            ++side.nans;
            side.first_nan = earlier(side.first_nan, index);
        } else if (std::isinf(number)) {
            ++(number > 0 ? side.positive_infs : side.negative_infs);
            side.first_inf = earlier(side.first_inf, index);
        } else {
            side.include(number, number);
            ++side.finite;
            side.alone.add(number);
            side.squares_alone.add(number * number);
            beyond_range |= !std::isfinite(number * number);
        }
    };
    look(a, target);
    look(b, golden);
    const bool a_inf = std::isinf(a), b_inf = std::isinf(b), same = a == b || (std::isnan(a) && std::isnan(b));
    same_infs += a_inf && a == b;
    opposite_infs += a_inf && a == -b;
    target_infs += a_inf && std::isfinite(b) && std::fabs(b) > kSmall;
    golden_infs += b_inf && std::isfinite(a);
    if (!same) {
        ++mismatches;
        ++unequal;
        first_mismatch = earlier(first_mismatch, index);
    }
}

void Worker::first_pass(const Pair &pair, int64_t unit, Sums &sums) {
    const bool narrow = pair.is_narrow();
    each_block(pair, unit, [&](int64_t start, int n, const unsigned char *x, const unsigned char *y) {
        if (narrow)
            measure<float>(pair, start, n, x, y, sums);
        else
            measure<double>(pair, start, n, x, y, sums);
    });
}

template <typename Real>
void Worker::measure(const Pair &pair, int64_t start, int n, const unsigned char *x_codes,
                     const unsigned char *y_codes, Sums &sums) {
    Numbers<Real> &buffers = numbers<Real>();
    const Real *x = decode(pair.target, x_codes, n, buffers.x), *y = decode(pair.golden, y_codes, n, buffers.y);
    if (n == kBlock && pair.target.view.contiguous() && pair.golden.view.contiguous()) {
        // Ask for the next block while this one is being measured; asking beyond the end does no harm.
        for (int i = 0; i < n * pair.target.size; i += 64)
            __builtin_prefetch(x_codes + n * pair.target.size + i);
        for (int i = 0; i < n * pair.golden.size; i += 64)
            __builtin_prefetch(y_codes + n * pair.golden.size + i);
    }
    widen_integers(pair.target, x_codes, n, sums.target);
    widen_integers(pair.golden, y_codes, n, sums.golden);
    Codes codes{start, x_codes, y_codes, nullptr};
    if (measure_finite(pair, x, y, n, codes, sums))
        return;
    // There are NaNs or infinities, or numbers whose squares are too large.
    const int kept = keep_finite(start, n, x, y, sums);
    codes.places = places_;
    if (kept == n || (kept && !measure_finite<Real>(pair, buffers.x, buffers.y, kept, codes, sums)))
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
    work.measure(x, y, errors, n, pair.scale, block);
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
    each_block(pair, unit, [&](int64_t, int n, const unsigned char *x, const unsigned char *y) {
        if (narrow)
            measure_again<float>(pair, n, x, y, second);
        else
            measure_again<double>(pair, n, x, y, second);
    });
}

template <typename Real>
void Worker::measure_again(const Pair &pair, int n, const unsigned char *x_codes, const unsigned char *y_codes,
                           Second &second) {
    Numbers<Real> &buffers = numbers<Real>();
    const Arithmetic<Real> &work = arithmetic<Real>();
    const Real *x = decode(pair.target, x_codes, n, buffers.x), *y = decode(pair.golden, y_codes, n, buffers.y);
    if (second.with_kl) {
        KlSums sums;
        work.divergence(x, y, n, second.scale, sums);
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

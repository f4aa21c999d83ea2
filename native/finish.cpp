// From the parts of a pair to its result.

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

// Numbers this close together, as a share of the sum of their squares, are measured again around their mean.
constexpr double kCloseTogether = 0x1p-24;

// No likelihood is smaller, before they are divided by their sum.
constexpr double kFloor = 0x1p-23;

// Squares of larger numbers, or of numbers that are all smaller, come too near to the ends of the range of doubles.
constexpr double kLargest = 0x1p480, kSmallest = 0x1p-480;

void add_product(ExactSum &sum, double a, double b) {
    const double product = a * b;
    sum.add(product);
    sum.add(std::fma(a, b, -product));
}

// Σ (x - mean)·(y - mean) of n pairs, out of Σ x·y, Σ x and Σ y.
double spread(const ExactSum &products, const ExactSum &x, const ExactSum &y, int64_t n) {
    if (n == 0)
        return 0;
    double x_high, x_low, y_high, y_low;
    x.split(x_high, x_low);
    y.split(y_high, y_low);
    // Around any centre c of x it is Σ x·y - c·Σ y, but for the part of Σ x that n·c leaves, times the mean of y.
    const double centre = x_high / static_cast<double>(n);
    ExactSum sum = products;
    add_product(sum, -centre, y_high);
    add_product(sum, -centre, y_low);
    ExactSum left = x;
    add_product(left, -centre, static_cast<double>(n));
    sum.add(-left.value() * (y_high / static_cast<double>(n)));
    return sum.value();
}

ExactSum joined(const ExactSum &first, const ExactSum &second) {
    ExactSum sum = first;
    sum.add(second);
    return sum;
}

bool is_close(double spread_of, const ExactSum &squares) {
    const double size = squares.value();
    return size > 0 && spread_of < kCloseTogether * size;
}

KlSide kl_side(const Side &side, const SideSums &sums) {
    double low = sums.minimum, width = sums.maximum - sums.minimum;
    if (side.is_wide_integer()) {
        const bool is_signed = side.kind == OD_INT64;
        low = is_signed ? static_cast<double>(sums.least) : static_cast<double>(static_cast<uint64_t>(sums.least));
        width = static_cast<double>(static_cast<uint64_t>(sums.most) - static_cast<uint64_t>(sums.least));
    }
    return width > 0 ? KlSide{low, 1 / width, kFloor} : KlSide{low, 0, 1};
}

// The sum of all numbers of a side after they were moved and stretched.
double stretched(const ExactSum &sum, int64_t n, const KlSide &side) {
    ExactSum moved = sum;
    add_product(moved, -side.low, static_cast<double>(n));
    return moved.value() * side.factor;
}

bool is_beyond_range(const Side &side, const SideSums &sums) {
    const double size = std::max(std::fabs(sums.minimum), std::fabs(sums.maximum));
    return side.kind == OD_FLOAT64 && (size > kLargest || (size > 0 && size < kSmallest));
}

void set_totals(const Side &side, const SideSums &sums, const ExactSum &sum, const ExactSum &squares, double spread_of,
                od_totals &totals) {
    totals.finite = sums.finite;
    totals.nans = sums.nans;
    totals.positive_infs = sums.positive_infs;
    totals.negative_infs = sums.negative_infs;
    totals.first_nan = sums.first_nan;
    totals.first_inf = sums.first_inf;
    totals.minimum = side.is_wide_integer() ? sums.least : bits_as<int64_t>(sums.minimum);
    totals.maximum = side.is_wide_integer() ? sums.most : bits_as<int64_t>(sums.maximum);
    totals.total = sum.value();
    totals.squares = squares.value();
    totals.spread = spread_of;
}

od_extreme shown(const Extreme &extreme) { return {extreme.index, extreme.target, extreme.golden}; }

}  // namespace

Second plan_second(const Pair &pair, const Sums &sums) {
    Second second;
    if (sums.beyond_range || pair.count == 0)
        return second;
    const ExactSum x = joined(sums.x, sums.target.alone), y = joined(sums.y, sums.golden.alone);
    const ExactSum xx = joined(sums.xx, sums.target.squares_alone), yy = joined(sums.yy, sums.golden.squares_alone);
    second.with_moments = is_close(spread(xx, x, x, sums.target.finite), xx) ||
                          is_close(spread(yy, y, y, sums.golden.finite), yy) ||
                          is_close(spread(sums.xx, sums.x, sums.x, sums.pairs), sums.xx) ||
                          is_close(spread(sums.yy, sums.y, sums.y, sums.pairs), sums.yy);
    // Around the pairs, which a number beside an infinity may be far from; such a number makes its own side's spread large.
    const auto mean = [](const ExactSum &sum, int64_t n) { return n ? sum.value() / static_cast<double>(n) : 0; };
    second.pivot_x = sums.pairs ? mean(sums.x, sums.pairs) : mean(x, sums.target.finite);
    second.pivot_y = sums.pairs ? mean(sums.y, sums.pairs) : mean(y, sums.golden.finite);
    second.with_kl = pair.with_kl && sums.target.finite == pair.count && sums.golden.finite == pair.count;
    second.for_graphs = pair.for_graphs;
    const bool all_finite = sums.target.finite == pair.count && sums.golden.finite == pair.count;
    second.tops = {sums.target.maximum, sums.golden.maximum, all_finite};
    const KlSide a = kl_side(pair.target, sums.target), b = kl_side(pair.golden, sums.golden);
    const bool alike = a.factor < 2 * b.factor && b.factor < 2 * a.factor && std::fabs(a.low - b.low) * a.factor < 1;
    second.scale = {a, b, alike};
    second.all_p = stretched(x, pair.count, second.scale.target);
    second.all_q = stretched(y, pair.count, second.scale.golden);
    const auto beyond = [](const KlSide &side) { return side.factor > 0x1p100 || (side.factor > 0 && side.factor < 0x1p-100); };
    second.in_double = beyond(second.scale.target) || beyond(second.scale.golden);
    return second;
}

void finish(const Pair &pair, const Sums &sums, const Second &second, od_result &result) {
    if (sums.beyond_range || is_beyond_range(pair.target, sums.target) || is_beyond_range(pair.golden, sums.golden)) {
        result.status = OD_BEYOND_RANGE;
        return;
    }
    result.status = OD_DONE;
    result.count = pair.count;
    result.unequal = sums.unequal;
    const ExactSum x = joined(sums.x, sums.target.alone), y = joined(sums.y, sums.golden.alone);
    const ExactSum xx = joined(sums.xx, sums.target.squares_alone), yy = joined(sums.yy, sums.golden.squares_alone);
    const bool again = second.with_moments;
    const auto around = [&](const ExactSum &first_products, const ExactSum &first_x, const ExactSum &first_y,
                            const ExactSum &products, const ExactSum &sum_x, const ExactSum &sum_y, int64_t n) {
        return again ? spread(products, sum_x, sum_y, n) : spread(first_products, first_x, first_y, n);
    };
    const ExactSum mx = joined(second.x, second.x_alone), my = joined(second.y, second.y_alone);
    const ExactSum mxx = joined(second.xx, second.xx_alone), myy = joined(second.yy, second.yy_alone);
    set_totals(pair.target, sums.target, x, xx, around(xx, x, x, mxx, mx, mx, sums.target.finite), result.target);
    set_totals(pair.golden, sums.golden, y, yy, around(yy, y, y, myy, my, my, sums.golden.finite), result.golden);
    result.pairs = sums.pairs;
    result.x = sums.x.value();
    result.y = sums.y.value();
    result.xx = sums.xx.value();
    result.yy = sums.yy.value();
    result.xy = sums.xy.value();
    result.spread_x = around(sums.xx, sums.x, sums.x, second.xx, second.x, second.x, sums.pairs);
    result.spread_y = around(sums.yy, sums.y, sums.y, second.yy, second.y, second.y, sums.pairs);
    result.spread_xy = around(sums.xy, sums.x, sums.y, second.xy, second.x, second.y, sums.pairs);
    result.errors = sums.errors.value();
    result.error_sizes = sums.error_sizes.value();
    result.error_squares = sums.error_squares.value();
    result.relative = sums.relative.value();
    result.over_1_permille = sums.over_1_permille;
    result.over_5_permille = sums.over_5_permille;
    result.zero_golden = sums.zero_golden;
    result.worst = shown(sums.worst);
    result.worst_relative = shown(sums.worst_relative);
    result.worst_ulps = shown(sums.worst_ulps);
    result.same_infs = sums.same_infs;
    result.opposite_infs = sums.opposite_infs;
    result.target_infs = sums.target_infs;
    result.golden_infs = sums.golden_infs;
    result.mismatches = sums.mismatches;
    result.first_mismatch = sums.first_mismatch;
    std::copy(std::begin(sums.relative_bins), std::end(sums.relative_bins), result.relative_bins);
    std::copy(std::begin(sums.ulp_bins), std::end(sums.ulp_bins), result.ulp_bins);
    result.graph = second.graph;
    result.graph.golden_weight = second.golden_weight.value();
    result.graph.target_weight = second.target_weight.value();
    result.graph.weighted = second.weighted.value();
    result.graph.error_sizes = second.error_sizes.value();
    result.graph.relative = second.relative.value();
    result.kl = std::numeric_limits<double>::quiet_NaN();
    if (second.with_kl) {
        // Σ p·ln(p/q) / P + ln(Q / P), of which the sum has Σ (p·ln(p/q) - p + q).
        const double p = second.all_p + second.p.value(), q = second.all_q + second.q.value(), excess = (q - p) / p;
        result.kl = second.terms.value() / p + (std::log1p(excess) - excess);
    }
}

}  // namespace opdiff

// From the sums of a pair to its result.

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

// Moments are measured around the mean if the squared deviations are below this share of the squares.
constexpr double kMinSpread = 0x1p-24;

// Smallest likelihood before normalization.
constexpr double kLikelihoodFloor = 0x1p-23;

// Beyond these magnitudes, squares come too close to the limits of doubles.
constexpr double kMaxMagnitude = 0x1p480, kMinMagnitude = 0x1p-480;

void add_product(ExactSum &sum, double a, double b) {
    const double product = a * b;
    sum.add(product);
    sum.add(std::fma(a, b, -product));
}

// Σ (x - mean)·(y - mean) of n pairs, from Σ x·y, Σ x and Σ y.
double spread(const ExactSum &products, const ExactSum &x, const ExactSum &y, int64_t n) {
    if (n == 0)
        return 0;
    double x_high, x_low, y_high, y_low;
    x.split(x_high, x_low);
    y.split(y_high, y_low);
    // For any centre c of x it is Σ x·y - c·Σ y - (Σ x - n·c)·(mean of y).
    const double centre = x_high / static_cast<double>(n);
    ExactSum sum = products;
    add_product(sum, -centre, y_high);
    add_product(sum, -centre, y_low);
    ExactSum left = x;
    add_product(left, -centre, static_cast<double>(n));
    sum.add(-left.value() * (y_high / static_cast<double>(n)));
    return sum.value();
}

ExactSum sum_of(const ExactSum &first, const ExactSum &second) {
    ExactSum sum = first;
    sum.add(second);
    return sum;
}

bool is_close(double spread_of, const ExactSum &squares) {
    const double size = squares.value();
    return size > 0 && spread_of < kMinSpread * size;
}

KlSide kl_side(const Side &side, const SideSums &sums) {
    double low = sums.minimum, width = sums.maximum - sums.minimum;
    if (side.is_wide_integer()) {
        const bool is_signed = side.kind == OD_INT64;
        const auto lowest = static_cast<uint64_t>(sums.lowest_integer);
        low = is_signed ? static_cast<double>(sums.lowest_integer) : static_cast<double>(lowest);
        width = static_cast<double>(static_cast<uint64_t>(sums.highest_integer) - lowest);
    }
    return width > 0 ? KlSide{low, 1 / width, kLikelihoodFloor} : KlSide{low, 0, 1};
}

// Sum of the normalized numbers of a side.
double normalized_sum(const ExactSum &sum, int64_t n, const KlSide &side) {
    ExactSum moved = sum;
    add_product(moved, -side.low, static_cast<double>(n));
    return moved.value() * side.factor;
}

bool is_beyond_range(const Side &side, const SideSums &sums) {
    const double size = std::max(std::fabs(sums.minimum), std::fabs(sums.maximum));
    return side.kind == OD_FLOAT64 && (size > kMaxMagnitude || (size > 0 && size < kMinMagnitude));
}

// Whether doubles round the integers of a side.
bool is_rounded(const Side &side, const SideSums &sums) {
    constexpr double kExact = 0x1p53;
    return side.is_wide_integer() && (sums.minimum < -kExact || sums.maximum > kExact);
}

// Whether nearly all digits of a sum cancelled; `sizes` is about the sum of the magnitudes.
bool has_cancelled(double sum, double sizes) { return std::fabs(sum) < sizes * 0x1p-22; }

// Whether the mean of n numbers has too few digits, although some of them are printed.
bool has_lost_mean(const ExactSum &sum, const ExactSum &squares, int64_t n) {
    const double sizes = std::sqrt(static_cast<double>(n) * squares.value());
    return sizes > 0x1p22 * static_cast<double>(n) && has_cancelled(sum.value(), sizes);
}

// The same for the cosine. The products of large tensors that have no element in common are zero.
bool has_lost_cosine(const Pair &pair, const Sums &sums) {
    const double xy = sums.xy.value(), sizes = std::sqrt(sums.xx.value()) * std::sqrt(sums.yy.value());
    return has_cancelled(xy, sizes) && (xy != 0 || pair.count <= kSmallCount);
}

void set_totals(const Side &side, const SideSums &sums, const ExactSum &sum, const ExactSum &squares, double spread_of,
                od_totals &totals) {
    totals.finite = sums.finite;
    totals.nans = sums.nans;
    totals.positive_infs = sums.positive_infs;
    totals.negative_infs = sums.negative_infs;
    totals.first_nan = sums.first_nan;
    totals.first_inf = sums.first_inf;
    totals.minimum = side.is_wide_integer() ? sums.lowest_integer : bit_cast<int64_t>(sums.minimum);
    totals.maximum = side.is_wide_integer() ? sums.highest_integer : bit_cast<int64_t>(sums.maximum);
    totals.total = sum.value();
    totals.squares = squares.value();
    totals.spread = spread_of;
}

od_extreme to_result(const Extreme &extreme) { return {extreme.index, extreme.target, extreme.golden}; }

}  // namespace

SecondPass plan_second_pass(const Pair &pair, const Sums &sums) {
    SecondPass second;
    if (sums.beyond_range || pair.count == 0)
        return second;
    const ExactSum x = sum_of(sums.x, sums.target.unpaired), y = sum_of(sums.y, sums.golden.unpaired);
    const ExactSum xx = sum_of(sums.xx, sums.target.unpaired_squares);
    const ExactSum yy = sum_of(sums.yy, sums.golden.unpaired_squares);
    second.with_moments = is_close(spread(xx, x, x, sums.target.finite), xx) ||
                          is_close(spread(yy, y, y, sums.golden.finite), yy) ||
                          is_close(spread(sums.xx, sums.x, sums.x, sums.pairs), sums.xx) ||
                          is_close(spread(sums.yy, sums.y, sums.y, sums.pairs), sums.yy);
    // Means of the pairs. A number paired with an infinity may be far from them; it then makes its side's spread large.
    const auto mean = [](const ExactSum &sum, int64_t n) { return n ? sum.value() / static_cast<double>(n) : 0; };
    second.pivot_x = sums.pairs ? mean(sums.x, sums.pairs) : mean(x, sums.target.finite);
    second.pivot_y = sums.pairs ? mean(sums.y, sums.pairs) : mean(y, sums.golden.finite);
    second.with_kl = pair.with_kl && sums.target.finite == pair.count && sums.golden.finite == pair.count;
    second.for_graphs = pair.for_graphs;
    const bool all_finite = sums.target.finite == pair.count && sums.golden.finite == pair.count;
    second.softmax = {sums.target.maximum, sums.golden.maximum, all_finite};
    const KlSide a = kl_side(pair.target, sums.target), b = kl_side(pair.golden, sums.golden);
    const bool similar_ranges =
        a.factor < 2 * b.factor && b.factor < 2 * a.factor && std::fabs(a.low - b.low) * a.factor < 1;
    second.scale = {a, b, similar_ranges};
    const auto beyond = [](const KlSide &side) {
        return side.factor > 0x1p100 || (side.factor > 0 && side.factor < 0x1p-100);
    };
    second.needs_double = !pair.is_summed_in_float() || beyond(second.scale.target) || beyond(second.scale.golden);
    if (!second.needs_double) {
        second.total_p = normalized_sum(x, pair.count, second.scale.target);
        second.total_q = normalized_sum(y, pair.count, second.scale.golden);
    }
    return second;
}

void finish(const Pair &pair, const Sums &sums, const SecondPass &second, od_result &result) {
    const ExactSum x = sum_of(sums.x, sums.target.unpaired), y = sum_of(sums.y, sums.golden.unpaired);
    const ExactSum xx = sum_of(sums.xx, sums.target.unpaired_squares);
    const ExactSum yy = sum_of(sums.yy, sums.golden.unpaired_squares);
    if (sums.beyond_range || is_beyond_range(pair.target, sums.target) || is_beyond_range(pair.golden, sums.golden) ||
        is_rounded(pair.target, sums.target) || is_rounded(pair.golden, sums.golden) ||
        has_lost_mean(x, xx, sums.target.finite) || has_lost_mean(y, yy, sums.golden.finite) ||
        has_lost_cosine(pair, sums)) {
        result.status = OD_BEYOND_RANGE;
        return;
    }
    result.status = OD_DONE;
    result.count = pair.count;
    result.unequal = sums.unequal;
    const bool recentred = second.with_moments;
    const auto spread_of_pass = [&](const ExactSum &first_products, const ExactSum &first_x, const ExactSum &first_y,
                            const ExactSum &products, const ExactSum &sum_x, const ExactSum &sum_y, int64_t n) {
        return recentred ? spread(products, sum_x, sum_y, n) : spread(first_products, first_x, first_y, n);
    };
    const ExactSum mx = sum_of(second.x, second.unpaired_x), my = sum_of(second.y, second.unpaired_y);
    const ExactSum mxx = sum_of(second.xx, second.unpaired_xx), myy = sum_of(second.yy, second.unpaired_yy);
    const double target_spread = spread_of_pass(xx, x, x, mxx, mx, mx, sums.target.finite);
    const double golden_spread = spread_of_pass(yy, y, y, myy, my, my, sums.golden.finite);
    set_totals(pair.target, sums.target, x, xx, target_spread, result.target);
    set_totals(pair.golden, sums.golden, y, yy, golden_spread, result.golden);
    result.pairs = sums.pairs;
    result.x = sums.x.value();
    result.y = sums.y.value();
    result.xx = sums.xx.value();
    result.yy = sums.yy.value();
    result.xy = sums.xy.value();
    result.spread_x = spread_of_pass(sums.xx, sums.x, sums.x, second.xx, second.x, second.x, sums.pairs);
    result.spread_y = spread_of_pass(sums.yy, sums.y, sums.y, second.yy, second.y, second.y, sums.pairs);
    result.spread_xy = spread_of_pass(sums.xy, sums.x, sums.y, second.xy, second.x, second.y, sums.pairs);
    result.errors = sums.errors.value();
    result.error_sizes = sums.error_sizes.value();
    result.error_squares = sums.error_squares.value();
    result.relative = sums.relative.value();
    result.over_1_permille = sums.over_1_permille;
    result.over_5_permille = sums.over_5_permille;
    result.zero_golden = sums.zero_golden;
    result.worst = to_result(sums.worst);
    result.worst_relative = to_result(sums.worst_relative);
    result.worst_ulps = to_result(sums.worst_ulps);
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
        // Σ p·ln(p/q) / P + ln(Q / P); `terms` is Σ (p·ln(p/q) - p + q).
        const double p = second.total_p + second.p.value(), q = second.total_q + second.q.value(), excess = (q - p) / p;
        result.kl = second.terms.value() / p + (std::log1p(excess) - excess);
    }
}

}  // namespace opdiff

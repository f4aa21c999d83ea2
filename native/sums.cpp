#include "sums.hpp"

#include <algorithm>
#include <cmath>

#include "scalars.hpp"

namespace opdiff {
namespace {

// What a block and the sums of other blocks have under the same names.
template <typename Parts> void add_alike(Sums &sums, const Parts &parts) {
    sums.x.add(parts.x);
    sums.y.add(parts.y);
    sums.xx.add(parts.xx);
    sums.yy.add(parts.yy);
    sums.xy.add(parts.xy);
    sums.errors.add(parts.errors);
    sums.error_sizes.add(parts.error_sizes);
    sums.relative.add(parts.relative);
    sums.over_1_permille += parts.over_1_permille;
    sums.over_5_permille += parts.over_5_permille;
    sums.zero_golden += parts.zero_golden;
    for (int i = 0; i < OD_RELATIVE_BINS; ++i)
        sums.relative_bins[i] += parts.relative_bins[i];
    for (int i = 0; i < OD_ULP_BINS; ++i)
        sums.ulp_bins[i] += parts.ulp_bins[i];
}

// The same of what graph mode needs; `ends` has the maxima and counts.
template <typename Parts> void add_alike(Second &sums, const Parts &parts, const od_graph &ends) {
    sums.golden_weight.add(parts.golden_weight);
    sums.target_weight.add(parts.target_weight);
    sums.weighted.add(parts.weighted);
    sums.error_sizes.add(parts.error_sizes);
    sums.relative.add(parts.relative);
    sums.graph.worst = std::max(sums.graph.worst, ends.worst);
    sums.graph.worst_relative = std::max(sums.graph.worst_relative, ends.worst_relative);
    sums.graph.tiny_relative = std::max(sums.graph.tiny_relative, ends.tiny_relative);
    sums.graph.tiny_over_1_permille += ends.tiny_over_1_permille;
    sums.graph.tiny_over_5_permille += ends.tiny_over_5_permille;
    sums.graph.zeros += ends.zeros;
}

}  // namespace

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
    error_squares.add(block.dd);
    add_alike(*this, block);
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

void SideSums::merge(const SideSums &other, int kind) {
    if (other.has_range)
        include(other.minimum, other.maximum);
    if (other.has_integers) {
        if (!has_integers || is_below(other.least, least, kind))
            least = other.least;
        if (!has_integers || is_below(most, other.most, kind))
            most = other.most;
        has_integers = true;
    }
    finite += other.finite;
    nans += other.nans;
    positive_infs += other.positive_infs;
    negative_infs += other.negative_infs;
    first_nan = earlier(first_nan, other.first_nan);
    first_inf = earlier(first_inf, other.first_inf);
    alone.add(other.alone);
    squares_alone.add(other.squares_alone);
}

void Sums::merge(const Sums &other, int target_kind, int golden_kind) {
    target.merge(other.target, target_kind);
    golden.merge(other.golden, golden_kind);
    pairs += other.pairs;
    unequal += other.unequal;
    error_squares.add(other.error_squares);
    add_alike(*this, other);
    worst.offer(other.worst);
    worst_relative.offer(other.worst_relative);
    worst_ulps.offer(other.worst_ulps);
    same_infs += other.same_infs;
    opposite_infs += other.opposite_infs;
    target_infs += other.target_infs;
    golden_infs += other.golden_infs;
    mismatches += other.mismatches;
    first_mismatch = earlier(first_mismatch, other.first_mismatch);
    beyond_range |= other.beyond_range;
}

void Second::merge(const Second &other) {
    x.add(other.x);
    y.add(other.y);
    xx.add(other.xx);
    yy.add(other.yy);
    xy.add(other.xy);
    x_alone.add(other.x_alone);
    y_alone.add(other.y_alone);
    xx_alone.add(other.xx_alone);
    yy_alone.add(other.yy_alone);
    p.add(other.p);
    q.add(other.q);
    terms.add(other.terms);
    add_alike(*this, other, other.graph);
}

Second Second::empty() const {
    Second fresh;
    fresh.with_moments = with_moments;
    fresh.with_kl = with_kl;
    fresh.for_graphs = for_graphs;
    fresh.pivot_x = pivot_x;
    fresh.pivot_y = pivot_y;
    fresh.scale = scale;
    fresh.in_double = in_double;
    fresh.tops = tops;
    return fresh;
}

void Second::add(const od_graph &block) {
    add_alike(*this, block, block);
}

}  // namespace opdiff

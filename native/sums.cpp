#include "sums.hpp"

#include <algorithm>
#include <cmath>

#include "scalars.hpp"

namespace opdiff {
namespace {

// Members that a block and the sums of other blocks have in common.
template <typename Parts> void add_common(Sums &sums, const Parts &parts) {
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

// The same for graph mode; `maxima` has the maxima and counts.
template <typename Parts> void add_common(SecondPass &sums, const Parts &parts, const od_graph &maxima) {
    sums.golden_weight.add(parts.golden_weight);
    sums.target_weight.add(parts.target_weight);
    sums.weighted.add(parts.weighted);
    sums.error_sizes.add(parts.error_sizes);
    sums.relative.add(parts.relative);
    sums.graph.worst = std::max(sums.graph.worst, maxima.worst);
    sums.graph.worst_relative = std::max(sums.graph.worst_relative, maxima.worst_relative);
    sums.graph.tiny_relative = std::max(sums.graph.tiny_relative, maxima.tiny_relative);
    sums.graph.tiny_over_1_permille += maxima.tiny_over_1_permille;
    sums.graph.tiny_over_5_permille += maxima.tiny_over_5_permille;
    sums.graph.zeros += maxima.zeros;
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

bool Extreme::can_be_replaced_by(double other, int64_t start) const {
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
    add_common(*this, block);
}

// A pair with a NaN or an infinity.
void Sums::add_non_finite(double a, double b, int64_t index) {
    const auto add_element = [&](double number, SideSums &side) {
        if (std::isnan(number)) {
            ++side.nans;
            side.first_nan = earlier(side.first_nan, index);
        } else if (std::isinf(number)) {
            ++(number > 0 ? side.positive_infs : side.negative_infs);
            side.first_inf = earlier(side.first_inf, index);
        } else {
            side.include(number, number);
            ++side.finite;
            side.unpaired.add(number);
            side.unpaired_squares.add(number * number);
            beyond_range |= !std::isfinite(number * number);
        }
    };
    add_element(a, target);
    add_element(b, golden);
    const bool a_inf = std::isinf(a), b_inf = std::isinf(b), same = a == b || (std::isnan(a) && std::isnan(b));
    same_infs += a_inf && a == b;
    opposite_infs += a_inf && a == -b;
    target_infs += a_inf && std::isfinite(b) && std::fabs(b) > kZeroThreshold;
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
        if (!has_integers || is_below(other.lowest_integer, lowest_integer, kind))
            lowest_integer = other.lowest_integer;
        if (!has_integers || is_below(highest_integer, other.highest_integer, kind))
            highest_integer = other.highest_integer;
        has_integers = true;
    }
    finite += other.finite;
    nans += other.nans;
    positive_infs += other.positive_infs;
    negative_infs += other.negative_infs;
    first_nan = earlier(first_nan, other.first_nan);
    first_inf = earlier(first_inf, other.first_inf);
    unpaired.add(other.unpaired);
    unpaired_squares.add(other.unpaired_squares);
}

void Sums::merge(const Sums &other, int target_kind, int golden_kind) {
    target.merge(other.target, target_kind);
    golden.merge(other.golden, golden_kind);
    pairs += other.pairs;
    unequal += other.unequal;
    error_squares.add(other.error_squares);
    add_common(*this, other);
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

void SecondPass::merge(const SecondPass &other) {
    x.add(other.x);
    y.add(other.y);
    xx.add(other.xx);
    yy.add(other.yy);
    xy.add(other.xy);
    unpaired_x.add(other.unpaired_x);
    unpaired_y.add(other.unpaired_y);
    unpaired_xx.add(other.unpaired_xx);
    unpaired_yy.add(other.unpaired_yy);
    p.add(other.p);
    q.add(other.q);
    terms.add(other.terms);
    add_common(*this, other, other.graph);
}

SecondPass SecondPass::empty() const {
    SecondPass fresh;
    fresh.with_moments = with_moments;
    fresh.with_kl = with_kl;
    fresh.for_graphs = for_graphs;
    fresh.pivot_x = pivot_x;
    fresh.pivot_y = pivot_y;
    fresh.scale = scale;
    fresh.needs_double = needs_double;
    fresh.softmax = softmax;
    return fresh;
}

void SecondPass::add(const od_graph &block) {
    add_common(*this, block, block);
}

}  // namespace opdiff

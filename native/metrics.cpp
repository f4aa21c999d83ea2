// From the sums of a pair to its metrics. `measure/metrics.py` has the formulas and what they mean; they are repeated
// here because a comparison of many small tensors would spend more time on them than on the data. The tests hold both
// equal bit for bit, so this file is compiled without rounding a product and a sum together.
//
// Sums have no scale here: a pair that needs one has OD_BEYOND_RANGE and is measured elsewhere.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "measure.hpp"
#include "scalars.hpp"

namespace opdiff {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Doubles hold every integer up to this size, and every difference of two.
constexpr double kExact = 0x1p52;

// A number, or none where it is not defined.
using Maybe = std::optional<double>;

double real(int64_t count) { return static_cast<double>(count); }

int64_t infs(const od_totals &side) { return side.positive_infs + side.negative_infs; }

bool is_finite(const od_totals &side) { return side.nans == 0 && infs(side) == 0; }

bool is_small(const od_totals &side) { return side.squares <= kSmall * kSmall; }

// What an element holds, as a double.
double number_of(int64_t bits, const Side &side) {
    if (side.kind == OD_UINT64)
        return static_cast<double>(static_cast<uint64_t>(bits));
    return side.kind == OD_INT64 ? real(bits) : bits_as<double>(bits);
}

// The same, as metrics have it: an integer where the side has integers.
int64_t shown(int64_t bits, const Side &side) {
    return side.is_integer() && !side.is_wide_integer() ? static_cast<int64_t>(bits_as<double>(bits)) : bits;
}

double largest(const od_totals &totals, const Side &side) {
    if (totals.finite == 0)
        return 0;
    return std::max(std::fabs(number_of(totals.minimum, side)), std::fabs(number_of(totals.maximum, side)));
}

// The documented ones: every element counts, and one NaN is enough to make them NaN.

Maybe cosine_of(double products, double x_squares, double y_squares) {
    if (x_squares <= 0 || y_squares <= 0)
        return {};
    if (products == x_squares && x_squares == y_squares)
        return 1.0;
    return std::max(-1.0, std::min(products / std::sqrt(x_squares) / std::sqrt(y_squares), 1.0));
}

Maybe cosine(const od_result &sums, int64_t count, int64_t &note) {
    note = count == 0 ? OD_EMPTY : count == 1 ? OD_SCALAR : OD_NO_NOTE;
    if (count == 0)
        return {};
    if (!is_finite(sums.target) || !is_finite(sums.golden))
        return kNan;
    if (count == 1 || (is_small(sums.target) && is_small(sums.golden)))
        return 1.0;
    const bool target_is_zero = sums.target.squares == 0, golden_is_zero = sums.golden.squares == 0;
    if (target_is_zero != golden_is_zero) {
        note = target_is_zero ? OD_ZERO_TARGET : OD_ZERO_GOLDEN;
        return {};
    }
    return cosine_of(sums.xy, sums.xx, sums.yy);
}

// What NaNs and infinities make of a sum of |x - y|; none when there are none of them.
Maybe error_of_all(const od_result &sums) {
    if (sums.target.nans || sums.golden.nans || sums.same_infs)
        return kNan;
    return infs(sums.target) || infs(sums.golden) ? Maybe(kInf) : Maybe();
}

Maybe relative_distance(const od_result &sums, int64_t count) {
    if (count == 0)
        return {};
    if (sums.target.nans || !is_finite(sums.golden))
        return kNan;
    if (infs(sums.target))
        return kInf;
    if (is_small(sums.golden))
        return is_small(sums.target) ? 0.0 : kInf;
    return std::sqrt(sums.error_squares / sums.golden.squares);
}

Maybe mean(const od_totals &side) {
    if (side.nans || (side.positive_infs && side.negative_infs))
        return kNan;
    if (infs(side))
        return side.positive_infs ? kInf : -kInf;
    return side.finite ? Maybe(side.total / real(side.finite)) : Maybe();
}

Maybe deviation(const od_totals &side) {
    if (!is_finite(side))
        return kNan;
    return side.finite ? Maybe(std::sqrt(std::max(side.spread, 0.0) / real(side.finite))) : Maybe();
}

struct RelativeErrors {
    Maybe total, most, mean;
};

// `worst` is the largest of the finite pairs; `is_zero_only_in_golden` tells whether no golden value is large enough to
// be divided by although the target has such values.
RelativeErrors relative_errors(const od_result &sums, int64_t count, double worst, bool is_zero_only_in_golden) {
    if (count == 0)
        return {};
    if (sums.target.nans || sums.golden.nans || sums.same_infs || sums.opposite_infs)
        return {kNan, kNan, kNan};
    if (sums.target_infs || is_zero_only_in_golden)
        return {kInf, kInf, kInf};
    // A finite number beside an infinite one is off by 1, however large it is.
    const double total = sums.relative + real(sums.golden_infs);
    return {total, sums.golden_infs ? std::max(worst, 1.0) : worst, total / real(count)};
}

// Ours: over the pairs that are finite on both sides.

Maybe cosine_of_pairs(const od_result &sums, double products, double x_squares, double y_squares) {
    if (sums.pairs == 0)
        return {};
    return sums.error_squares == 0 ? Maybe(1.0) : cosine_of(products, x_squares, y_squares);
}

Maybe norm_ratio(const od_result &sums) {
    if (sums.pairs == 0)
        return {};
    if (sums.yy == 0)
        return sums.xx != 0 ? kInf : 1.0;
    return std::sqrt(sums.xx / sums.yy);
}

Maybe snr_db(const od_result &sums) {
    if (sums.pairs == 0)
        return {};
    if (sums.error_squares == 0)
        return kInf;
    return sums.yy == 0 ? -kInf : 10 * (std::log10(sums.yy) - std::log10(sums.error_squares));
}

Maybe bias(const od_result &sums) {
    if (sums.pairs == 0)
        return {};
    return sums.error_sizes == 0 ? 0.0 : std::max(-1.0, std::min(sums.errors / sums.error_sizes, 1.0));
}

struct Fit {
    Maybe scale, offset, distance;
};

// Scale and offset of the line through the pairs, and how far the target is from it beside the golden norm.
Fit fit(const od_result &sums) {
    if (sums.spread_y <= 0 || sums.yy <= 0)
        return {};
    const double slope = sums.spread_xy / sums.spread_y;
    const double offset = (sums.x - slope * sums.y) / real(sums.pairs);
    const double rest = sums.spread_x - slope * sums.spread_xy;
    // Two large numbers nearly cancel out where the line explains everything: their last digits are no distance.
    return {slope, offset, std::sqrt((rest > sums.spread_x * 0x1p-46 ? rest : 0.0) / sums.yy)};
}

// The two numbers of an element, and how far they are apart.
struct Difference {
    Difference(const od_extreme &found, const Pair &pair)
        : is_there(found.index >= 0), x(number_of(found.target, pair.target)), y(number_of(found.golden, pair.golden)) {}

    double size() const { return std::fabs(x - y); }
    // Without overflow: numbers that large are OD_BEYOND_RANGE.
    double relative() const { return is_there ? size() / std::fabs(y) : 0; }
    double ulps(const UlpScale &scale) const {
        if (scale.digits < 0)
            return size();
        const double larger = std::max(std::fabs(x), std::fabs(y));
        int exponent = scale.min_exponent + 1;
        if (larger > 0)
            std::frexp(larger, &exponent);
        return std::ldexp(size(), scale.digits - std::max(exponent - 1, scale.min_exponent));
    }
    bool is_exact() const { return !is_there || std::max(std::fabs(x), std::fabs(y)) <= kExact; }

    bool is_there;
    double x, y;
};

// Puts metrics where they belong, and remembers which have no value.
class Row {
public:
    explicit Row(od_result &result) : metrics_(result.metrics), missing_(result.missing) { missing_ = 0; }

    void put(double &place, Maybe value) {
        place = value.value_or(0);
        if (!value)
            leave_out(&place);
    }
    // A number that is an integer where those are that it was made of.
    void put(int64_t &place, Maybe value, bool is_integer) {
        put_if(value.has_value(), place,
               is_integer ? static_cast<int64_t>(value.value_or(0)) : bits_as<int64_t>(value.value_or(0)));
    }
    void put_if(bool is_there, int64_t &place, int64_t value) {
        place = value;
        if (!is_there)
            leave_out(&place);
    }

private:
    void leave_out(const void *place) {
        const auto distance = static_cast<const char *>(place) - reinterpret_cast<const char *>(&metrics_);
        missing_ |= int64_t{1} << (distance / 8);
    }

    const od_metrics &metrics_;
    int64_t &missing_;
};

void set_documented(const Pair &pair, const Difference &worst_relative, Maybe worst, od_result &result, Row &row) {
    od_metrics &metrics = result.metrics;
    const int64_t n = pair.count;
    const bool is_zero_only_in_golden =
        is_finite(result.golden) && largest(result.golden, pair.golden) <= kSmall &&
        (largest(result.target, pair.target) > kSmall || infs(result.target) > 0);
    const RelativeErrors relative = relative_errors(result, n, worst_relative.relative(), is_zero_only_in_golden);
    const Maybe error = error_of_all(result);
    const auto over_all = [&](double of_finite) { return error ? error : n ? Maybe(of_finite) : Maybe(); };
    row.put(metrics.cosine, cosine(result, n, metrics.note));
    row.put(metrics.max_absolute_error, error ? error : worst, pair.target.is_integer() && pair.golden.is_integer());
    row.put(metrics.accumulated_relative_error, relative.total);
    row.put(metrics.relative_euclidean_distance, relative_distance(result, n));
    row.put(metrics.kl_divergence, pair.with_kl && n ? Maybe(result.kl < kSmall ? 0.0 : result.kl) : Maybe());
    row.put(metrics.target_mean, mean(result.target));
    row.put(metrics.target_std, deviation(result.target));
    row.put(metrics.golden_mean, mean(result.golden));
    row.put(metrics.golden_std, deviation(result.golden));
    row.put(metrics.mean_absolute_error, over_all(result.error_sizes / real(n)));
    row.put(metrics.root_mean_square_error, over_all(std::sqrt(result.error_squares / real(n))));
    row.put(metrics.max_relative_error, relative.most);
    row.put(metrics.mean_relative_error, relative.mean);
}

void set_counts(const od_result &result, od_metrics &metrics, Row &row) {
    metrics.is_equal = result.unequal == 0;
    metrics.target_nans = result.target.nans;
    metrics.target_infs = infs(result.target);
    metrics.golden_nans = result.golden.nans;
    metrics.golden_infs = infs(result.golden);
    metrics.special_mismatches = result.mismatches;
    row.put_if(result.first_mismatch >= 0, metrics.first_special_mismatch, result.first_mismatch);
    metrics.finite_count = result.pairs;
}

void set_ours(const od_result &result, od_metrics &metrics, Row &row) {
    const auto share = [&](int64_t some) { return result.pairs ? Maybe(real(some) / real(result.pairs)) : Maybe(); };
    row.put(metrics.finite_cosine, cosine_of_pairs(result, result.xy, result.xx, result.yy));
    row.put(metrics.centred_cosine, cosine_of_pairs(result, result.spread_xy, result.spread_x, result.spread_y));
    row.put(metrics.norm_ratio, norm_ratio(result));
    row.put(metrics.snr_db, snr_db(result));
    row.put(metrics.error_bias, bias(result));
    row.put(metrics.over_1_permille, share(result.over_1_permille));
    row.put(metrics.over_5_permille, share(result.over_5_permille));
    row.put(metrics.zero_golden, share(result.zero_golden));
    const Fit line = fit(result);
    row.put(metrics.fit_scale, line.scale);
    row.put(metrics.fit_offset, line.offset);
    row.put(metrics.fit_distance, line.distance);
}

void set_range(const od_totals &totals, const Side &side, int64_t &minimum, int64_t &maximum, Row &row) {
    row.put_if(totals.finite > 0, minimum, shown(totals.minimum, side));
    row.put_if(totals.finite > 0, maximum, shown(totals.maximum, side));
}

}  // namespace

void set_metrics(const Pair &pair, od_result &result) {
    od_metrics &metrics = result.metrics;
    metrics.count = pair.count;
    const Difference worst(result.worst, pair), relative(result.worst_relative, pair), ulps(result.worst_ulps, pair);
    const bool are_integers = pair.target.is_integer() && pair.golden.is_integer();
    if (are_integers && !(worst.is_exact() && relative.is_exact() && ulps.is_exact())) {
        result.missing = -1;
        return;
    }
    Row row(result);
    set_documented(pair, relative, worst.is_there ? Maybe(worst.size()) : Maybe(), result, row);
    set_counts(result, metrics, row);
    set_ours(result, metrics, row);
    row.put(metrics.max_ulp, ulps.is_there ? Maybe(ulps.ulps(pair.scale)) : Maybe(), are_integers);
    const bool is_off = worst.is_there && worst.size() > 0;
    row.put_if(is_off, metrics.worst_index, result.worst.index);
    row.put_if(is_off, metrics.worst_target, shown(result.worst.target, pair.target));
    row.put_if(is_off, metrics.worst_golden, shown(result.worst.golden, pair.golden));
    row.put_if(relative.is_there, metrics.worst_relative_index, result.worst_relative.index);
    set_range(result.target, pair.target, metrics.target_min, metrics.target_max, row);
    set_range(result.golden, pair.golden, metrics.golden_min, metrics.golden_max, row);
}

}  // namespace opdiff

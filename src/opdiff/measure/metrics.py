"""From sums to metrics: formulas, and their values for zeros, NaNs, infinities and tensors without elements."""

from __future__ import annotations

from math import inf, log10, nan, sqrt
from typing import TYPE_CHECKING

from opdiff.core.metrics import Metrics
from opdiff.core.reasons import because
from opdiff.measure.sums import ZERO_THRESHOLD, scaled

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.measure.sums import Number, PairSums, Scale, SideSums, Sums

SCALAR, EMPTY, COMPLEX = because("measure.scalar"), because("measure.empty"), because("measure.complex_parts")
"""Notes about the metrics of scalars, empty tensors and complex numbers."""

_ZERO_SQUARE = ZERO_THRESHOLD**2
_LOG10_2 = log10(2)


def metrics_of(sums: Sums, kl: float | None, *, is_scalar: bool = False) -> Metrics:
    """Return the metrics of two tensors; `is_scalar`: the shape is empty or has ones only."""
    count, target, golden, pairs, scale = sums.count, sums.target, sums.golden, sums.pairs, sums.scale
    distribution, non_finite, parts = sums.distribution, sums.non_finite, sums.parts
    worst = sums.worst if sums.worst and sums.worst.value else None
    worst_relative, worst_ulps = sums.worst_relative, sums.worst_ulps
    is_finite = target.is_finite and golden.is_finite
    are_small = _is_small(target, scale.target), _is_small(golden, scale.golden)
    of_pairs = _cosine_of(pairs.products, pairs.target_squares, pairs.golden_squares)
    cosine, notes = _cosine(sums, are_small, of_pairs, is_finite=is_finite, is_scalar=is_scalar)
    max_absolute, mean_absolute, root_mean_square = _absolute_errors(sums, is_finite=is_finite)
    accumulated_relative, max_relative, mean_relative = _relative_errors(sums, is_finite=is_finite)
    target_mean, target_std = _mean_and_deviation(target, scale.target)
    golden_mean, golden_std = _mean_and_deviation(golden, scale.golden)
    fit_scale, fit_offset, fit_distance = _fit(pairs, scale)
    # Many fields are set much faster by position than by name.
    return Metrics(
        count,
        cosine,
        max_absolute,
        accumulated_relative,
        _relative_distance(sums, are_small, is_finite=is_finite),
        kl if count else None,
        target_mean,
        target_std,
        golden_mean,
        golden_std,
        mean_absolute,
        root_mean_square,
        max_relative,
        mean_relative,
        # Not documented.
        not sums.unequal,
        target.nans,
        target.infs,
        golden.nans,
        golden.infs,
        non_finite.mismatches,
        None if non_finite.first_mismatch is None else non_finite.first_mismatch // parts,
        pairs.count,
        *_finite_metrics(pairs, scale, of_pairs),
        distribution.over_1_permille / pairs.count if pairs.count else None,
        distribution.over_5_permille / pairs.count if pairs.count else None,
        worst_ulps.value if worst_ulps else None,
        worst.index // parts if worst else None,
        worst.target if worst else None,
        worst.golden if worst else None,
        (*notes, COMPLEX) if parts > 1 else notes,
        target.minimum,
        target.maximum,
        golden.minimum,
        golden.maximum,
        fit_scale,
        fit_offset,
        fit_distance,
        distribution.zero_golden / pairs.count if pairs.count else None,
        worst_relative.index // parts if worst_relative else None,
        distribution.relative,
        distribution.ulps,
        worst_relative.target if worst_relative else None,
        worst_relative.golden if worst_relative else None,
    )


# Documented metrics: over all elements; a single NaN makes them NaN.


def _is_small(side: SideSums, exponent: int) -> bool:
    """Return whether the norm of a side counts as zero."""
    return scaled(side.squares, 2 * exponent) <= _ZERO_SQUARE


def _cosine(
    sums: Sums, are_small: tuple[bool, bool], of_pairs: float | None, *, is_finite: bool, is_scalar: bool
) -> tuple[float | None, tuple[Reason, ...]]:
    """Return the cosine and notes; `of_pairs` is the cosine of the finite pairs."""
    if not sums.count:
        return None, (EMPTY,)
    if not is_finite:
        return nan, (SCALAR,) if is_scalar else ()
    if is_scalar:
        return 1.0, (SCALAR,)
    if all(are_small):
        return 1.0, ()
    target_is_zero, golden_is_zero = not sums.target.squares, not sums.golden.squares
    if target_is_zero != golden_is_zero:
        return None, (because("measure.zero_side", side="target" if target_is_zero else "golden"),)
    return of_pairs, ()


def _absolute_errors(sums: Sums, *, is_finite: bool) -> tuple[Number | None, float | None, float | None]:
    """Return maximum, mean and root mean square of the errors."""
    if not is_finite:
        has_nans = sums.target.nans or sums.golden.nans or sums.non_finite.same_infs
        error = nan if has_nans else inf
        return error, error, error
    largest = None if sums.worst is None else sums.worst.value
    count, pairs, exponent = sums.count, sums.pairs, sums.scale.errors
    if not count:
        return largest, None, None
    mean, root_mean_square = pairs.absolute_errors / count, sqrt(pairs.squared_errors / count)
    return largest, scaled(mean, exponent), scaled(root_mean_square, exponent)


def _relative_errors(sums: Sums, *, is_finite: bool) -> tuple[float | None, float | None, float | None]:
    """Return sum, maximum and mean of the relative errors."""
    if not sums.count:
        return None, None, None
    non_finite = sums.non_finite
    if not is_finite and (sums.target.nans or sums.golden.nans or non_finite.same_infs or non_finite.opposite_infs):
        return nan, nan, nan
    if non_finite.target_infs or _is_zero_only_in_golden(sums):
        return inf, inf, inf
    # A finite target against an infinite golden value has a relative error of 1.
    exponent = sums.scale.relative
    total = sums.pairs.relative + scaled(non_finite.golden_infs, -exponent)
    largest = float(sums.worst_relative.value) if sums.worst_relative else 0.0
    largest = max(largest, 1.0) if non_finite.golden_infs else largest
    return scaled(total, exponent), largest, scaled(total / sums.count, exponent)


def _is_zero_only_in_golden(sums: Sums) -> bool:
    """Return whether all golden values count as zero although target values do not."""
    golden_is_zero = sums.golden.is_finite and sums.golden.largest <= ZERO_THRESHOLD
    return golden_is_zero and (sums.target.largest > ZERO_THRESHOLD or sums.target.infs > 0)


def _relative_distance(sums: Sums, are_small: tuple[bool, bool], *, is_finite: bool) -> float | None:
    if not sums.count:
        return None
    if not is_finite:
        return nan if sums.target.nans or not sums.golden.is_finite else inf
    target_is_small, golden_is_small = are_small
    if golden_is_small:
        return 0.0 if target_is_small else inf
    ratio = sqrt(sums.pairs.squared_errors / sums.golden.squares)
    return scaled(ratio, sums.scale.errors - sums.scale.golden)


def _mean_and_deviation(side: SideSums, exponent: int) -> tuple[float | None, float | None]:
    count = side.finite
    if not side.is_finite:
        is_mixed = side.nans or (side.positive_infs and side.negative_infs)
        return nan if is_mixed else inf if side.positive_infs else -inf, nan
    if not count:
        return None, None
    variance = max(side.squared_deviations, 0.0) / count
    return scaled(side.total / count, exponent), scaled(sqrt(variance), exponent)


# Other metrics: over the pairs that are finite on both sides.


def _finite_metrics(
    pairs: PairSums, scale: Scale, cosine: float | None
) -> tuple[float | None, float | None, float | None, float | None, float | None]:
    """Return cosine, centred cosine (Pearson's correlation), norm ratio, SNR in dB and bias of the errors."""
    if not pairs.count:
        return None, None, None, None, None
    ratio = _norm_ratio(pairs, scale)
    if not pairs.squared_errors:
        return 1.0, 1.0, ratio, inf, _bias(pairs)
    centred = _cosine_of(pairs.product_deviations, pairs.target_deviations, pairs.golden_deviations)
    return cosine, centred, ratio, _snr_db(pairs, scale), _bias(pairs)


def _norm_ratio(pairs: PairSums, scale: Scale) -> float:
    if not pairs.golden_squares:
        return inf if pairs.target_squares else 1.0
    return scaled(sqrt(pairs.target_squares / pairs.golden_squares), scale.target - scale.golden)


def _snr_db(pairs: PairSums, scale: Scale) -> float:
    if not pairs.golden_squares:
        return -inf
    powers = scale.golden - scale.errors
    return 10 * (log10(pairs.golden_squares) - log10(pairs.squared_errors)) + 20 * powers * _LOG10_2


def _fit(pairs: PairSums, scale: Scale) -> tuple[float | None, float | None, float | None]:
    """Return scale and offset of the fitted line, and the distance from it relative to the golden norm."""
    if pairs.golden_deviations <= 0 or pairs.golden_squares <= 0:
        return None, None, None
    slope = pairs.product_deviations / pairs.golden_deviations
    offset = (pairs.target - slope * pairs.golden) / pairs.count
    left = pairs.target_deviations - slope * pairs.product_deviations
    # If the line explains everything, two large numbers nearly cancel; what is left is rounding.
    left = left if left > pairs.target_deviations * 2.0**-46 else 0.0
    powers = scale.target - scale.golden
    return scaled(slope, powers), scaled(offset, scale.target), scaled(sqrt(left / pairs.golden_squares), powers)


def _bias(pairs: PairSums) -> float:
    return max(-1.0, min(pairs.errors / pairs.absolute_errors, 1.0)) if pairs.absolute_errors else 0.0


def _cosine_of(products: float, x_squares: float, y_squares: float) -> float | None:
    if x_squares <= 0 or y_squares <= 0:
        return None
    if products == x_squares == y_squares:
        return 1.0
    return max(-1.0, min(products / (sqrt(x_squares) * sqrt(y_squares)), 1.0))

"""From sums to metrics: formulas, and their values for zeros, NaNs, infinities and tensors without elements."""

from __future__ import annotations

from math import inf, ldexp, log10, nan, sqrt
from typing import TYPE_CHECKING

from opdiff.core.metrics import Metrics
from opdiff.core.reasons import because
from opdiff.measure.sums import ZERO_THRESHOLD

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.measure.sums import Number, PairSums, Scale, SideSums, Sums

SCALAR, EMPTY, COMPLEX = because("measure.scalar"), because("measure.empty"), because("measure.complex_parts")
"""Notes about the metrics of scalars, empty tensors and complex numbers."""

_ZERO_SQUARE = ZERO_THRESHOLD**2


def metrics_of(sums: Sums, kl: float | None, *, is_scalar: bool = False) -> Metrics:
    """Return the metrics of two tensors; `is_scalar`: the shape is empty or has ones only."""
    cosine, notes = _cosine(sums, is_scalar=is_scalar)
    relative = _relative_errors(sums)
    error = _non_finite_error(sums)
    count, pairs, distribution = sums.count, sums.pairs, sums.distribution
    worst = sums.worst if sums.worst and sums.worst.value else None
    fit = _fit(pairs, sums.scale)
    target_mean, target_std = _mean_and_deviation(sums.target, sums.scale.target)
    golden_mean, golden_std = _mean_and_deviation(sums.golden, sums.scale.golden)
    return Metrics(
        count=count,
        cosine=cosine,
        max_absolute_error=_largest_error(sums) if error is None else error,
        accumulated_relative_error=relative[0],
        relative_euclidean_distance=_relative_distance(sums),
        kl_divergence=kl if count else None,
        target_mean=target_mean,
        target_std=target_std,
        golden_mean=golden_mean,
        golden_std=golden_std,
        mean_absolute_error=_mean_absolute(pairs.absolute_errors, sums) if error is None else error,
        root_mean_square_error=_root_mean_square(pairs.squared_errors, sums) if error is None else error,
        max_relative_error=relative[1],
        mean_relative_error=relative[2],
        is_equal=not sums.unequal,
        target_nans=sums.target.nans,
        target_infs=sums.target.infs,
        golden_nans=sums.golden.nans,
        golden_infs=sums.golden.infs,
        special_mismatches=sums.non_finite.mismatches,
        first_special_mismatch=_index(sums.non_finite.first_mismatch, sums),
        finite_count=pairs.count,
        finite_cosine=_finite_cosine(pairs),
        centred_cosine=_centred_cosine(pairs),
        norm_ratio=_norm_ratio(pairs, sums.scale),
        snr_db=_snr_db(pairs, sums.scale),
        error_bias=_bias(pairs),
        over_1_permille=distribution.over_1_permille / pairs.count if pairs.count else None,
        over_5_permille=distribution.over_5_permille / pairs.count if pairs.count else None,
        max_ulp=sums.worst_ulps.value if sums.worst_ulps else None,
        worst_index=_index(worst.index if worst else None, sums),
        worst_target=worst.target if worst else None,
        worst_golden=worst.golden if worst else None,
        notes=(*notes, COMPLEX) if sums.parts > 1 else notes,
        target_min=sums.target.minimum,
        target_max=sums.target.maximum,
        golden_min=sums.golden.minimum,
        golden_max=sums.golden.maximum,
        fit_scale=fit[0],
        fit_offset=fit[1],
        fit_distance=fit[2],
        zero_golden=distribution.zero_golden / pairs.count if pairs.count else None,
        worst_relative_index=_index(sums.worst_relative.index if sums.worst_relative else None, sums),
        worst_relative_target=sums.worst_relative.target if sums.worst_relative else None,
        worst_relative_golden=sums.worst_relative.golden if sums.worst_relative else None,
        relative_histogram=distribution.relative,
        ulp_histogram=distribution.ulps,
    )


# Documented metrics: over all elements; a single NaN makes them NaN.


def _cosine(sums: Sums, *, is_scalar: bool) -> tuple[float | None, tuple[Reason, ...]]:
    if not sums.count:
        return None, (EMPTY,)
    if not (sums.target.is_finite and sums.golden.is_finite):
        return nan, (SCALAR,) if is_scalar else ()
    if is_scalar:
        return 1.0, (SCALAR,)
    target_is_zero, golden_is_zero = not sums.target.squares, not sums.golden.squares
    is_small = _target_is_small(sums) and _golden_is_small(sums)
    if target_is_zero != golden_is_zero and not is_small:
        return None, (because("measure.zero_side", side="target" if target_is_zero else "golden"),)
    if is_small:
        return 1.0, ()
    return _cosine_of(sums.pairs.products, sums.pairs.target_squares, sums.pairs.golden_squares), ()


def _target_is_small(sums: Sums) -> bool:
    """Return whether the norm of the target counts as zero."""
    return _ldexp(sums.target.squares, 2 * sums.scale.target) <= _ZERO_SQUARE


def _golden_is_small(sums: Sums) -> bool:
    return _ldexp(sums.golden.squares, 2 * sums.scale.golden) <= _ZERO_SQUARE


def _non_finite_error(sums: Sums) -> float | None:
    """Return the value of all error metrics if there are NaNs or infinities, NaN or infinity; otherwise `None`."""
    if sums.target.nans or sums.golden.nans or sums.non_finite.same_infs:
        return nan
    return inf if sums.target.infs or sums.golden.infs else None


def _largest_error(sums: Sums) -> Number | None:
    return None if sums.worst is None else sums.worst.value


def _relative_errors(sums: Sums) -> tuple[float | None, float | None, float | None]:
    """Return sum, maximum and mean of the relative errors."""
    if not sums.count:
        return None, None, None
    non_finite = sums.non_finite
    if sums.target.nans or sums.golden.nans or non_finite.same_infs or non_finite.opposite_infs:
        return nan, nan, nan
    if non_finite.target_infs or _is_zero_only_in_golden(sums):
        return inf, inf, inf
    # A finite target against an infinite golden value has a relative error of 1.
    total = sums.pairs.relative + non_finite.golden_infs
    largest = float(sums.worst_relative.value) if sums.worst_relative else 0.0
    return total, max(largest, 1.0) if non_finite.golden_infs else largest, total / sums.count


def _is_zero_only_in_golden(sums: Sums) -> bool:
    """Return whether all golden values count as zero although target values do not."""
    golden_is_zero = sums.golden.is_finite and sums.golden.largest <= ZERO_THRESHOLD
    return golden_is_zero and (sums.target.largest > ZERO_THRESHOLD or sums.target.infs > 0)


def _relative_distance(sums: Sums) -> float | None:
    if not sums.count:
        return None
    if sums.target.nans or sums.golden.nans or sums.golden.infs:
        return nan
    if sums.target.infs:
        return inf
    if _golden_is_small(sums):
        return 0.0 if _target_is_small(sums) else inf
    ratio = sqrt(sums.pairs.squared_errors / sums.golden.squares)
    return _ldexp(ratio, sums.scale.errors - sums.scale.golden)


def _mean_and_deviation(side: SideSums, exponent: int) -> tuple[float | None, float | None]:
    if side.nans or (side.positive_infs and side.negative_infs):
        return nan, nan
    if side.infs:
        return inf if side.positive_infs else -inf, nan
    if not side.finite:
        return None, None
    variance = max(side.squared_deviations, 0.0) / side.finite
    return _ldexp(side.total / side.finite, exponent), _ldexp(sqrt(variance), exponent)


def _mean_absolute(absolute_errors: float, sums: Sums) -> float | None:
    return _ldexp(absolute_errors / sums.count, sums.scale.errors) if sums.count else None


def _root_mean_square(squared_errors: float, sums: Sums) -> float | None:
    return _ldexp(sqrt(squared_errors / sums.count), sums.scale.errors) if sums.count else None


# Other metrics: over the pairs that are finite on both sides.


def _finite_cosine(pairs: PairSums) -> float | None:
    if not pairs.count:
        return None
    if not pairs.squared_errors:
        return 1.0
    return _cosine_of(pairs.products, pairs.target_squares, pairs.golden_squares)


def _centred_cosine(pairs: PairSums) -> float | None:
    """Return the cosine after subtracting the mean of each side: Pearson's correlation."""
    if not pairs.count:
        return None
    if not pairs.squared_errors:
        return 1.0
    return _cosine_of(pairs.product_deviations, pairs.target_deviations, pairs.golden_deviations)


def _norm_ratio(pairs: PairSums, scale: Scale) -> float | None:
    if not pairs.count:
        return None
    if not pairs.golden_squares:
        return inf if pairs.target_squares else 1.0
    return _ldexp(sqrt(pairs.target_squares / pairs.golden_squares), scale.target - scale.golden)


def _snr_db(pairs: PairSums, scale: Scale) -> float | None:
    if not pairs.count:
        return None
    if not pairs.squared_errors:
        return inf
    if not pairs.golden_squares:
        return -inf
    powers = scale.golden - scale.errors
    return 10 * (log10(pairs.golden_squares) - log10(pairs.squared_errors)) + 20 * powers * log10(2)


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
    return _ldexp(slope, powers), _ldexp(offset, scale.target), _ldexp(sqrt(left / pairs.golden_squares), powers)


def _bias(pairs: PairSums) -> float | None:
    if not pairs.count:
        return None
    return max(-1.0, min(pairs.errors / pairs.absolute_errors, 1.0)) if pairs.absolute_errors else 0.0


def _index(index: int | None, sums: Sums) -> int | None:
    return None if index is None else index // sums.parts


def _cosine_of(products: float, x_squares: float, y_squares: float) -> float | None:
    if x_squares <= 0 or y_squares <= 0:
        return None
    if products == x_squares == y_squares:
        return 1.0
    return max(-1.0, min(products / sqrt(x_squares) / sqrt(y_squares), 1.0))


def _ldexp(value: float, exponent: int) -> float:
    """Return the value times 2 to the power of `exponent`; infinite if that overflows."""
    if not exponent:
        return value
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf if value > 0 else -inf

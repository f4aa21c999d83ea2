"""From sums to metrics: formulas, and their values for zeros, NaNs, infinities and tensors without elements."""

from __future__ import annotations

from math import inf, ldexp, log10, nan, sqrt
from typing import TYPE_CHECKING

from opdiff.core.comparison import Metrics
from opdiff.measure.sums import SMALL

if TYPE_CHECKING:
    from opdiff.measure.sums import Number, Pairs, Scale, Side, Sums

SCALAR = "this tensor is scalar."
EMPTY = "the tensor has no elements, there is nothing to measure"
COMPLEX = "complex numbers are compared as their real and imaginary parts"
ZERO_TARGET, ZERO_GOLDEN = (
    f"the cosine similarity is not defined: all the data of the {side} is zero" for side in ("target", "golden tensor")
)

_SMALL_SQUARE = SMALL**2


def metrics_of(sums: Sums, kl: float | None, *, is_scalar: bool = False) -> Metrics:
    """The metrics of two tensors; `is_scalar` when the shape is empty or has ones only."""
    cosine, notes = _cosine(sums, is_scalar=is_scalar)
    relative = _relative_errors(sums)
    error = _error_of_all(sums)
    count, pairs, spread = sums.count, sums.pairs, sums.spread
    worst = sums.worst if sums.worst and sums.worst.value else None
    fit = _fit(pairs, sums.scale)
    return Metrics(
        count=count,
        cosine=cosine,
        max_absolute_error=_largest_error(sums),
        accumulated_relative_error=relative[0],
        relative_euclidean_distance=_relative_distance(sums),
        kl_divergence=kl if count else None,
        target_mean=_mean(sums.target, sums.scale.target),
        target_std=_deviation(sums.target, sums.scale.target),
        golden_mean=_mean(sums.golden, sums.scale.golden),
        golden_std=_deviation(sums.golden, sums.scale.golden),
        mean_absolute_error=_mean_error(pairs.error_sizes, sums) if error is None else error,
        root_mean_square_error=_mean_square(pairs.error_squares, sums) if error is None else error,
        max_relative_error=relative[1],
        mean_relative_error=relative[2],
        is_equal=not sums.unequal,
        target_nans=sums.target.nans,
        target_infs=sums.target.infs,
        golden_nans=sums.golden.nans,
        golden_infs=sums.golden.infs,
        special_mismatches=sums.specials.mismatches,
        first_special_mismatch=_place(sums.specials.first_mismatch, sums),
        finite_count=pairs.count,
        finite_cosine=_finite_cosine(pairs),
        centred_cosine=_centred_cosine(pairs),
        norm_ratio=_norm_ratio(pairs, sums.scale),
        snr_db=_snr_db(pairs, sums.scale),
        error_bias=_bias(pairs),
        over_1_permille=spread.over_1_permille / pairs.count if pairs.count else None,
        over_5_permille=spread.over_5_permille / pairs.count if pairs.count else None,
        max_ulp=sums.worst_ulps.value if sums.worst_ulps else None,
        worst_index=_place(worst.index if worst else None, sums),
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
        zero_golden=spread.zero_golden / pairs.count if pairs.count else None,
        worst_relative_index=_place(sums.worst_relative.index if sums.worst_relative else None, sums),
        relative_histogram=spread.relative,
        ulp_histogram=spread.ulps,
    )


# The documented ones: every element counts, and one NaN is enough to make them NaN.


def _cosine(sums: Sums, *, is_scalar: bool) -> tuple[float | None, tuple[str, ...]]:
    if not sums.count:
        return None, (EMPTY,)
    if not (sums.target.is_finite and sums.golden.is_finite):
        return nan, (SCALAR,) if is_scalar else ()
    if is_scalar:
        return 1.0, (SCALAR,)
    target_is_zero, golden_is_zero = not sums.target.squares, not sums.golden.squares
    is_small = _target_is_small(sums) and _golden_is_small(sums)
    if target_is_zero != golden_is_zero and not is_small:
        return None, (ZERO_TARGET if target_is_zero else ZERO_GOLDEN,)
    if is_small:
        return 1.0, ()
    return _cosine_of(sums.pairs.products, sums.pairs.target_squares, sums.pairs.golden_squares), ()


def _target_is_small(sums: Sums) -> bool:
    """Whether the norm of the target counts as zero."""
    return _ldexp(sums.target.squares, 2 * sums.scale.target) <= _SMALL_SQUARE


def _golden_is_small(sums: Sums) -> bool:
    return _ldexp(sums.golden.squares, 2 * sums.scale.golden) <= _SMALL_SQUARE


def _error_of_all(sums: Sums) -> float | None:
    """What NaNs and infinities make of a sum of |x - y|; `None` when there are none of them."""
    if sums.target.nans or sums.golden.nans or sums.specials.same_infs:
        return nan
    return inf if sums.target.infs or sums.golden.infs else None


def _largest_error(sums: Sums) -> Number | None:
    error = _error_of_all(sums)
    if error is not None or sums.worst is None:
        return error
    return sums.worst.value


def _relative_errors(sums: Sums) -> tuple[float | None, float | None, float | None]:
    """Sum, maximum and mean of the relative errors."""
    if not sums.count:
        return None, None, None
    specials = sums.specials
    if sums.target.nans or sums.golden.nans or specials.same_infs or specials.opposite_infs:
        return nan, nan, nan
    if specials.target_infs or _is_zero_only_in_golden(sums):
        return inf, inf, inf
    # A finite number beside an infinite one is off by 1, however large it is.
    total = sums.pairs.relative + specials.golden_infs
    largest = float(sums.worst_relative.value) if sums.worst_relative else 0.0
    return total, max(largest, 1.0) if specials.golden_infs else largest, total / sums.count


def _is_zero_only_in_golden(sums: Sums) -> bool:
    """Whether no golden value is large enough to be divided by although the target has such values."""
    golden_is_zero = sums.golden.is_finite and sums.golden.largest <= SMALL
    return golden_is_zero and (sums.target.largest > SMALL or sums.target.infs > 0)


def _relative_distance(sums: Sums) -> float | None:
    if not sums.count:
        return None
    if sums.target.nans or sums.golden.nans or sums.golden.infs:
        return nan
    if sums.target.infs:
        return inf
    if _golden_is_small(sums):
        return 0.0 if _target_is_small(sums) else inf
    ratio = sqrt(sums.pairs.error_squares / sums.golden.squares)
    return _ldexp(ratio, sums.scale.errors - sums.scale.golden)


def _mean(side: Side, exponent: int) -> float | None:
    if side.nans or (side.positive_infs and side.negative_infs):
        return nan
    if side.infs:
        return inf if side.positive_infs else -inf
    return _ldexp(side.total / side.finite, exponent) if side.finite else None


def _deviation(side: Side, exponent: int) -> float | None:
    if not side.is_finite:
        return nan
    if not side.finite:
        return None
    return _ldexp(sqrt(max(side.spread, 0.0) / side.finite), exponent)


def _mean_error(error_sizes: float, sums: Sums) -> float | None:
    return _ldexp(error_sizes / sums.count, sums.scale.errors) if sums.count else None


def _mean_square(error_squares: float, sums: Sums) -> float | None:
    return _ldexp(sqrt(error_squares / sums.count), sums.scale.errors) if sums.count else None


# Ours: over the pairs that are finite on both sides.


def _finite_cosine(pairs: Pairs) -> float | None:
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return 1.0
    return _cosine_of(pairs.products, pairs.target_squares, pairs.golden_squares)


def _centred_cosine(pairs: Pairs) -> float | None:
    """The cosine after the mean of each side was taken off: Pearson's correlation."""
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return 1.0
    return _cosine_of(pairs.product_spread, pairs.target_spread, pairs.golden_spread)


def _norm_ratio(pairs: Pairs, scale: Scale) -> float | None:
    if not pairs.count:
        return None
    if not pairs.golden_squares:
        return inf if pairs.target_squares else 1.0
    return _ldexp(sqrt(pairs.target_squares / pairs.golden_squares), scale.target - scale.golden)


def _snr_db(pairs: Pairs, scale: Scale) -> float | None:
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return inf
    if not pairs.golden_squares:
        return -inf
    powers = scale.golden - scale.errors
    return 10 * (log10(pairs.golden_squares) - log10(pairs.error_squares)) + 20 * powers * log10(2)


def _fit(pairs: Pairs, scale: Scale) -> tuple[float | None, float | None, float | None]:
    """Scale and offset of the line through the pairs, and how far the target is from it beside the golden norm."""
    if pairs.golden_spread <= 0 or pairs.golden_squares <= 0:
        return None, None, None
    slope = pairs.product_spread / pairs.golden_spread
    offset = (pairs.target - slope * pairs.golden) / pairs.count
    left = pairs.target_spread - slope * pairs.product_spread
    # Two large numbers nearly cancel out where the line explains everything: their last digits are no distance.
    left = left if left > pairs.target_spread * 2.0**-46 else 0.0
    powers = scale.target - scale.golden
    return _ldexp(slope, powers), _ldexp(offset, scale.target), _ldexp(sqrt(left / pairs.golden_squares), powers)


def _bias(pairs: Pairs) -> float | None:
    if not pairs.count:
        return None
    return max(-1.0, min(pairs.errors / pairs.error_sizes, 1.0)) if pairs.error_sizes else 0.0


def _place(index: int | None, sums: Sums) -> int | None:
    return None if index is None else index // sums.parts


def _cosine_of(products: float, x_squares: float, y_squares: float) -> float | None:
    if x_squares <= 0 or y_squares <= 0:
        return None
    if products == x_squares == y_squares:
        return 1.0
    return max(-1.0, min(products / sqrt(x_squares) / sqrt(y_squares), 1.0))


def _ldexp(value: float, exponent: int) -> float:
    """The value times 2 to the power of `exponent`; infinite where that is too large for a float."""
    if not exponent:
        return value
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf if value > 0 else -inf

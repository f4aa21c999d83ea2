"""From sums to metrics: formulas, and what they mean for zeros, NaNs, infinities and tensors without elements."""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf, ldexp, log10, nan, sqrt
from typing import TYPE_CHECKING

from opdiff.comparison import Metrics
from opdiff.measure.sums import SMALL

if TYPE_CHECKING:
    from opdiff.measure.sums import Number, Products, Side, Sums

SCALAR = "this tensor is scalar."
EMPTY = "the tensor has no elements, there is nothing to measure"
COMPLEX = "complex numbers are compared as their real and imaginary parts"

_SMALL_SQUARE = Fraction(SMALL) ** 2
# The square of 2 to this power is well inside the range of floats.
_SAFE_EXPONENT = 400


def metrics_of(sums: Sums, kl: float | None, *, is_scalar: bool = False) -> Metrics:
    """The metrics of two tensors; `is_scalar` when the shape is empty or has ones only."""
    cosine, notes = _cosine(sums, is_scalar=is_scalar)
    relative = _relative_errors(sums)
    error = _error_of_all(sums)
    count, pairs, spread = sums.count, sums.pairs, sums.spread
    worst = sums.worst if sums.worst and sums.worst.value else None
    return Metrics(
        count=count,
        cosine=cosine,
        max_absolute_error=_largest_error(sums),
        accumulated_relative_error=relative[0],
        relative_euclidean_distance=_relative_distance(sums),
        kl_divergence=kl if count else None,
        target_mean=_mean(sums.target),
        target_std=_deviation(sums.target),
        golden_mean=_mean(sums.golden),
        golden_std=_deviation(sums.golden),
        mean_absolute_error=_ratio(pairs.error_sizes, count) if error is None and count else error,
        root_mean_square_error=_root(pairs.error_squares, count) if error is None and count else error,
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
        norm_ratio=_norm_ratio(pairs),
        snr_db=_snr_db(pairs),
        error_bias=_bias(pairs),
        over_1_permille=spread.over_1_permille / pairs.count if pairs.count else None,
        over_5_permille=spread.over_5_permille / pairs.count if pairs.count else None,
        max_ulp=sums.worst_ulps.value if sums.worst_ulps else None,
        worst_index=_place(worst.index if worst else None, sums),
        worst_target=worst.target if worst else None,
        worst_golden=worst.golden if worst else None,
        notes=(*notes, COMPLEX) if sums.parts > 1 else notes,
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
    if target_is_zero != golden_is_zero and max(sums.target.squares, sums.golden.squares) > _SMALL_SQUARE:
        side = "target" if target_is_zero else "golden tensor"
        return None, (f"the cosine similarity is not defined: all the data of the {side} is zero",)
    if max(sums.target.squares, sums.golden.squares) <= _SMALL_SQUARE:
        return 1.0, ()
    return _cosine_of(sums.pairs.products, sums.pairs.target_squares, sums.pairs.golden_squares), ()


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
    return _float(total), max(largest, 1.0) if specials.golden_infs else largest, _ratio(total, sums.count)


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
    if sums.golden.squares <= _SMALL_SQUARE:
        return 0.0 if sums.target.squares <= _SMALL_SQUARE else inf
    return _root(sums.pairs.error_squares, sums.golden.squares)


def _mean(side: Side) -> float | None:
    if side.nans or (side.positive_infs and side.negative_infs):
        return nan
    if side.infs:
        return inf if side.positive_infs else -inf
    return _ratio(side.total, side.finite) if side.finite else None


def _deviation(side: Side) -> float | None:
    if not side.is_finite:
        return nan
    if not side.finite:
        return None
    return _root(_spread(side.squares, side.total, side.total, side.finite), side.finite)


# Ours: over the pairs that are finite on both sides.


def _finite_cosine(pairs: Products) -> float | None:
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return 1.0
    return _cosine_of(pairs.products, pairs.target_squares, pairs.golden_squares)


def _centred_cosine(pairs: Products) -> float | None:
    """The cosine after the mean of each side was taken off: Pearson's correlation."""
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return 1.0
    target = _spread(pairs.target_squares, pairs.target, pairs.target, pairs.count)
    golden = _spread(pairs.golden_squares, pairs.golden, pairs.golden, pairs.count)
    return _cosine_of(_spread(pairs.products, pairs.target, pairs.golden, pairs.count), target, golden)


def _norm_ratio(pairs: Products) -> float | None:
    if not pairs.count:
        return None
    if not pairs.golden_squares:
        return inf if pairs.target_squares else 1.0
    return _root(pairs.target_squares, pairs.golden_squares)


def _snr_db(pairs: Products) -> float | None:
    if not pairs.count:
        return None
    if not pairs.error_squares:
        return inf
    if not pairs.golden_squares:
        return -inf
    return 10 * (_log10(pairs.golden_squares) - _log10(pairs.error_squares))


def _bias(pairs: Products) -> float | None:
    if not pairs.count:
        return None
    return _ratio(pairs.errors, pairs.error_sizes) if pairs.error_sizes else 0.0


def _place(index: int | None, sums: Sums) -> int | None:
    return None if index is None else index // sums.parts


# Arithmetic on exact sums, whose range is larger than that of floats.


def _spread(products: Fraction, x: Fraction, y: Fraction, count: int) -> Fraction:
    """Σ (x - mean of x)·(y - mean of y)."""
    return products - x * y / count


def _cosine_of(products: Fraction, x_squares: Fraction, y_squares: Fraction) -> float | None:
    if x_squares <= 0 or y_squares <= 0:
        return None
    if products == x_squares == y_squares:
        return 1.0
    size = min(sqrt(products * products / (x_squares * y_squares)), 1.0)
    return size if products > 0 else -size


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _ratio(numerator: Fraction, denominator: Fraction | int) -> float:
    return _float(numerator / denominator)


def _root(numerator: Fraction, denominator: Fraction | int) -> float:
    """The square root of a ratio that may itself be too large or too small for a float."""
    ratio = max(numerator / denominator, Fraction())
    half = (ratio.numerator.bit_length() - ratio.denominator.bit_length()) // 2
    if abs(half) < _SAFE_EXPONENT:
        return sqrt(ratio)
    return _ldexp(sqrt(ratio / Fraction(4) ** half), half)


def _ldexp(value: float, exponent: int) -> float:
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf


def _log10(value: Fraction) -> float:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa, more = frexp(value / Fraction(2) ** exponent)
    return log10(mantissa) + (exponent + more) * log10(2)

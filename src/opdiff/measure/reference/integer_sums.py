"""Sums in integers of any size, for blocks whose sums in floats have too few digits."""

from __future__ import annotations

from fractions import Fraction
from operator import mul, sub
from typing import TYPE_CHECKING

import numpy as np

from opdiff.measure.reference.exact_sums import ExactPairSums, ExactSideSums
from opdiff.measure.sums import ZERO_THRESHOLD

if TYPE_CHECKING:
    from opdiff.measure.reference.block_values import BlockValues

    Sides = tuple[ExactSideSums, ExactSideSums]

# Every integer up to this is exact in float64.
_MAX_EXACT = 1 << 53
# Square of the share of a sum in the magnitudes of its summands below which too few digits are left.
_CANCELLED = Fraction(1, 1 << 44)
# The products of larger blocks are zero if no element is common to both sides.
_SMALL_COUNT = 1 << 14


def have_lost_digits(target: BlockValues, golden: BlockValues, sides: Sides, products: Fraction) -> bool:
    """Return whether floats round the numbers themselves, or nearly all digits of a printed sum cancelled."""
    if _is_rounded(target, sides[0]) or _is_rounded(golden, sides[1]):
        return True
    norms = sides[0].squares * sides[1].squares
    is_lost = products * products < norms * _CANCELLED and (products != 0 or sides[0].finite <= _SMALL_COUNT)
    return is_lost or any(map(_has_lost_mean, sides))


def _is_rounded(values: BlockValues, side: ExactSideSums) -> bool:
    return values.are_wide_integers and side.largest > _MAX_EXACT


def _has_lost_mean(side: ExactSideSums) -> bool:
    sizes = side.finite * side.squares
    return side.total * side.total < sizes * _CANCELLED and sizes > (side.finite << 22) ** 2


def integer_sums(target: BlockValues, golden: BlockValues, relative: Fraction) -> tuple[Sides, ExactPairSums]:
    """Return the sums of both sides and of their pairs, without NaNs and infinities.

    `relative` is the sum of the relative errors, which loses no digits in floats.
    """
    x, y, exponent = _in_common_units(target, golden)
    errors = list(map(sub, x, y))
    totals = _scaled(sum(x), exponent), _scaled(sum(y), exponent)
    squares = _scaled(_dot(x, x), 2 * exponent), _scaled(_dot(y, y), 2 * exponent)
    pairs = ExactPairSums(
        len(x),
        *totals,
        *squares,
        products=_scaled(_dot(x, y), 2 * exponent),
        errors=_scaled(sum(errors), exponent),
        absolute_errors=_scaled(sum(map(abs, errors)), exponent),
        squared_errors=_scaled(_dot(errors, errors), 2 * exponent),
        relative=relative,
    )
    left = ExactSideSums(len(x), totals[0], squares[0], *target.extremes())
    return (left, ExactSideSums(len(y), totals[1], squares[1], *golden.extremes())), pairs


def relative_sum(target: BlockValues, golden: BlockValues) -> Fraction:
    """Return the sum of relative errors that may exceed the range of floats."""
    x, y, exponent = _in_common_units(target, golden)
    zero = _scaled(1, -exponent) * Fraction(ZERO_THRESHOLD)
    counted = [(abs(a - b), abs(b)) for a, b in zip(x, y, strict=True) if abs(b) > zero]
    return _scaled(sum((error << 64) // golden_size for error, golden_size in counted), -64)


def _in_common_units(target: BlockValues, golden: BlockValues) -> tuple[list[int], list[int], int]:
    """Return the numbers of both sides in units of a power of two, and its exponent."""
    (x, x_exponent), (y, y_exponent) = _in_units(target), _in_units(golden)
    exponent = min(x_exponent, y_exponent)
    return _shifted(x, x_exponent - exponent), _shifted(y, y_exponent - exponent), exponent


def _in_units(values: BlockValues) -> tuple[list[int], int]:
    if values.are_integers:
        return values.decoded.astype(object).tolist(), 0
    fractions, exponents = np.frexp(values.values())
    integers, powers = np.ldexp(fractions, 53).astype(np.int64), np.where(fractions, exponents - 53, 0)
    least = int(powers.min())
    return [unit << power for unit, power in zip(integers.tolist(), (powers - least).tolist(), strict=True)], least


def _shifted(units: list[int], power: int) -> list[int]:
    return [unit << power for unit in units] if power else units


def _dot(x: list[int], y: list[int]) -> int:
    return sum(map(mul, x, y))


def _scaled(value: int, exponent: int) -> Fraction:
    return Fraction(value << exponent) if exponent >= 0 else Fraction(value, 1 << -exponent)

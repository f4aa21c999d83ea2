"""Sums in integers of any size, for blocks whose sums in floats would have too few digits."""

from __future__ import annotations

from fractions import Fraction
from operator import mul, sub
from typing import TYPE_CHECKING

import numpy as np

from opdiff.measure.reference.exact_sums import ExactPairSums, ExactSideSums
from opdiff.measure.sums import ZERO_THRESHOLD

if TYPE_CHECKING:
    from opdiff.measure.reference.block_values import BlockValues

# Relative errors are summed in units of 2 to the power of minus this.
_RELATIVE_DIGITS = 200


def side_sums(values: BlockValues) -> ExactSideSums:
    """Return the sums of a side without NaNs and infinities."""
    units, exponent = _in_units(values)
    total, squares = _scaled(sum(units), exponent), _scaled(_dot(units, units), 2 * exponent)
    return ExactSideSums(len(units), total, squares, *values.extremes())


def pair_sums(target: BlockValues, golden: BlockValues) -> ExactPairSums:
    """Return the sums of two sides without NaNs and infinities."""
    (x, x_exponent), (y, y_exponent) = _in_units(target), _in_units(golden)
    exponent = min(x_exponent, y_exponent)
    x, y = ([unit << (own - exponent) for unit in units] for units, own in ((x, x_exponent), (y, y_exponent)))
    errors = list(map(sub, x, y))
    sums = sum(x), sum(y), _dot(x, x), _dot(y, y), _dot(x, y), sum(errors), sum(map(abs, errors)), _dot(errors, errors)
    powers = 1, 1, 2, 2, 2, 1, 1, 2
    scaled = (_scaled(value, power * exponent) for value, power in zip(sums, powers, strict=True))
    zero = _scaled(1, -exponent) * Fraction(ZERO_THRESHOLD)
    relative = sum(
        (abs(error) << _RELATIVE_DIGITS) // abs(unit) for error, unit in zip(errors, y, strict=True) if abs(unit) > zero
    )
    return ExactPairSums(len(x), *scaled, _scaled(relative, -_RELATIVE_DIGITS))


def _in_units(values: BlockValues) -> tuple[list[int], int]:
    """Return the numbers in units of a power of two, and its exponent."""
    if values.are_integers:
        return [int(number) for number in values.to_list()], 0
    fractions, exponents = np.frexp(values.values())
    integers, powers = np.ldexp(fractions, 53).astype(np.int64), np.where(fractions, exponents - 53, 0)
    least = int(powers.min())
    return [unit << power for unit, power in zip(integers.tolist(), (powers - least).tolist(), strict=True)], least


def _dot(x: list[int], y: list[int]) -> int:
    return sum(map(mul, x, y))


def _scaled(value: int, exponent: int) -> Fraction:
    return Fraction(value << exponent) if exponent >= 0 else Fraction(value, 1 << -exponent)

"""Sums of a block of floats as fractions, whatever the size of the numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opdiff.measure.numbers import Floats

# Squares of larger (and of smaller) powers of two are too near to the ends of the range.
_SAFE_EXPONENT = 400


def to_exact(value: float, exponent: int = 0) -> Fraction:
    """The finite `value` times 2 to the power of `exponent`."""
    exact = Fraction(float(value))
    if not exponent:
        return exact
    return exact * (1 << exponent) if exponent > 0 else exact / (1 << -exponent)


def scale(values: Floats) -> tuple[Floats, int]:
    """The values divided by a power of two so that they can be squared and added up, and its exponent, usually 0."""
    exponent = int(np.frexp(max(abs(values.min()), abs(values.max())))[1])
    if abs(exponent) <= _SAFE_EXPONENT:
        return values, 0
    return np.ldexp(values, -exponent), exponent


class Centred:
    """Finite numbers as their mean and the differences from it.

    A small spread around a large mean is then not rounded off; in the sums the mean is added exactly.
    """

    def __init__(self, values: Floats) -> None:
        scaled, self._exponent = scale(values)
        mean = float(np.add.reduce(scaled)) / len(scaled)
        self._rest = scaled - mean
        self._mean = Fraction(mean)
        self._rest_total = to_exact(np.add.reduce(self._rest))
        self._total = self._rest_total + self._mean * len(scaled)

    def total(self) -> Fraction:
        """The sum of the numbers."""
        return self._total if not self._exponent else self._total * to_exact(1.0, self._exponent)

    def inner(self, other: Centred) -> Fraction:
        """The sum of the products with `other`."""
        rest = to_exact(np.add.reduce(self._rest * other._rest))
        product = rest + self._mean * other._rest_total + other._mean * self._total
        exponent = self._exponent + other._exponent
        return product if not exponent else product * to_exact(1.0, exponent)

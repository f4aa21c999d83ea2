"""Sums of a block of floats as fractions, for numbers of any magnitude."""

from __future__ import annotations

from fractions import Fraction
from math import frexp
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opdiff.measure.reference.block_values import Floats

# Squares of numbers with larger or smaller exponents come too close to the limits of floats.
_SAFE_EXPONENT = 400

# Products summed sequentially; bounds the rounding error.
_ROW = 1024


def to_exact(value: float, exponent: int = 0) -> Fraction:
    """Return the finite `value` times 2 to the power of `exponent`."""
    exact = Fraction(float(value))
    if not exponent:
        return exact
    return exact * (1 << exponent) if exponent > 0 else exact / (1 << -exponent)


def scale(values: Floats, largest: float) -> tuple[Floats, int]:
    """Return the values divided by a power of two so that squares can be summed, and its exponent, usually 0.

    `largest` is their largest magnitude.
    """
    exponent = frexp(largest)[1]
    if abs(exponent) <= _SAFE_EXPONENT:
        return values, 0
    return np.ldexp(values, -exponent), exponent


def dot(x: Floats, y: Floats) -> float:
    """Return the sum of the products in one pass: by rows, and then the sums of the rows."""
    whole = len(x) - len(x) % _ROW
    rows = np.einsum("ij,ij->i", x[:whole].reshape(-1, _ROW), y[:whole].reshape(-1, _ROW))
    rest = np.einsum("i,i->", x[whole:], y[whole:]) if whole < len(x) else 0.0
    return float(np.add.reduce(rows) + rest)


class CentredValues:
    """Finite numbers as their mean and the differences from it.

    Keeps the digits of small deviations from a large mean; the mean is added to the sums exactly. If the deviations are
    as large as the mean, nothing is lost without it, and the mean is taken as 0.

    Args:
        values: the numbers.
        largest: their largest magnitude.
    """

    def __init__(self, values: Floats, largest: float) -> None:
        self._rest, self._exponent = scale(values, largest)
        total, squares = float(np.add.reduce(self._rest)), dot(self._rest, self._rest)
        mean = total / len(values)
        self._mean = Fraction()
        if squares < 2 * total * mean:
            self._mean = Fraction(mean)
            self._rest = self._rest - mean
            total, squares = float(np.add.reduce(self._rest)), dot(self._rest, self._rest)
        self._rest_total, self._rest_squares = Fraction(total), Fraction(squares)
        self._total = self._rest_total + self._mean * len(values) if self._mean else self._rest_total

    def total(self) -> Fraction:
        """Return the sum of the numbers."""
        return self._scaled(self._total, self._exponent)

    def squares(self) -> Fraction:
        """Return the sum of their squares."""
        return self._product(self._rest_squares, self)

    def inner(self, other: CentredValues) -> Fraction:
        """Return the sum of the products with `other`."""
        return self._product(Fraction(dot(self._rest, other._rest)), other)

    def _product(self, rest: Fraction, other: CentredValues) -> Fraction:
        """Return the sum of the products; `rest` is that of the differences from the means."""
        if self._mean or other._mean:
            rest += self._mean * other._rest_total + other._mean * self._total
        return self._scaled(rest, self._exponent + other._exponent)

    @staticmethod
    def _scaled(value: Fraction, exponent: int) -> Fraction:
        return value if not exponent else value * to_exact(1.0, exponent)

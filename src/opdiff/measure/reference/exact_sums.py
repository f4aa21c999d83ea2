"""Exact sums of blocks, which can be merged.

    block, block, … ──blocks──► ExactSums, ExactSums, … ──merge──► ExactSums ──sums──► Sums

The sums of a block are floats; afterwards they are exact fractions. Merging loses nothing, cannot overflow, and gives
the same result however consecutive parts are grouped.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from opdiff.measure.sums import (
    ErrorDistribution,
    Extreme,
    NonFinitePairs,
    Number,
    PairSums,
    Scale,
    SideSums,
    Sums,
    error_at,
    first_index,
    relative_at,
    ulps_at,
)

if TYPE_CHECKING:
    from opdiff.measure.reference.block_values import Floats
    from opdiff.measure.sums import UlpScale

_ZERO = Fraction()

# Squares of numbers with larger or smaller exponents come too close to the limits of floats: of sums, and of a block.
_SAFE_EXPONENT, _SAFE_BLOCK_EXPONENT = 480, 400

# Products summed sequentially; bounds the rounding error.
_ROW = 1024


class ExactSideSums(NamedTuple):
    """The fields of `SideSums` with exact sums, from which the squared deviations follow."""

    finite: int = 0
    total: Fraction = _ZERO
    squares: Fraction = _ZERO
    minimum: Number | None = None
    maximum: Number | None = None
    nans: int = 0
    positive_infs: int = 0
    negative_infs: int = 0
    first_nan: int | None = None
    first_inf: int | None = None

    @property
    def largest(self) -> Number:
        """Largest magnitude of a finite element; 0 if there are none."""
        return max(abs(self.minimum or 0), abs(self.maximum or 0))

    def merge(self, later: ExactSideSums, offset: int) -> ExactSideSums:
        """Return the sums of both parts; `offset` elements come before the later one."""
        return ExactSideSums(
            self.finite + later.finite,
            self.total + later.total,
            self.squares + later.squares,
            min((low for low in (self.minimum, later.minimum) if low is not None), default=None),
            max((high for high in (self.maximum, later.maximum) if high is not None), default=None),
            self.nans + later.nans,
            self.positive_infs + later.positive_infs,
            self.negative_infs + later.negative_infs,
            first_index(self.first_nan, later.first_nan, offset),
            first_index(self.first_inf, later.first_inf, offset),
        )


class ExactPairSums(NamedTuple):
    """The fields of `PairSums` with exact sums, from which the deviations follow."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    target: Fraction = _ZERO
    golden: Fraction = _ZERO
    target_squares: Fraction = _ZERO
    golden_squares: Fraction = _ZERO
    products: Fraction = _ZERO
    errors: Fraction = _ZERO
    absolute_errors: Fraction = _ZERO
    squared_errors: Fraction = _ZERO
    relative: Fraction = _ZERO

    def merge(self, later: ExactPairSums) -> ExactPairSums:
        """Return the sums of both parts."""
        return ExactPairSums(*map(add, self, later))


class ExactSums(Struct, frozen=True):
    """The fields of `Sums` with exact sums, for two tensors or two corresponding parts of them.

    The `value` of an extreme decides which is larger. That of a distance is in single precision if that represents
    every number of both sides.
    """

    count: int = 0
    unequal: int = 0
    target: ExactSideSums = ExactSideSums()
    golden: ExactSideSums = ExactSideSums()
    pairs: ExactPairSums = ExactPairSums()
    distribution: ErrorDistribution = ErrorDistribution()
    non_finite: NonFinitePairs = NonFinitePairs()
    worst: Extreme | None = None
    worst_relative: Extreme | None = None
    worst_ulps: Extreme | None = None
    parts: int = 1

    def merge(self, later: ExactSums) -> ExactSums:
        """Return the sums of both parts; `later` follows this one."""
        offset = self.count
        return ExactSums(
            self.count + later.count,
            self.unequal + later.unequal,
            self.target.merge(later.target, offset),
            self.golden.merge(later.golden, offset),
            self.pairs.merge(later.pairs),
            self.distribution.merge(later.distribution),
            self.non_finite.merge(later.non_finite, offset),
            _larger(self.worst, later.worst, offset),
            _larger(self.worst_relative, later.worst_relative, offset),
            _larger(self.worst_ulps, later.worst_ulps, offset),
            max(self.parts, later.parts),
        )

    def sums(self, ulps: UlpScale) -> Sums:
        """Return the sums as floats, scaled if their range requires it, and the extremes in full precision."""
        scale = Scale(
            *_exponents(self.target, self.golden),
            _error_exponent(self.pairs.squared_errors),
            _relative_exponent(self.pairs.relative),
        )
        return Sums(
            self.count,
            self.unequal,
            _side(self.target, scale.target),
            _side(self.golden, scale.golden),
            _pairs(self.pairs, scale),
            self.distribution,
            self.non_finite,
            error_at(*self.worst.element) if self.worst else None,
            relative_at(*self.worst_relative.element) if self.worst_relative else None,
            ulps_at(*self.worst_ulps.element, ulps) if self.worst_ulps else None,
            self.parts,
            scale,
        )


def _exponents(target: ExactSideSums, golden: ExactSideSums) -> tuple[int, int]:
    """Return the exponents of the powers of two by which both sides are divided to sum squares; usually 0."""
    exponents = frexp(target.largest)[1], frexp(golden.largest)[1]
    return (0, 0) if max(map(abs, exponents)) <= _SAFE_EXPONENT else exponents


def _error_exponent(squares: Fraction) -> int:
    """Return the same for the errors, which may be far smaller than the numbers."""
    exponent = (squares.numerator.bit_length() - squares.denominator.bit_length()) // 2 if squares else 0
    return 0 if abs(exponent) <= _SAFE_EXPONENT else exponent


def _relative_exponent(relative: Fraction) -> int:
    """Return the same for the sum of the relative errors: their mean may be finite although the sum overflows."""
    return max(int(relative).bit_length() - 1000, 0)


def _side(exact: ExactSideSums, exponent: int) -> SideSums:
    return SideSums(
        exact.finite,
        _float(exact.total, -exponent),
        _float(exact.squares, -2 * exponent),
        _float(_deviations(exact.squares, exact.total, exact.total, exact.finite), -2 * exponent),
        *exact[3:],
    )


def _pairs(exact: ExactPairSums, scale: Scale) -> PairSums:
    x, y, errors, count = -scale.target, -scale.golden, -scale.errors, exact.count
    return PairSums(
        count,
        _float(exact.target, x),
        _float(exact.golden, y),
        _float(exact.target_squares, 2 * x),
        _float(exact.golden_squares, 2 * y),
        _float(exact.products, x + y),
        _float(_deviations(exact.target_squares, exact.target, exact.target, count), 2 * x),
        _float(_deviations(exact.golden_squares, exact.golden, exact.golden, count), 2 * y),
        _float(_deviations(exact.products, exact.target, exact.golden, count), x + y),
        _float(exact.errors, errors),
        _float(exact.absolute_errors, errors),
        _float(exact.squared_errors, 2 * errors),
        _float(exact.relative, -scale.relative),
    )


def _deviations(products: Fraction, x: Fraction, y: Fraction, count: int) -> Fraction:
    """Return Σ (x - mean of x)·(y - mean of y)."""
    return products - x * y / count if count else products


def _float(value: Fraction, exponent: int) -> float:
    """Return the value times 2 to the power of `exponent`."""
    scaled = value * Fraction(2) ** exponent if exponent else value
    try:
        return float(scaled)
    except OverflowError:
        return inf if value > 0 else -inf


def _larger(first: Extreme | None, later: Extreme | None, offset: int) -> Extreme | None:
    if later is None or (first is not None and first.value >= later.value):
        return first
    return later.shifted(offset)


# Sums of a block of floats, of any magnitude


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
    if abs(exponent) <= _SAFE_BLOCK_EXPONENT:
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

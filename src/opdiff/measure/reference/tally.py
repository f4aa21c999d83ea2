"""Exact sums of blocks, which can be merged.

    block, block, … ──blocks──► Tally, Tally, … ──merge──► Tally ──sums──► Sums

The sums of a block are floats; from there on they are exact fractions. So merging loses nothing, has no range to leave,
and gives the same result in whatever groups consecutive parts are merged.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf
from typing import TYPE_CHECKING, NamedTuple

from opdiff.measure.sums import (
    Extreme,
    Number,
    Pairs,
    Scale,
    Side,
    Specials,
    Spread,
    Sums,
    earlier,
    error_at,
    relative_at,
    ulps_at,
)

if TYPE_CHECKING:
    from opdiff.measure.reference.ulp import UlpScale

_ZERO = Fraction()

# Squares of larger (and of smaller) powers of two are too near to the ends of the range.
_SAFE_EXPONENT = 480


class SideTally(NamedTuple):
    """One of the two tensors: the fields of `Side`, with exact sums. Its spread follows from them."""

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

    def merge(self, later: SideTally, offset: int) -> SideTally:
        """Both parts together; `offset` elements come before the later one."""
        return SideTally(
            self.finite + later.finite,
            self.total + later.total,
            self.squares + later.squares,
            min((low for low in (self.minimum, later.minimum) if low is not None), default=None),
            max((high for high in (self.maximum, later.maximum) if high is not None), default=None),
            self.nans + later.nans,
            self.positive_infs + later.positive_infs,
            self.negative_infs + later.negative_infs,
            earlier(self.first_nan, later.first_nan, offset),
            earlier(self.first_inf, later.first_inf, offset),
        )


class PairTally(NamedTuple):
    """The pairs that are finite on both sides: the fields of `Pairs`, with exact sums. Spreads follow from them."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    target: Fraction = _ZERO
    golden: Fraction = _ZERO
    target_squares: Fraction = _ZERO
    golden_squares: Fraction = _ZERO
    products: Fraction = _ZERO
    errors: Fraction = _ZERO
    error_sizes: Fraction = _ZERO
    error_squares: Fraction = _ZERO
    relative: Fraction = _ZERO

    def merge(self, later: PairTally) -> PairTally:
        """Both parts together."""
        return PairTally(
            self.count + later.count,
            self.target + later.target,
            self.golden + later.golden,
            self.target_squares + later.target_squares,
            self.golden_squares + later.golden_squares,
            self.products + later.products,
            self.errors + later.errors,
            self.error_sizes + later.error_sizes,
            self.error_squares + later.error_squares,
            self.relative + later.relative,
        )


class Tally(NamedTuple):
    """What is kept of two tensors, or of two corresponding parts of them: the fields of `Sums`, with exact sums.

    The `value` of an extreme is what decides which is the larger one: it is in single precision where that holds every
    number of both sides.
    """

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    unequal: int = 0
    target: SideTally = SideTally()
    golden: SideTally = SideTally()
    pairs: PairTally = PairTally()
    spread: Spread = Spread()
    specials: Specials = Specials()
    worst: Extreme | None = None
    worst_relative: Extreme | None = None
    worst_ulps: Extreme | None = None
    parts: int = 1

    def merge(self, later: Tally) -> Tally:
        """The sums of both parts together, of which `later` comes right behind this one."""
        offset = self.count
        return Tally(
            self.count + later.count,
            self.unequal + later.unequal,
            self.target.merge(later.target, offset),
            self.golden.merge(later.golden, offset),
            self.pairs.merge(later.pairs),
            self.spread.merge(later.spread),
            self.specials.merge(later.specials, offset),
            _larger(self.worst, later.worst, offset),
            _larger(self.worst_relative, later.worst_relative, offset),
            _larger(self.worst_ulps, later.worst_ulps, offset),
            max(self.parts, later.parts),
        )

    def sums(self, ulps: UlpScale) -> Sums:
        """The sums as floats, scaled where their range asks for it, and the extremes as exactly as can be."""
        scale = Scale(_exponent(self.target), _exponent(self.golden))
        return Sums(
            self.count,
            self.unequal,
            _side(self.target, scale.target),
            _side(self.golden, scale.golden),
            _pairs(self.pairs, scale),
            self.spread,
            self.specials,
            error_at(*self.worst[1:]) if self.worst else None,
            relative_at(*self.worst_relative[1:]) if self.worst_relative else None,
            ulps_at(*self.worst_ulps[1:], ulps) if self.worst_ulps else None,
            self.parts,
            scale,
        )


def _exponent(side: SideTally) -> int:
    """By which power of two the numbers of a side are divided so that their squares can be added up; usually 0."""
    largest = max(abs(side.minimum or 0), abs(side.maximum or 0))
    exponent = frexp(largest)[1]
    return 0 if abs(exponent) <= _SAFE_EXPONENT else exponent


def _side(tally: SideTally, exponent: int) -> Side:
    return Side(
        tally.finite,
        _float(tally.total, -exponent),
        _float(tally.squares, -2 * exponent),
        _float(_spread(tally.squares, tally.total, tally.total, tally.finite), -2 * exponent),
        *tally[3:],
    )


def _pairs(tally: PairTally, scale: Scale) -> Pairs:
    x, y, errors, count = -scale.target, -scale.golden, -scale.errors, tally.count
    return Pairs(
        count,
        _float(tally.target, x),
        _float(tally.golden, y),
        _float(tally.target_squares, 2 * x),
        _float(tally.golden_squares, 2 * y),
        _float(tally.products, x + y),
        _float(_spread(tally.target_squares, tally.target, tally.target, count), 2 * x),
        _float(_spread(tally.golden_squares, tally.golden, tally.golden, count), 2 * y),
        _float(_spread(tally.products, tally.target, tally.golden, count), x + y),
        _float(tally.errors, errors),
        _float(tally.error_sizes, errors),
        _float(tally.error_squares, 2 * errors),
        _float(tally.relative, 0),
    )


def _spread(products: Fraction, x: Fraction, y: Fraction, count: int) -> Fraction:
    """Σ (x - mean of x)·(y - mean of y)."""
    return products - x * y / count if count else products


def _float(value: Fraction, exponent: int) -> float:
    """The value times 2 to the power of `exponent`."""
    scaled = value * Fraction(2) ** exponent if exponent else value
    try:
        return float(scaled)
    except OverflowError:
        return inf if value > 0 else -inf


def _larger(first: Extreme | None, later: Extreme | None, offset: int) -> Extreme | None:
    if later is None or (first is not None and first.value >= later.value):
        return first
    return later.shifted(offset)

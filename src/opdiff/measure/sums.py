"""What one pass over two tensors keeps: everything from which the metrics are computed.

    block, block, … ──kernel──► Sums, Sums, … ──merge──► Sums ──formulas──► Metrics

The sums of a block are floats; from there on they are exact fractions. So merging loses nothing, has no range to leave,
and gives the same result in whatever groups consecutive parts are merged: serially, in threads or on other machines.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

# Golden values up to this size count as zero in the documented relative errors.
SMALL = 2.220446049250313e-16

# A relative error is in bin k when k of these are not above it; bin 0 is exactly zero, the last one has no upper end.
RELATIVE_EDGES = (5e-324, *(float(f"1e{power}") for power in range(-9, 3)))

# Likewise for distances in units of the last place: 0, 1, 2, 3..4, 5..8, 9..16 and so on.
ULP_EDGES = (1, *((1 << power) + 1 for power in range(21)))

Number = float | int
Histogram = tuple[int, ...]

_ZERO = Fraction()


class Extreme(NamedTuple):
    """The largest of something, the first element where it was found, and what both sides hold there."""

    value: Number
    index: int  # type: ignore[assignment]  # hides tuple.index
    target: Number
    golden: Number

    def shifted(self, offset: int) -> Extreme:
        """The same, in a tensor in which `offset` elements come before."""
        return Extreme(self.value, self.index + offset, self.target, self.golden)


class Side(NamedTuple):
    """One of the two tensors, without looking at the other. The sums are over its finite elements.

    Attributes:
        finite: how many elements are finite.
        total: their sum.
        squares: the sum of their squares.
        minimum: the smallest of them; `None` when there are none. Integers stay exact.
        maximum: the largest of them.
        nans: how many elements are NaN.
        positive_infs: how many are +inf.
        negative_infs: how many are -inf.
        first_nan: the index of the first NaN.
        first_inf: the index of the first infinity.
    """

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
    def infs(self) -> int:
        """How many elements are infinite."""
        return self.positive_infs + self.negative_infs

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not (self.nans or self.infs)

    @property
    def largest(self) -> Number:
        """The largest magnitude of a finite element, 0 when there are none."""
        return max(abs(self.minimum or 0), abs(self.maximum or 0))

    def merge(self, later: Side, offset: int) -> Side:
        """Both parts together; `offset` elements come before the later one."""
        return Side(
            self.finite + later.finite,
            self.total + later.total,
            self.squares + later.squares,
            min((low for low in (self.minimum, later.minimum) if low is not None), default=None),
            max((high for high in (self.maximum, later.maximum) if high is not None), default=None),
            self.nans + later.nans,
            self.positive_infs + later.positive_infs,
            self.negative_infs + later.negative_infs,
            _first(self.first_nan, later.first_nan, offset),
            _first(self.first_inf, later.first_inf, offset),
        )


class Products(NamedTuple):
    """Sums over the pairs that are finite on both sides; x is the target, y the golden tensor.

    Attributes:
        count: how many pairs.
        target: Σ x.
        golden: Σ y.
        target_squares: Σ x².
        golden_squares: Σ y².
        products: Σ x·y.
        errors: Σ (x - y).
        error_sizes: Σ |x - y|.
        error_squares: Σ (x - y)².
        relative: Σ |x - y| / |y| over the pairs whose |y| is above `SMALL`.
    """

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

    def merge(self, later: Products) -> Products:
        """Both parts together."""
        return Products(
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


class Spread(NamedTuple):
    """How the errors of the finite pairs are distributed.

    A pair whose golden value counts as zero (see `SMALL`) and whose target value is another one has an infinite
    relative error here; the documented sums leave it out.

    Attributes:
        over_1_permille: pairs with a relative error of at least 0.001.
        over_5_permille: pairs with a relative error of at least 0.005.
        zero_golden: pairs whose golden value counts as zero although the target's value is another one.
        relative: pairs by relative error, see `RELATIVE_EDGES`.
        ulps: pairs by distance in units of the last place, see `ULP_EDGES`.
    """

    over_1_permille: int = 0
    over_5_permille: int = 0
    zero_golden: int = 0
    relative: Histogram = (0,) * (len(RELATIVE_EDGES) + 1)
    ulps: Histogram = (0,) * (len(ULP_EDGES) + 1)

    def merge(self, later: Spread) -> Spread:
        """Both parts together."""
        return Spread(
            self.over_1_permille + later.over_1_permille,
            self.over_5_permille + later.over_5_permille,
            self.zero_golden + later.zero_golden,
            tuple(map(sum, zip(self.relative, later.relative, strict=True))),
            tuple(map(sum, zip(self.ulps, later.ulps, strict=True))),
        )


class Specials(NamedTuple):
    """Pairs with a NaN or an infinity in them.

    Attributes:
        same_infs: both sides are the same infinity.
        opposite_infs: both sides are infinite, with different signs.
        target_infs: only the target is infinite, and the golden value does not count as zero.
        golden_infs: only the golden value is infinite, and the target's is finite.
        mismatches: NaN beside a number, or an infinity beside anything but itself.
        first_mismatch: the index of the first of those.
    """

    same_infs: int = 0
    opposite_infs: int = 0
    target_infs: int = 0
    golden_infs: int = 0
    mismatches: int = 0
    first_mismatch: int | None = None

    def merge(self, later: Specials, offset: int) -> Specials:
        """Both parts together; `offset` elements come before the later one."""
        return Specials(
            self.same_infs + later.same_infs,
            self.opposite_infs + later.opposite_infs,
            self.target_infs + later.target_infs,
            self.golden_infs + later.golden_infs,
            self.mismatches + later.mismatches,
            _first(self.first_mismatch, later.first_mismatch, offset),
        )


class Sums(NamedTuple):
    """What is kept of two tensors, or of two corresponding parts of them.

    Attributes:
        count: elements of either side.
        unequal: elements that are not the same number; NaN is the same as NaN, and -0 the same as 0.
        target: the target by itself.
        golden: the golden tensor by itself.
        pairs: sums over the pairs that are finite on both sides.
        spread: how their errors are distributed.
        specials: the other pairs.
        worst: the largest |x - y| of the finite pairs; an exact integer when both sides are integers.
        worst_relative: the largest relative error of those whose golden value does not count as zero, unless it is 0.
        worst_ulps: the largest distance in units of the last place of the coarser float type, or for integers |x - y|.
        parts: elements that make up one number of the tensor: 2 when it is complex, else 1.
    """

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    unequal: int = 0
    target: Side = Side()
    golden: Side = Side()
    pairs: Products = Products()
    spread: Spread = Spread()
    specials: Specials = Specials()
    worst: Extreme | None = None
    worst_relative: Extreme | None = None
    worst_ulps: Extreme | None = None
    parts: int = 1

    def merge(self, later: Sums) -> Sums:
        """The sums of both parts together, of which `later` comes right behind this one."""
        offset = self.count
        return Sums(
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


def _first(first: int | None, later: int | None, offset: int) -> int | None:
    if first is not None or later is None:
        return first
    return later + offset


def _larger(first: Extreme | None, later: Extreme | None, offset: int) -> Extreme | None:
    if later is None or (first is not None and first.value >= later.value):
        return first
    return later.shifted(offset)

"""What one pass over two tensors yields: everything from which the metrics are computed.

    two tensors ──kernel──► Sums ──formulas──► Metrics

The native kernel and the plain one give the same `Sums`, up to the rounding of floats.
"""

from __future__ import annotations

from math import inf
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.measure.reference.ulp import UlpScale

_HUGE = float_info.max

# Golden values up to this size count as zero in the documented relative errors.
SMALL = 2.220446049250313e-16

# Golden values up to this size are left out of the further columns of graph mode: the step of float32 at 1.
STEP = 2.0**-23

# Bin 0 has the pairs that are equal, bin 1 the relative errors below the first edge, bin k those from edge k - 1 on.
RELATIVE_EDGES = tuple(2.0**power for power in range(-27, 6, 2))

# Likewise for distances in units of the last place.
ULP_EDGES = tuple(2.0**power for power in range(-1, 21))

Number = float | int
Histogram = tuple[int, ...]


class Extreme(NamedTuple):
    """The largest of something, the first element where it was found, and what both sides hold there."""

    value: Number
    index: int  # type: ignore[assignment]  # hides tuple.index
    target: Number
    golden: Number

    def shifted(self, offset: int) -> Extreme:
        """The same, in a tensor in which `offset` elements come before."""
        return Extreme(self.value, self.index + offset, self.target, self.golden)


class Scale(NamedTuple):
    """Powers of two by which the numbers of a side were divided before they were added up; nearly always 0."""

    target: int = 0
    golden: int = 0

    @property
    def errors(self) -> int:
        """That of the differences."""
        return max(self.target, self.golden)


class Side(NamedTuple):
    """One of the two tensors, without looking at the other. The sums are over its finite elements.

    Attributes:
        finite: how many elements are finite.
        total: their sum.
        squares: the sum of their squares.
        spread: the sum of the squares of their differences from their mean.
        minimum: the smallest of them; `None` when there are none. Integers stay exact.
        maximum: the largest of them.
        nans: how many elements are NaN.
        positive_infs: how many are +inf.
        negative_infs: how many are -inf.
        first_nan: the index of the first NaN.
        first_inf: the index of the first infinity.
    """

    finite: int = 0
    total: float = 0.0
    squares: float = 0.0
    spread: float = 0.0
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
        return not (self.nans or self.positive_infs or self.negative_infs)

    @property
    def largest(self) -> Number:
        """The largest magnitude of a finite element, 0 when there are none."""
        return max(abs(self.minimum or 0), abs(self.maximum or 0))


class Pairs(NamedTuple):
    """Sums over the pairs that are finite on both sides; x is the target, y the golden tensor.

    Attributes:
        count: how many pairs.
        target: Σ x.
        golden: Σ y.
        target_squares: Σ x².
        golden_squares: Σ y².
        products: Σ x·y.
        target_spread: Σ (x - mean of x)².
        golden_spread: Σ (y - mean of y)².
        product_spread: Σ (x - mean of x)·(y - mean of y).
        errors: Σ (x - y).
        error_sizes: Σ |x - y|.
        error_squares: Σ (x - y)².
        relative: Σ |x - y| / |y| over the pairs whose |y| is above `SMALL`.
    """

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    target: float = 0.0
    golden: float = 0.0
    target_squares: float = 0.0
    golden_squares: float = 0.0
    products: float = 0.0
    target_spread: float = 0.0
    golden_spread: float = 0.0
    product_spread: float = 0.0
    errors: float = 0.0
    error_sizes: float = 0.0
    error_squares: float = 0.0
    relative: float = 0.0


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
    relative: Histogram = (0,) * (len(RELATIVE_EDGES) + 2)
    ulps: Histogram = (0,) * (len(ULP_EDGES) + 2)

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
            earlier(self.first_mismatch, later.first_mismatch, offset),
        )


class GraphSums(NamedTuple):
    """What the columns of graph mode need besides, over the pairs that are finite on both sides.

    Attributes:
        golden_weight: Σ exp(y - Y), with Y the largest of the golden tensor; 0 where a side is not finite.
        target_weight: Σ exp(x - X), likewise.
        weighted: Σ exp(y - Y)·((y - Y) - (x - X)), likewise.
        error_sizes: Σ |x - y| over the pairs whose |y| is above `STEP`.
        relative: Σ |x - y| / |y| over the same.
        worst: the largest |x - y| of the same.
        worst_relative: the largest |x - y| / |y| of the same.
        tiny_relative: the largest |x - y| / |y| of the pairs whose |y| is above 0 and not above `SMALL`.
        tiny_over_1_permille: how many of these have at least 0.001.
        tiny_over_5_permille: how many of these have at least 0.005.
        zeros: pairs whose golden value is 0 although the target's value is another one.
    """

    golden_weight: float = 0.0
    target_weight: float = 0.0
    weighted: float = 0.0
    error_sizes: float = 0.0
    relative: float = 0.0
    worst: float = 0.0
    worst_relative: float = 0.0
    tiny_relative: float = 0.0
    tiny_over_1_permille: int = 0
    tiny_over_5_permille: int = 0
    zeros: int = 0


class Sums(NamedTuple):
    """What is kept of two tensors.

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
        scale: what the sums are to be multiplied with.
        graph: what graph mode needs, where it was asked for.
    """

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    unequal: int = 0
    target: Side = Side()
    golden: Side = Side()
    pairs: Pairs = Pairs()
    spread: Spread = Spread()
    specials: Specials = Specials()
    worst: Extreme | None = None
    worst_relative: Extreme | None = None
    worst_ulps: Extreme | None = None
    parts: int = 1
    scale: Scale = Scale()
    graph: GraphSums = GraphSums()


def error_at(index: int, target: Number, golden: Number) -> Extreme:
    """The error of one element; between integers an exact integer."""
    return Extreme(abs(target - golden), index, target, golden)


def relative_at(index: int, target: Number, golden: Number) -> Extreme:
    """The relative error of one element whose golden value is not zero."""
    value = abs(target - golden) / abs(golden)
    if value == inf:
        # |x - y| is too large for a float although the quotient need not be.
        value = min(abs(target / golden - 1), _HUGE)
    return Extreme(value, index, target, golden)


def ulps_at(index: int, target: Number, golden: Number, scale: UlpScale) -> Extreme:
    """The distance between the two numbers of one element."""
    return Extreme(scale.distance(target, golden), index, target, golden)


def earlier(first: int | None, later: int | None, offset: int) -> int | None:
    """The index of the first of two that is there; `offset` elements come before the part of the later one."""
    if first is not None or later is None:
        return first
    return later + offset

"""Result of one pass over two tensors, from which all metrics are computed.

    two tensors ──kernel──► Sums ──formulas──► Metrics

The native kernel and the reference give the same `Sums`, up to the rounding of floats. Both use the units of the last
place and the parts of complex types that are defined here.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf, ldexp
from operator import add
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType

_MAX_FLOAT = float_info.max
# Every integer up to this is exact as a float.
_MAX_EXACT = 1 << 53

ZERO_THRESHOLD = 2.220446049250313e-16
"""Golden values up to this magnitude count as zero in the documented relative errors."""

GRAPH_ZERO_THRESHOLD = 2.0**-23
"""Golden values up to this magnitude are left out of the additional columns of graph mode."""

# Fraction bits, and the exponent of the smallest normal number. HiFloat8 with its highest precision, around 1.
_FLOAT_FIELDS = {
    dtypes.FLOAT64: (52, -1022),
    dtypes.FLOAT32: (23, -126),
    dtypes.FLOAT16: (10, -14),
    dtypes.BFLOAT16: (7, -126),
    dtypes.HIFLOAT8: (3, -15),
}

COMPLEX_PARTS = {
    dtypes.COMPLEX32: dtypes.FLOAT16,
    dtypes.COMPLEX64: dtypes.FLOAT32,
    dtypes.COMPLEX128: dtypes.FLOAT64,
}
"""Types of the real and imaginary parts of complex numbers."""

Number = float | int
Histogram = tuple[int, ...]


class Extreme(Struct, frozen=True, gc=False):
    """A maximum, the first element that has it, and the values of both sides there."""

    value: Number
    index: int
    target: Number
    golden: Number

    @property
    def element(self) -> tuple[int, Number, Number]:
        """The element and the values of both sides there."""
        return self.index, self.target, self.golden

    def shifted(self, offset: int) -> Extreme:
        """Return the same in a tensor with `offset` elements before this part."""
        return Extreme(self.value, self.index + offset, self.target, self.golden)


class Scale(Struct, frozen=True, gc=False):
    """Exponents of the powers of two by which the numbers of a side were divided before summing; nearly always 0.

    `errors` is that of the differences, and `relative` that of the sum of the relative errors.
    """

    target: int = 0
    golden: int = 0
    errors: int = 0
    relative: int = 0


class SideSums(Struct, frozen=True, gc=False):
    """One of the two tensors by itself. Sums are over its finite elements.

    Attributes:
        finite: number of finite elements.
        total: their sum.
        squares: sum of their squares.
        squared_deviations: sum of the squares of their differences from the mean.
        minimum: the smallest; `None` if there are none. Integers stay exact.
        maximum: the largest.
        nans: number of NaNs.
        positive_infs: number of +inf.
        negative_infs: number of -inf.
        first_nan: index of the first NaN.
        first_inf: index of the first infinity.
    """

    finite: int = 0
    total: float = 0.0
    squares: float = 0.0
    squared_deviations: float = 0.0
    minimum: Number | None = None
    maximum: Number | None = None
    nans: int = 0
    positive_infs: int = 0
    negative_infs: int = 0
    first_nan: int | None = None
    first_inf: int | None = None

    @property
    def infs(self) -> int:
        """Number of infinities."""
        return self.positive_infs + self.negative_infs

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not (self.nans or self.positive_infs or self.negative_infs)

    @property
    def largest(self) -> Number:
        """Largest magnitude of a finite element; 0 if there are none."""
        if self.minimum is None or self.maximum is None:
            return 0
        return max(-self.minimum, self.maximum)


class PairSums(Struct, frozen=True, gc=False):
    """Sums over the pairs that are finite on both sides; x is the target, y the golden tensor.

    Attributes:
        count: number of pairs.
        target: Σ x.
        golden: Σ y.
        target_squares: Σ x².
        golden_squares: Σ y².
        products: Σ x·y.
        target_deviations: Σ (x - mean of x)².
        golden_deviations: Σ (y - mean of y)².
        product_deviations: Σ (x - mean of x)·(y - mean of y).
        errors: Σ (x - y).
        absolute_errors: Σ |x - y|.
        squared_errors: Σ (x - y)².
        relative: Σ |x - y| / |y| over the pairs with |y| above `ZERO_THRESHOLD`.
    """

    count: int = 0
    target: float = 0.0
    golden: float = 0.0
    target_squares: float = 0.0
    golden_squares: float = 0.0
    products: float = 0.0
    target_deviations: float = 0.0
    golden_deviations: float = 0.0
    product_deviations: float = 0.0
    errors: float = 0.0
    absolute_errors: float = 0.0
    squared_errors: float = 0.0
    relative: float = 0.0


class ErrorDistribution(Struct, frozen=True, gc=False):
    """Distribution of the errors of the finite pairs.

    A pair whose golden value counts as zero (`ZERO_THRESHOLD`) and whose target value differs has an infinite relative
    error here; the documented sums leave it out.

    Attributes:
        over_1_permille: pairs with a relative error of at least 0.001.
        over_5_permille: pairs with a relative error of at least 0.005.
        zero_golden: pairs whose golden value counts as zero although the target value differs.
        relative: pairs by relative error, see `RELATIVE_EDGES`.
        ulps: pairs by distance in units of the last place, see `ULP_EDGES`.
    """

    over_1_permille: int = 0
    over_5_permille: int = 0
    zero_golden: int = 0
    relative: Histogram = (0,) * (len(RELATIVE_EDGES) + 2)
    ulps: Histogram = (0,) * (len(ULP_EDGES) + 2)

    def merge(self, later: ErrorDistribution) -> ErrorDistribution:
        """Return the distribution of both parts."""
        histograms = (tuple(map(add, *both)) for both in ((self.relative, later.relative), (self.ulps, later.ulps)))
        counts = (
            self.over_1_permille + later.over_1_permille,
            self.over_5_permille + later.over_5_permille,
            self.zero_golden + later.zero_golden,
        )
        return ErrorDistribution(*counts, *histograms)


class NonFinitePairs(Struct, frozen=True, gc=False):
    """Pairs with a NaN or an infinity.

    Attributes:
        same_infs: the same infinity on both sides.
        opposite_infs: infinities of different signs.
        target_infs: only the target is infinite, and the golden value does not count as zero.
        golden_infs: only the golden value is infinite, and the target is finite.
        mismatches: NaN on one side only, or an infinity against anything but itself.
        first_mismatch: index of the first mismatch.
    """

    same_infs: int = 0
    opposite_infs: int = 0
    target_infs: int = 0
    golden_infs: int = 0
    mismatches: int = 0
    first_mismatch: int | None = None

    def merge(self, later: NonFinitePairs, offset: int) -> NonFinitePairs:
        """Return the counts of both parts; `offset` elements come before the later one."""
        first = first_index(self.first_mismatch, later.first_mismatch, offset)
        return NonFinitePairs(
            self.same_infs + later.same_infs,
            self.opposite_infs + later.opposite_infs,
            self.target_infs + later.target_infs,
            self.golden_infs + later.golden_infs,
            self.mismatches + later.mismatches,
            first,
        )


class GraphSums(Struct, frozen=True, gc=False):
    """Additional sums for the columns of graph mode, over the pairs that are finite on both sides.

    Attributes:
        golden_weight: Σ exp(y - Y) with the golden maximum Y; 0 if a side is not finite.
        target_weight: Σ exp(x - X) with the target maximum X, likewise.
        weighted: Σ exp(y - Y)·((y - Y) - (x - X)), likewise.
        absolute_errors: Σ |x - y| over the pairs with |y| above `GRAPH_ZERO_THRESHOLD`.
        relative: Σ |x - y| / |y| over the same pairs.
        worst: largest |x - y| of the same pairs.
        worst_relative: largest |x - y| / |y| of the same pairs.
        tiny_relative: largest |x - y| / |y| of the pairs with |y| above 0 and up to `ZERO_THRESHOLD`.
        tiny_over_1_permille: number of these with at least 0.001.
        tiny_over_5_permille: number of these with at least 0.005.
        zeros: pairs whose golden value is 0 although the target value differs.
    """

    golden_weight: float = 0.0
    target_weight: float = 0.0
    weighted: float = 0.0
    absolute_errors: float = 0.0
    relative: float = 0.0
    worst: float = 0.0
    worst_relative: float = 0.0
    tiny_relative: float = 0.0
    tiny_over_1_permille: int = 0
    tiny_over_5_permille: int = 0
    zeros: int = 0


class Sums(Struct, frozen=True, gc=False):
    """Sums over two tensors.

    Attributes:
        count: elements on either side.
        unequal: pairs of different numbers; NaN equals NaN, and -0 equals 0.
        target: the target by itself.
        golden: the golden tensor by itself.
        pairs: sums over the pairs that are finite on both sides.
        distribution: distribution of their errors.
        non_finite: the other pairs.
        worst: largest |x - y| of the finite pairs; an exact integer if both sides are integers.
        worst_relative: largest relative error above 0 of those whose golden value does not count as zero.
        worst_ulps: largest distance in units of the last place of the coarser float type; |x - y| for integers.
        parts: real numbers per element: 2 for complex types, otherwise 1.
        scale: powers of two by which the sums have to be multiplied.
        graph: additional sums of graph mode, if requested.
    """

    count: int = 0
    unequal: int = 0
    target: SideSums = SideSums()
    golden: SideSums = SideSums()
    pairs: PairSums = PairSums()
    distribution: ErrorDistribution = ErrorDistribution()
    non_finite: NonFinitePairs = NonFinitePairs()
    worst: Extreme | None = None
    worst_relative: Extreme | None = None
    worst_ulps: Extreme | None = None
    parts: int = 1
    scale: Scale = Scale()
    graph: GraphSums = GraphSums()


def error_at(index: int, target: Number, golden: Number) -> Extreme:
    """Return the error of one element; an exact integer between integers."""
    return Extreme(_distance(target, golden), index, target, golden)


def _distance(target: Number, golden: Number) -> Number:
    """Return |target - golden|; Python would round a large integer before it subtracts it from a float."""
    if type(target) is type(golden) or max(abs(target), abs(golden)) <= _MAX_EXACT:
        return abs(target - golden)
    return float(abs(Fraction(target) - Fraction(golden)))


def relative_at(index: int, target: Number, golden: Number) -> Extreme:
    """Return the relative error of one element whose golden value is not zero."""
    value = _distance(target, golden) / abs(golden)
    if value == inf:
        # |x - y| may overflow although the quotient does not.
        value = min(abs(target / golden - 1), _MAX_FLOAT)
    return Extreme(value, index, target, golden)


def ulps_at(index: int, target: Number, golden: Number, scale: UlpScale) -> Extreme:
    """Return the distance of one element in units of the last place."""
    return Extreme(scale.distance(target, golden), index, target, golden)


def first_index(first: int | None, later: int | None, offset: int) -> int | None:
    """Return the first index of two parts; `offset` elements come before the later part."""
    if first is not None or later is None:
        return first
    return later + offset


class UlpScale(NamedTuple):
    """Unit in the last place of a float type; 1 for integers, whose `digits` are -1.

    Attributes:
        digits: fraction bits.
        min_exponent: exponent of the smallest normal number; below it the unit is constant.
    """

    digits: int = -1
    min_exponent: int = 0

    def distance(self, target: float, golden: float) -> float:
        """Return |target - golden| in units at the larger of both."""
        size = _distance(target, golden)
        if self.digits < 0:
            return size
        larger = max(abs(target), abs(golden))
        exponent = max(frexp(larger)[1] - 1 if larger else self.min_exponent, self.min_exponent)
        try:
            return ldexp(size, self.digits - exponent)
        except OverflowError:
            return float("inf")


def find_scale(target: DType, golden: DType) -> UlpScale:
    """Return the unit of the float type with fewer digits, of the target if equal; of integers without floats."""
    floats = [dtype for dtype in (target, golden) if dtype.kind is Kind.FLOAT]
    return min((_scale(dtype) for dtype in floats), key=lambda scale: scale.digits, default=UlpScale())


def _scale(dtype: DType) -> UlpScale:
    if dtype.float_format is not None:
        return UlpScale(dtype.float_format.mantissa_bits, max(1 - dtype.float_format.bias, -126))
    return UlpScale(*_FLOAT_FIELDS[dtype])


def scaled(value: float, exponent: int) -> float:
    """Return the value times 2 to the power of `exponent`; infinite if that overflows."""
    if not exponent:
        return value
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf if value > 0 else -inf

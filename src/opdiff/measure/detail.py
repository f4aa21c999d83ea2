"""Two tensors element by element: each error, the worst of them, and the slices of the axes that carry them.

    codes, codes ──compare_block──► ElementBlock, … ──Examination.add──► Detail

Blocks come one after the other, so memory does not grow with the tensors. What is equal has no error, be it infinite or
NaN on both sides; what is not finite on one side only has an error that is not finite, and such errors are the worst.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from opdiff.core.dtypes import Kind
from opdiff.measure.reference.block_values import BlockValues, decode_block, real_codes, real_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape
    from opdiff.measure.reference.block_values import Floats

    Index = npt.NDArray[np.intp]

# Along longer axes, neighbours are counted together.
_MAX_SLICES = 1 << 18
# Squares of larger errors are beyond the range of doubles.
_LARGEST = 1e150
# The share of the squared error by which a few slices are said to carry it, and how few they must be.
_MOST = 0.9
_FEW = 0.1
_MAX_NAMED = 4


class ElementBlock(NamedTuple):
    """Some elements that follow each other: what both sides hold, and the errors."""

    start: int
    target: BlockValues
    golden: BlockValues
    absolute: Floats
    relative: Floats


class Element(NamedTuple):
    """One element: its number in row-major order, its coordinates, what both sides hold, and its errors."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    at: Shape
    target: float | int
    golden: float | int
    absolute: float | int
    relative: float


class SliceErrors(NamedTuple):
    """The errors of one slice of an axis, or of several neighbours: `first` to `last`.

    Attributes:
        first: the first index.
        last: the last index.
        share: of the squared error of the whole tensor; 0 when that is 0.
        largest: the largest finite error.
        not_finite: errors that are not finite.
    """

    first: int
    last: int
    share: float
    largest: float
    not_finite: int


class AxisErrors(NamedTuple):
    """How the errors lie along one axis; the worst slices come first.

    `carriers` are the few slices that together have nearly all of the error; empty when it is spread.
    """

    axis: int
    extent: int
    worst: tuple[SliceErrors, ...]
    carriers: tuple[SliceErrors, ...] = ()


class Detail(NamedTuple):
    """Everything about the elements of two tensors. The smallest and largest errors are of the finite ones.

    `not_finite` counts the elements with an error that is infinite or NaN.
    """

    shape: Shape
    count: int  # type: ignore[assignment]  # hides tuple.count
    unequal: int
    not_finite: int
    min_absolute: float | None
    max_absolute: float | None
    min_relative: float | None
    max_relative: float | None
    worst_absolute: tuple[Element, ...]
    worst_relative: tuple[Element, ...]
    axes: tuple[AxisErrors, ...]


def real_shape(shape: Shape, dtype: DType) -> Shape:
    """The shape in numbers: complex ones have a last axis for both of their parts."""
    return (*shape, 2) if dtype.kind is Kind.COMPLEX else shape


def compare_block(
    start: int, target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> ElementBlock:
    """The errors of some elements; `start` is the number of the first of them, in numbers.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
    """
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    x = decode_block(real_codes(target, target_dtype), types[0])
    y = decode_block(real_codes(golden, golden_dtype), types[1])
    with np.errstate(all="ignore"):
        absolute = np.abs(x.subtract(y))
        # Infinities of one sign, and NaN on both sides.
        absolute[(x.values() == y.values()) & ~np.isfinite(absolute)] = 0.0
        absolute[np.isnan(x.values()) & np.isnan(y.values())] = 0.0
        relative = absolute / np.abs(y.values())
        relative[absolute == 0] = 0.0
        relative[np.isinf(absolute)] = np.inf
    return ElementBlock(start, x, y, absolute, relative)


class Examination:
    """What is known so far of two tensors whose blocks come one by one, in any order."""

    def __init__(self, shape: Shape, most: int) -> None:
        self._shape = shape
        self._most = most
        self._unequal = 0
        self._not_finite = 0
        self._ranges: list[tuple[float, float, float, float]] = []
        self._absolute: list[Element] = []
        self._relative: list[Element] = []
        self._axes = [_Axis(axis, extent) for axis, extent in enumerate(shape) if extent > 1]

    def add(self, block: ElementBlock) -> None:
        """Look at some more elements."""
        absolute, relative = block.absolute, block.relative
        self._unequal += int(np.count_nonzero(absolute))
        finite = np.isfinite(absolute)
        self._not_finite += int(absolute.size - np.count_nonzero(finite))
        self._ranges.append((*_range(absolute), *_range(relative)))
        self._absolute = self._worst(self._absolute, block, absolute)
        self._relative = self._worst(self._relative, block, relative)
        if absolute.any():
            numbers = np.arange(block.start, block.start + absolute.size)
            for axis in self._axes:
                inner = prod(self._shape[axis.axis + 1 :])
                axis.add(numbers // inner % axis.extent, absolute, finite)

    def detail(self) -> Detail:
        """What came out."""
        lows, highs, relative_lows, relative_highs = np.array(self._ranges).reshape(-1, 4).T
        return Detail(
            self._shape,
            prod(self._shape),
            self._unequal,
            self._not_finite,
            _lowest(lows),
            _highest(highs),
            _lowest(relative_lows),
            _highest(relative_highs),
            tuple(self._absolute),
            tuple(self._relative),
            tuple(axis.errors(self._most) for axis in self._axes),
        )

    def _worst(self, known: list[Element], block: ElementBlock, errors: Floats) -> list[Element]:
        """The worst elements of those that are known and those of a block; of equal ones the first."""
        classes, finite = _ranks(errors)
        if len(known) >= self._most and not classes.any():
            limit = known[-1].absolute if errors is block.absolute else known[-1].relative
            if not np.isfinite(limit) or finite.max(initial=0.0) < limit:
                return known
        places = _largest(classes, finite, self._most)
        found = [self._element(block, int(place)) for place in places]
        is_absolute = errors is block.absolute
        return sorted([*known, *found], key=lambda item: _order(item, is_absolute=is_absolute))[: self._most]

    def _element(self, block: ElementBlock, place: int) -> Element:
        index = block.start + place
        target, golden = block.target.item(place), block.golden.item(place)
        absolute: float | int = float(block.absolute[place])
        if isinstance(target, int) and isinstance(golden, int):
            absolute = abs(target - golden)
        at = tuple(int(part) for part in np.unravel_index(index, self._shape))
        return Element(index, at, target, golden, absolute, float(block.relative[place]))


class _Axis:
    """The errors along one axis so far."""

    def __init__(self, axis: int, extent: int) -> None:
        self.axis = axis
        self.extent = extent
        self._width = -(-extent // _MAX_SLICES)
        slices = -(-extent // self._width)
        self._squares = np.zeros(slices)
        self._largest = np.zeros(slices)
        self._not_finite = np.zeros(slices, np.int64)

    def add(self, index: Index, absolute: Floats, finite: npt.NDArray[np.bool_]) -> None:
        index = index // self._width
        errors = np.where(finite, np.minimum(absolute, _LARGEST), 0.0)
        slices = len(self._squares)
        self._squares += np.bincount(index, np.square(errors), slices)
        self._not_finite += np.bincount(index[~finite], minlength=slices)
        np.maximum.at(self._largest, index, errors)

    def errors(self, most: int) -> AxisErrors:
        # NaN and infinities weigh more than whatever is finite.
        order = np.lexsort((np.arange(len(self._squares)), -self._squares, -self._not_finite))
        worst = tuple(self._slice(int(place)) for place in order[:most] if self._is_bad(int(place)))
        return AxisErrors(self.axis, self.extent, worst, self._carriers(order))

    def _slice(self, place: int) -> SliceErrors:
        total = float(self._squares.sum())
        first = place * self._width
        return SliceErrors(
            first,
            min(first + self._width, self.extent) - 1,
            float(self._squares[place]) / total if total else 0.0,
            float(self._largest[place]),
            int(self._not_finite[place]),
        )

    def _is_bad(self, place: int) -> bool:
        return bool(self._squares[place] or self._not_finite[place])

    def _carriers(self, order: Index) -> tuple[SliceErrors, ...]:
        weights: AnyArray = self._not_finite if self._not_finite.any() else self._squares
        shares = np.cumsum(weights[order] / max(float(weights.sum()), np.finfo(np.float64).tiny))
        needed = int(np.searchsorted(shares, _MOST)) + 1
        allowed = min(_MAX_NAMED, max(int(_FEW * len(order)), 1))
        if needed > allowed or needed >= len(order):
            return ()
        return tuple(self._slice(int(place)) for place in order[:needed])


def _range(errors: Floats) -> tuple[float, float]:
    finite = errors[np.isfinite(errors)]
    return (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)


def _lowest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.min()) if known.size else None


def _highest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else None


def _ranks(errors: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """What an error counts as: NaN before infinite before finite; and among the finite ones by size."""
    classes = np.isnan(errors) * np.int8(2) + np.isinf(errors)
    return classes.astype(np.int8), np.where(classes == 0, errors, 0.0)


def _largest(classes: npt.NDArray[np.int8], finite: Floats, most: int) -> Sequence[int]:
    """The places of the worst errors, the worst first, of equal ones the first; without those that are none."""
    bad = np.flatnonzero((classes > 0) | (finite > 0))
    if bad.size > 4 * most and not classes.any():
        # Ties at the limit are kept, so that of equal ones the first are found.
        limit = np.partition(finite[bad], bad.size - most)[bad.size - most]
        bad = bad[finite[bad] >= limit]
    order = np.lexsort((bad, -finite[bad], -classes[bad]))
    return [int(place) for place in bad[order[:most]]]


def _order(item: Element, *, is_absolute: bool) -> tuple[int, float, int]:
    error = item.absolute if is_absolute else item.relative
    if error != error:  # noqa: PLR0124  NaN is not equal to itself
        return (0, 0.0, item.index)
    return (1, 0.0, item.index) if error == np.inf else (2, -error, item.index)

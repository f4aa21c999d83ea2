"""Errors of two tensors by element: the worst elements, and the slices of each axis with the largest errors.

    codes, codes ──compare_block──► ElementBlock, … ──Examination.add──► Detail

Tensors are processed in blocks, so memory does not grow with them. Equal infinities, and NaN on both sides, have an
error of 0. A NaN or an infinity on one side only has an error that is not finite and ranks before all finite errors.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from opdiff.core.dtypes import Kind
from opdiff.measure.reference.block_values import BlockValues, decode_pair
from opdiff.measure.slices import MAX_SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape
    from opdiff.measure.reference.block_values import Floats

    Index = npt.NDArray[np.intp]

# Longer axes are divided into this many slices of several indices each.
_MAX_SLICES = 1 << 18
# Carriers have at least this share of the squared error, and are at most this fraction of all slices.
_MIN_CARRIED_SHARE = 0.9
_MAX_CARRIER_FRACTION = 0.1
_MAX_CARRIERS = 4


class ElementBlock(Struct, frozen=True):
    """Consecutive elements: the values of both sides, and the errors."""

    start: int
    target: BlockValues
    golden: BlockValues
    absolute: Floats
    relative: Floats


class Element(NamedTuple):
    """One element: its index in row-major order, its coordinates, the values of both sides, and its errors."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    at: Shape
    target: float | int
    golden: float | int
    absolute: float | int
    relative: float


class SliceErrors(Struct, frozen=True):
    """Errors of one slice of an axis.

    Attributes:
        first: first index of the slice.
        last: last index of the slice.
        share: share of the squared error of the whole tensor; 0 if that error is 0.
        largest: largest finite error.
        not_finite: number of errors that are not finite.
    """

    first: int
    last: int
    share: float
    largest: float
    not_finite: int


class AxisErrors(Struct, frozen=True):
    """Errors along one axis, worst slices first.

    `carriers` are a few slices that together have nearly all of the error; empty if the error is distributed.
    """

    axis: int
    extent: int
    worst: tuple[SliceErrors, ...]
    carriers: tuple[SliceErrors, ...] = ()


class Detail(Struct, frozen=True):
    """Errors of two tensors by element. Minima and maxima are over the finite errors.

    `not_finite` is the number of elements with an infinite or NaN error.
    """

    shape: Shape
    count: int
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
    """Return the shape in real numbers: complex types have an additional last axis of real and imaginary part."""
    return (*shape, 2) if dtype.kind is Kind.COMPLEX else shape


def compare_block(
    start: int, target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> ElementBlock:
    """Return the errors of consecutive elements; `start` is the index of the first one, counted in real numbers.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
    """
    x, y = decode_pair(target, target_dtype, golden, golden_dtype)
    with np.errstate(all="ignore"):
        absolute = np.abs(x.subtract(y))
        # Equal infinities, and NaN on both sides.
        absolute[(x.values() == y.values()) & ~np.isfinite(absolute)] = 0.0
        absolute[np.isnan(x.values()) & np.isnan(y.values())] = 0.0
        relative = absolute / np.abs(y.values())
        relative[absolute == 0] = 0.0
        relative[np.isinf(absolute)] = np.inf
    return ElementBlock(start, x, y, absolute, relative)


class Examination:
    """Accumulated errors of two tensors whose blocks are added in any order; keeps the `top_n` worst elements."""

    def __init__(self, shape: Shape, top_n: int) -> None:
        self._shape = shape
        self._top_n = top_n
        self._unequal = 0
        self._not_finite = 0
        self._ends: tuple[list[float], list[float]] = [], []
        self._absolute: list[Element] = []
        self._relative: list[Element] = []
        self._axes = [_Axis(axis, extent) for axis, extent in enumerate(shape) if extent > 1]

    def add(self, block: ElementBlock) -> None:
        """Add the errors of a block."""
        absolute, relative = block.absolute, block.relative
        self._unequal += int(np.count_nonzero(absolute))
        finite = np.isfinite(absolute)
        self._not_finite += int(absolute.size - np.count_nonzero(finite))
        for errors, ends in zip((absolute, relative), self._ends, strict=True):
            known = errors[np.isfinite(errors)]
            if known.size:
                ends.extend((float(known.min()), float(known.max())))
        self._absolute = self._worst(self._absolute, block, absolute)
        self._relative = self._worst(self._relative, block, relative)
        if absolute.any():
            indices = np.arange(block.start, block.start + absolute.size)
            for axis in self._axes:
                stride = prod(self._shape[axis.axis + 1 :])
                axis.add(indices // stride % axis.extent, absolute, finite)

    def detail(self) -> Detail:
        """Return the accumulated result."""
        absolute, relative = self._ends
        return Detail(
            self._shape,
            prod(self._shape),
            self._unequal,
            self._not_finite,
            min(absolute, default=None),
            max(absolute, default=None),
            min(relative, default=None),
            max(relative, default=None),
            tuple(self._absolute),
            tuple(self._relative),
            tuple(axis.errors(self._top_n) for axis in self._axes),
        )

    def _worst(self, known: list[Element], block: ElementBlock, errors: Floats) -> list[Element]:
        """Return the worst elements among the known ones and those of a block; ties go to the lower index."""
        classes, finite = _ranks(errors)
        is_absolute = errors is block.absolute
        if len(known) >= self._top_n and not classes.any():
            limit = known[-1].absolute if is_absolute else known[-1].relative
            if not np.isfinite(limit) or finite.max(initial=0.0) < limit:
                return known
        found = [self._element(block, position) for position in _worst_positions(classes, finite, self._top_n)]
        return sorted([*known, *found], key=lambda item: _sort_key(item, is_absolute=is_absolute))[: self._top_n]

    def _element(self, block: ElementBlock, position: int) -> Element:
        index = block.start + position
        target, golden = block.target.item(position), block.golden.item(position)
        absolute: float | int = float(block.absolute[position])
        if isinstance(target, int) and isinstance(golden, int):
            absolute = abs(target - golden)
        at = tuple(int(part) for part in np.unravel_index(index, self._shape))
        return Element(index, at, target, golden, absolute, float(block.relative[position]))


class _Axis:
    """Accumulated errors along one axis."""

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
        errors = np.where(finite, np.minimum(absolute, MAX_SQUARED_ERROR), 0.0)
        slices = len(self._squares)
        self._squares += np.bincount(index, np.square(errors), slices)
        self._not_finite += np.bincount(index[~finite], minlength=slices)
        np.maximum.at(self._largest, index, errors)

    def errors(self, top_n: int) -> AxisErrors:
        # NaNs and infinities rank before all finite errors.
        order = np.lexsort((np.arange(len(self._squares)), -self._squares, -self._not_finite))
        worst = tuple(self._slice(int(number)) for number in order[:top_n] if self._has_error(int(number)))
        return AxisErrors(self.axis, self.extent, worst, self._carriers(order))

    def _slice(self, number: int) -> SliceErrors:
        total = float(self._squares.sum())
        first = number * self._width
        return SliceErrors(
            first,
            min(first + self._width, self.extent) - 1,
            float(self._squares[number]) / total if total else 0.0,
            float(self._largest[number]),
            int(self._not_finite[number]),
        )

    def _has_error(self, number: int) -> bool:
        return bool(self._squares[number] or self._not_finite[number])

    def _carriers(self, order: Index) -> tuple[SliceErrors, ...]:
        weights: AnyArray = self._not_finite if self._not_finite.any() else self._squares
        shares = np.cumsum(weights[order] / max(float(weights.sum()), np.finfo(np.float64).tiny))
        needed = int(np.searchsorted(shares, _MIN_CARRIED_SHARE)) + 1
        allowed = min(_MAX_CARRIERS, max(int(_MAX_CARRIER_FRACTION * len(order)), 1))
        if needed > allowed or needed >= len(order):
            return ()
        return tuple(self._slice(int(number)) for number in order[:needed])


def _ranks(errors: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return the class of each error (2 NaN, 1 infinite, 0 finite), and the errors with 0 where they are not finite."""
    classes = np.isnan(errors) * np.int8(2) + np.isinf(errors)
    return classes.astype(np.int8), np.where(classes == 0, errors, 0.0)


def _worst_positions(classes: npt.NDArray[np.int8], finite: Floats, top_n: int) -> Sequence[int]:
    """Return the positions of the largest errors above 0, worst first; ties in order of position."""
    bad = np.flatnonzero((classes > 0) | (finite > 0))
    if bad.size > 4 * top_n and not classes.any():
        # Ties at the limit are kept, so that the first of them are found.
        limit = np.partition(finite[bad], bad.size - top_n)[bad.size - top_n]
        bad = bad[finite[bad] >= limit]
    order = np.lexsort((bad, -finite[bad], -classes[bad]))
    return [int(position) for position in bad[order[:top_n]]]


def _sort_key(item: Element, *, is_absolute: bool) -> tuple[int, float, int]:
    error = item.absolute if is_absolute else item.relative
    if error != error:  # noqa: PLR0124  NaN is not equal to itself
        return (0, 0.0, item.index)
    return (1, 0.0, item.index) if error == np.inf else (2, -error, item.index)

"""Memory positions of the elements of a tensor, computed without its data.

`StridedView` behaves like an array of which only the shape is known: it can be transposed, reshaped and cut. A built-in
layout is therefore unpacked by the same code on a view as on an array, and the resulting strides tell a kernel where
each element is.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    Shape = tuple[int, ...]
    Index = slice | int | EllipsisType


class NotStrided(Exception):  # noqa: N818  it is a way out, not a mistake: the data itself has to be moved
    """The result cannot be told by a few strides."""


class Factor(NamedTuple):
    """Equally spaced steps: `extent` of them, `stride` elements apart."""

    extent: int
    stride: int


def _count(factors: Sequence[Factor]) -> int:
    """How many numbers can be written in these digits."""
    return factors[0].extent if len(factors) == 1 else prod([factor.extent for factor in factors])


class Axis(NamedTuple):
    """One axis: an index is written in the factors as a number in digits, the first one being the highest.

    `extent` may be smaller than the factors make possible; then the rest is padding.
    """

    extent: int
    factors: tuple[Factor, ...]

    @property
    def is_full(self) -> bool:
        """Whether nothing is cut off."""
        return self.extent == _count(self.factors)

    def cut(self, extent: int) -> Axis:
        """Only the first indices."""
        extent = min(max(extent, 0), self.extent)
        if extent == self.extent:
            return self
        # The highest digit need not go further than the last index.
        (_, stride), *rest = self.factors
        inner = _count(rest)
        factors = (Factor(-(-extent // inner), stride), *rest)
        if len(factors) > 1 and extent <= inner:
            return Axis(self.extent, tuple(rest)).cut(extent) if extent < inner else Axis(extent, tuple(rest))
        return Axis(extent, factors)


class SplitAxis(NamedTuple):
    """An axis with at most two strides: index i is `i // split * outer + i % split * inner` elements from its start."""

    extent: int
    split: int
    outer: int
    inner: int


class StridedView:
    """The places of a tensor's elements, seen as an array."""

    __slots__ = ("_axes", "_fortran_order", "ndim", "shape", "size")

    def __init__(self, shape: Shape, axes: Sequence[Axis] | None = None, *, fortran_order: bool = False) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = prod(shape)
        self._axes = axes
        self._fortran_order = fortran_order

    @classmethod
    def of(cls, shape: Shape, *, fortran_order: bool = False) -> StridedView:
        """Elements one behind the other in row-major order, or in column-major order."""
        return cls(shape, fortran_order=fortran_order)

    @property
    def axes(self) -> Sequence[Axis]:
        """Its axes; those of elements one behind the other are made when they are asked for, and most never are."""
        if self._axes is None:
            self._axes = _stored_axes(self.shape, fortran_order=self._fortran_order)
        return self._axes

    def transpose(self, *order: int | Sequence[int]) -> StridedView:
        """The axes in another order."""
        wanted = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
        return _places([self.axes[axis] for axis in wanted])  # type: ignore[index]

    def reshape(self, *shape: int | Sequence[int]) -> StridedView:
        """The same elements under other axes.

        Raises:
            ValueError: they are not as many.
            NotStrided: an axis would not be a number in digits any more.
        """
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        extents = tuple(map(int, wanted))  # type: ignore[arg-type]
        if prod(extents) != self.size:
            raise ValueError(f"{self.size} elements do not fill {list(extents)}")
        if extents == self.shape:
            return self
        if not self.size:
            return StridedView(extents)
        return StridedView(extents, _regroup(self.axes, extents))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> StridedView:
        """The first elements of each axis (`:n`), all (`:`), or only the very first (0)."""
        wanted = index if isinstance(index, tuple) else (index,)
        if ... in wanted:
            at = wanted.index(...)
            rest = self.ndim - len(wanted) + 1
            wanted = (*wanted[:at], *[slice(None)] * rest, *wanted[at + 1 :])
        axes = []
        for axis, part in zip(self.axes, wanted, strict=False):
            if isinstance(part, slice):
                axes.append(axis if part.stop is None else axis.cut(part.stop))
        return _places([*axes, *self.axes[len(wanted) :]])

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are stored one after the other in row-major order.

        Raises:
            NotStrided: an axis has more than two strides.
        """
        if self._axes is None and not self._fortran_order:
            return True
        return self.split_axes() == StridedView.of(self.shape).split_axes()

    def split_axes(self) -> tuple[SplitAxis, ...]:
        """Return the axes with at most two strides each.

        Raises:
            NotStrided: an axis has more than two strides.
        """
        return tuple([_split_axis(axis) for axis in self.axes])


def is_strided_view(array: object) -> bool:
    """Whether there are places only, and no data."""
    return isinstance(array, StridedView)


def require_data(array: object) -> None:
    """Say that the data itself is needed from here on.

    Raises:
        NotStrided: there are places only.
    """
    if is_strided_view(array):
        raise NotStrided


def _places(axes: Sequence[Axis]) -> StridedView:
    return StridedView(tuple([axis.extent for axis in axes]), axes)


def _stored_axes(shape: Shape, *, fortran_order: bool) -> list[Axis]:
    order = range(len(shape)) if fortran_order else reversed(range(len(shape)))
    strides, stride = [0] * len(shape), 1
    for axis in order:
        strides[axis] = stride
        stride *= shape[axis]
    return [Axis(extent, (Factor(extent, step),)) for extent, step in zip(shape, strides, strict=True)]


def _split_axis(axis: Axis) -> SplitAxis:
    factors = _joined(axis.factors)
    if len(factors) == 1:
        return SplitAxis(axis.extent, 1, factors[0].stride, 0)
    if len(factors) == 2:
        return SplitAxis(axis.extent, factors[1].extent, factors[0].stride, factors[1].stride)
    raise NotStrided


def _joined(factors: Sequence[Factor]) -> list[Factor]:
    """Without factors of one step, and with neighbours that follow each other as one."""
    result: list[Factor] = []
    for factor in factors:
        if factor.extent == 1:
            continue
        if result and result[-1].stride == factor.extent * factor.stride:
            result[-1] = Factor(result[-1].extent * factor.extent, factor.stride)
        else:
            result.append(factor)
    return result or [Factor(1, 1)]


def _regroup(axes: Sequence[Axis], extents: Shape) -> list[Axis]:
    """The axes under new extents: groups of both that have equally many elements are joined and split again."""
    result: list[Axis] = []
    at = 0
    pending: list[Axis] = []
    wanted: list[int] = []
    count = wanted_count = 1
    for extent in extents:
        wanted.append(extent)
        wanted_count *= extent
        while count < wanted_count and at < len(axes):
            pending.append(axes[at])
            count *= axes[at].extent
            at += 1
        if count == wanted_count:
            result += _split(_merge(pending), wanted)
            pending, wanted = [], []
            count = wanted_count = 1
    if at < len(axes) and any(axis.extent != 1 for axis in axes[at:]):
        raise NotStrided
    return result


def _merge(axes: Sequence[Axis]) -> Axis:
    """Several axes as one. Padding behind any but the first would leave gaps."""
    if len(axes) == 1:
        return axes[0]
    extent = 1
    factors: list[Factor] = []
    for number, axis in enumerate(axes):
        if number and not axis.is_full:
            raise NotStrided
        extent *= axis.extent
        factors += axis.factors
    return Axis(extent, tuple(factors) or (Factor(1, 1),))


def _split(axis: Axis, extents: Sequence[int]) -> list[Axis]:
    """One axis as several."""
    if len(extents) == 1:
        return [axis]
    digits = _joined(axis.factors)
    result: list[Axis] = []
    for extent in reversed(extents[1:]):
        taken: list[Factor] = []
        left = extent
        while left > 1:
            if not digits:
                raise NotStrided
            factor = digits.pop()
            if left % factor.extent == 0:
                taken.insert(0, factor)
                left //= factor.extent
            elif factor.extent % left == 0:
                taken.insert(0, Factor(left, factor.stride))
                digits.append(Factor(factor.extent // left, factor.stride * left))
                left = 1
            else:
                raise NotStrided
        result.insert(0, Axis(extent, tuple(taken) or (Factor(1, 1),)))
    return [Axis(extents[0], tuple(digits) or (Factor(1, 1),)), *result]

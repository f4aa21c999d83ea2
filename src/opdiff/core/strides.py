"""Memory offsets of the elements of a tensor, computed without its data.

`StridedView` has the shape operations of an array but no data: it can be transposed, reshaped and cut. Built-in layouts
are therefore unpacked by the same code on views and on arrays, and the resulting strides locate the elements for the
kernel.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    Shape = tuple[int, ...]
    Index = slice | int | EllipsisType


class NotStrided(Exception):  # noqa: N818  control flow, not an error: the data itself has to be moved
    """Strides cannot describe the result."""


class Factor(NamedTuple):
    """Part of an axis: `extent` indices, `stride` elements apart."""

    extent: int
    stride: int


def _count(factors: Sequence[Factor]) -> int:
    """Return the number of indices."""
    return factors[0].extent if len(factors) == 1 else prod([factor.extent for factor in factors])


class Axis(Struct, frozen=True):
    """One axis with mixed-radix strides: the factors are the digits of an index, the most significant first.

    If `extent` is smaller than the product of the factors, the rest is padding.
    """

    extent: int
    factors: tuple[Factor, ...]

    @property
    def is_full(self) -> bool:
        """Whether the axis has no padding."""
        return self.extent == _count(self.factors)

    def cut(self, extent: int) -> Axis:
        """Return the axis with its first indices only."""
        extent = min(max(extent, 0), self.extent)
        if extent == self.extent:
            return self
        # Reduce the most significant factor to the last index.
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
    """Array-like view of a tensor without data: of contiguous elements unless its axes are given."""

    __slots__ = ("_axes", "_fortran_order", "ndim", "shape", "size")

    def __init__(self, shape: Shape, axes: Sequence[Axis] | None = None, *, fortran_order: bool = False) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = prod(shape)
        self._axes = axes
        self._fortran_order = fortran_order

    @property
    def axes(self) -> Sequence[Axis]:
        """The axes; those of contiguous elements are computed on first use."""
        if self._axes is None:
            self._axes = _stored_axes(self.shape, fortran_order=self._fortran_order)
        return self._axes

    def transpose(self, *order: int | Sequence[int]) -> StridedView:
        """Return a view with the axes in another order."""
        wanted = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
        return _view([self.axes[axis] for axis in wanted])  # type: ignore[index]

    def reshape(self, *shape: int | Sequence[int]) -> StridedView:
        """Return a view with another shape.

        Raises:
            ValueError: the number of elements differs.
            NotStrided: factors cannot describe the new axes.
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
        """Return the first indices of each axis (`:n`), all (`:`), or only the first without the axis (0)."""
        wanted = index if isinstance(index, tuple) else (index,)
        if ... in wanted:
            at = wanted.index(...)
            rest = self.ndim - len(wanted) + 1
            wanted = (*wanted[:at], *[slice(None)] * rest, *wanted[at + 1 :])
        axes = []
        for axis, part in zip(self.axes, wanted, strict=False):
            if isinstance(part, slice):
                axes.append(axis if part.stop is None else axis.cut(part.stop))
        return _view([*axes, *self.axes[len(wanted) :]])

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are stored one after the other in row-major order.

        Raises:
            NotStrided: an axis has more than two strides.
        """
        if self._axes is None and not self._fortran_order:
            return True
        return self.split_axes() == StridedView(self.shape).split_axes()

    def split_axes(self) -> tuple[SplitAxis, ...]:
        """Return the axes with at most two strides each.

        Raises:
            NotStrided: an axis has more than two strides.
        """
        return tuple([_split_axis(axis) for axis in self.axes])


def is_strided_view(array: object) -> bool:
    """Return whether an array is a view without data."""
    return isinstance(array, StridedView)


def require_data(array: object) -> None:
    """Reject views without data.

    Raises:
        NotStrided: the array is such a view.
    """
    if is_strided_view(array):
        raise NotStrided


def _view(axes: Sequence[Axis]) -> StridedView:
    return StridedView(tuple([axis.extent for axis in axes]), axes)


def _stored_axes(shape: Shape, *, fortran_order: bool) -> list[Axis]:
    order = range(len(shape)) if fortran_order else reversed(range(len(shape)))
    strides, stride = [0] * len(shape), 1
    for axis in order:
        strides[axis] = stride
        stride *= shape[axis]
    return [Axis(extent, (Factor(extent, step),)) for extent, step in zip(shape, strides, strict=True)]


def _split_axis(axis: Axis) -> SplitAxis:
    factors = _simplify(axis.factors)
    if len(factors) == 1:
        return SplitAxis(axis.extent, 1, factors[0].stride, 0)
    if len(factors) == 2:
        return SplitAxis(axis.extent, factors[1].extent, factors[0].stride, factors[1].stride)
    raise NotStrided


def _simplify(factors: Sequence[Factor]) -> list[Factor]:
    """Drop factors of extent 1, and merge adjacent factors with consistent strides."""
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
    """Return axes with new extents: groups of old axes are merged and split into new axes of the same size."""
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
    """Merge axes. Only the first one may have padding, others would leave gaps."""
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
    """Split an axis."""
    if len(extents) == 1:
        return [axis]
    factors = _simplify(axis.factors)
    result: list[Axis] = []
    for extent in reversed(extents[1:]):
        taken: list[Factor] = []
        remaining = extent
        while remaining > 1:
            if not factors:
                raise NotStrided
            factor = factors.pop()
            if remaining % factor.extent == 0:
                taken.insert(0, factor)
                remaining //= factor.extent
            elif factor.extent % remaining == 0:
                taken.insert(0, Factor(remaining, factor.stride))
                factors.append(Factor(factor.extent // remaining, factor.stride * remaining))
                remaining = 1
            else:
                raise NotStrided
        result.insert(0, Axis(extent, tuple(taken) or (Factor(1, 1),)))
    return [Axis(extents[0], tuple(factors) or (Factor(1, 1),)), *result]

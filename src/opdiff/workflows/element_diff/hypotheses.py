"""Hypotheses about the storage order of a target: for each element, the position where it could be instead."""

from __future__ import annotations

from itertools import combinations, permutations
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct

from opdiff.align import LAYOUTS, Tile
from opdiff.align.element_reader import ElementReader
from opdiff.align.pairs import LAYOUT_BY_RANK
from opdiff.align.plain import is_plain
from opdiff.core.error_facts import ExplanationKind
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import NotStrided, StridedView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.strides import SplitAxis
    from opdiff.core.tensor import Shape

    Index = npt.NDArray[np.intp]
    Coordinates = Sequence[Index]
    Positions = Callable[[Coordinates], Index]

# With more axes than this, only pairs of axes are swapped.
_MAX_PERMUTED_AXES = 5
# Larger tensors are not packed to determine the stored shape of a layout.
_MAX_PACKED_ELEMENTS = 1 << 26
_TILED_LAYOUTS = (
    "NC1HWC0", "NC1HWC0_C04", "NHWC1C0", "C1HWNC0", "NDC1HWC0", "FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_Z", "FRACTAL_Z_3D",
)  # fmt: skip
_TILES = (Tile(16, 16), Tile(32, 16), Tile(8, 16), Tile(64, 16))
# Channel orders of swapped colours (RGB and BGR), without and with an alpha channel.
_COLOUR_ORDERS = {3: (2, 1, 0), 4: (2, 1, 0, 3)}


class Hypothesis(Struct, frozen=True):
    """A possible storage order of the target.

    Attributes:
        kind: kind of explanation.
        reason: the explanation as a sentence.
        positions: maps coordinates in the golden shape to positions among the stored codes of the target. Positions
            beyond the end stand for lost elements.
        swapped: whether the bytes of each element are reversed.
    """

    kind: ExplanationKind
    reason: Reason
    positions: Positions
    swapped: bool = False


class HypothesisContext(Struct, frozen=True):
    """The subject of hypotheses: the elements of the target, the golden shape and its axis labels."""

    target: ElementReader
    shape: Shape
    axis_labels: str
    layout: str
    groups: int

    def axis(self, axis: int) -> Reason:
        """Return the description of an axis."""
        if not self.axis_labels:
            return because("workflows.axis", axis=axis)
        return because("workflows.labelled_axis", axis=axis, label=self.axis_labels[axis])

    def labels(self, axes: Sequence[int]) -> tuple[str, ...]:
        """Return the labels of axes, or their numbers if there are no labels."""
        return tuple(self.axis_labels[axis] if self.axis_labels else str(axis) for axis in axes)


def axis_labels(layout: str, rank: int) -> str:
    """Return the axis labels of an array in a declared layout; empty if the layout has none for this rank."""
    return layout if len(layout) == rank and is_plain(LAYOUTS.find(layout)) and layout != "ND" else ""


def iter_hypotheses(context: HypothesisContext) -> Iterator[Hypothesis]:
    """Yield all hypotheses, the simplest first."""
    yield from _reversed_axes(context)
    yield from _axis_orders(context)
    if context.target.axes or not is_plain(LAYOUTS.find(context.layout)):
        yield from _untiled_orders(context)
    yield from _layouts(context)
    if context.target.dtype.bits >= 16:
        reason = because("workflows.bytes_reversed")
        yield Hypothesis(ExplanationKind.BYTE_ORDER, reason, lambda at: _compared_positions(context, at), swapped=True)


def _compared_positions(context: HypothesisContext, at: Coordinates) -> Index:
    """Return the stored positions of elements as they were compared."""
    if not context.shape:
        return np.zeros(1, np.intp)
    return context.target.offsets(np.asarray(np.ravel_multi_index(tuple(at), context.shape)))


def _axes_longer_than_one(shape: Shape) -> list[int]:
    return [axis for axis, extent in enumerate(shape) if extent > 1]


def _reversed_axes(context: HypothesisContext) -> Iterator[Hypothesis]:
    for axis in _axes_longer_than_one(context.shape):
        extent = context.shape[axis]
        may_be_colours = extent in _COLOUR_ORDERS and (not context.axis_labels or context.axis_labels[axis] == "C")
        if may_be_colours:
            reason = because("workflows.channels_swapped", axis=context.axis(axis))
            positions = _reordered(context, axis, np.array(_COLOUR_ORDERS[extent]))
            yield Hypothesis(ExplanationKind.CHANNEL_ORDER, reason, positions)
        if not may_be_colours or extent > 3:
            reason = because("workflows.axis_reversed", axis=context.axis(axis))
            positions = _reordered(context, axis, np.arange(extent)[::-1])
            yield Hypothesis(ExplanationKind.REVERSED_AXIS, reason, positions)


def _reordered(context: HypothesisContext, axis: int, order: Index) -> Positions:
    def positions(at: Coordinates) -> Index:
        return _compared_positions(context, [order[index] if each == axis else index for each, index in enumerate(at)])

    return positions


def _iter_axis_orders(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Yield the axis orders that move elements, axes of extent 1 first."""
    long = _axes_longer_than_one(shape)
    unit = [axis for axis, extent in enumerate(shape) if extent == 1]
    if len(long) > _MAX_PERMUTED_AXES:
        for first, second in combinations(long, 2):
            swap = {first: second, second: first}
            yield (*unit, *(swap.get(axis, axis) for axis in long))
        return
    yield from ((*unit, *order) for order in permutations(long) if list(order) != long)


def _axis_orders(context: HypothesisContext) -> Iterator[Hypothesis]:
    for order in _iter_axis_orders(context.shape):
        long = [axis for axis in order if context.shape[axis] > 1]
        reason = because("workflows.axis_order", actual=context.labels(long), expected=context.labels(sorted(long)))
        yield Hypothesis(ExplanationKind.AXIS_ORDER, reason, _permuted(context, order))
        for axis in long:
            if context.shape[axis] == 3:
                both = because("workflows.axis_order_reversed", order=reason, axis=context.axis(axis))
                yield Hypothesis(ExplanationKind.AXIS_ORDER, both, _permuted(context, order, axis))


def _permuted(context: HypothesisContext, order: Sequence[int], reversed_axis: int | None = None) -> Positions:
    shape = tuple(context.shape[axis] for axis in order)

    def positions(at: Coordinates) -> Index:
        moved = [context.shape[axis] - 1 - at[axis] if axis == reversed_axis else at[axis] for axis in order]
        return context.target.offsets(np.asarray(np.ravel_multi_index(tuple(moved), shape)))

    return positions


def _untiled_orders(context: HypothesisContext) -> Iterator[Hypothesis]:
    """Assume that the stored data has neither tiles nor padding, contrary to its header."""
    if prod(context.shape) > context.target.stored.codes.size or not context.shape:
        return
    declared = tuple(range(len(context.shape)))
    for order in (declared, *_iter_axis_orders(context.shape)):
        long = [axis for axis in order if context.shape[axis] > 1]
        reason = because("workflows.stored_untiled", order=context.labels(long), declared=context.layout)
        yield Hypothesis(ExplanationKind.LAYOUT, reason, _untiled(context.shape, order))


def _untiled(shape: Shape, order: Sequence[int]) -> Positions:
    extents = tuple(shape[axis] for axis in order)
    return lambda at: np.asarray(np.ravel_multi_index(tuple(at[axis] for axis in order), extents))


def _layouts(context: HypothesisContext) -> Iterator[Hypothesis]:
    """Assume that the stored data is in another layout, or in other tiles, than its header declares."""
    if prod(context.shape) > _MAX_PACKED_ELEMENTS or not context.shape:
        return
    seen: set[tuple[SplitAxis, ...]] = {context.target.axes}
    for name in _TILED_LAYOUTS:
        for tile in _TILES:
            axes = _axes_in_layout(context, name, tile)
            if axes is None or axes in seen:
                continue
            seen.add(axes)
            reason = because("workflows.stored_as", actual=name, declared=context.layout)
            if name == context.layout or tile != _TILES[0]:
                reason = because("workflows.stored_in_tiles", actual=name, c0=tile.c0, declared=context.layout)
            reader = ElementReader(context.target.stored, context.target.dtype, context.shape, axes)
            yield Hypothesis(ExplanationKind.LAYOUT, reason, reader.offsets_at)


def _axes_in_layout(context: HypothesisContext, name: str, tile: Tile) -> tuple[SplitAxis, ...] | None:
    """Return the strides of the elements in a layout; `None` if the layout cannot hold the elements."""
    layout = LAYOUTS.find(name)
    labels = context.axis_labels or LAYOUT_BY_RANK.get(len(context.shape), "")
    if layout is None or (layout.axes and sorted(layout.axes) != sorted(labels)):
        return None
    to_layout = [labels.index(label) for label in layout.axes] or list(range(len(context.shape)))
    shape = tuple(context.shape[axis] for axis in to_layout)
    try:
        stored = layout.pack(np.broadcast_to(np.uint8(0), shape), tile, context.groups).shape
        unpacked = cast("StridedView", layout.unpack(cast("AnyArray", StridedView(stored)), shape, context.groups))
        return unpacked.transpose(np.argsort(to_layout).tolist()).split_axes()
    except (LayoutError, NotStrided, ValueError):
        return None

"""Plain layouts, which differ in their axis order and have no padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.layout import Extents, reshape_codes, shape_mismatch
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.align.layout import Layout, Tile
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


class AxisOrder(Struct, frozen=True):
    """A layout whose name consists of its axis labels, or ND: any rank, in the axis order of the framework."""

    name: str

    @property
    def axes(self) -> str:
        """Labels of the logical axes: the name; none for ND."""
        return "" if self.name == "ND" else self.name

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """Return the stored shape."""
        return Extents(stored)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Return the array unchanged if its axes have labels; ND in any shape with the same number of elements."""
        if not self.axes:
            return reshape_codes(stored, shape, self.name)
        if stored.shape != shape:
            raise shape_mismatch(self.name, stored.shape, shape)
        return stored

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Return the array unchanged."""
        if self.axes and array.ndim != len(self.axes):
            raise LayoutError(self.name, because("align.wrong_axes", shape=array.shape, axes=self.axes))
        return array


ND = AxisOrder("ND")


def is_plain(layout: Layout | None) -> bool:
    """Return whether a layout has neither tiles nor padding."""
    return isinstance(layout, AxisOrder)


def for_rank(layout: Layout, rank: int) -> Layout:
    """Return the layout, or ND if it is a plain layout of another rank."""
    return ND if is_plain(layout) and layout.axes and len(layout.axes) != rank else layout

"""Plain layouts: no padding, only the order of the axes differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.layout import Extents, reshape_codes, shape_mismatch
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.align.layout import Layout, Tile
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


class AxisOrder(NamedTuple):
    """A layout whose name is the letters of its axes."""

    name: str

    @property
    def axes(self) -> str:
        """The letters of the name."""
        return self.name

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """The stored shape."""
        return Extents(stored)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The array as it is; nothing may be cut."""
        if stored.shape != shape:
            raise shape_mismatch(self.name, stored.shape, shape)
        return stored

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The array as it is."""
        if array.ndim != len(self.name):
            raise LayoutError(self.name, because("align.wrong_axes", shape=array.shape, axes=self.axes))
        return array


class AnyAxes(NamedTuple):
    """ND: any rank, in the order in which the framework had it."""

    name: str = "ND"
    axes: str = ""

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """The stored shape."""
        return Extents(stored)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The array in another shape of as many elements."""
        return reshape_codes(stored, shape, self.name)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The array as it is."""
        return array


ND = AnyAxes()


def is_plain(layout: Layout | None) -> bool:
    """Whether elements are stored one after the other, without tiles and padding."""
    return isinstance(layout, AxisOrder | AnyAxes)


def for_rank(layout: Layout, rank: int) -> Layout:
    """The layout, or ND for a plain layout with more or fewer letters than the data has axes."""
    return ND if isinstance(layout, AxisOrder) and len(layout.axes) != rank else layout

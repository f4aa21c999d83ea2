"""Layouts with channels in C1 tiles of C0, the tile innermost, and all other axes unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.layout import Extents, ceil_div, pad_to, shape_mismatch, to_row_major
from opdiff.align.origin_shape import missing_extent
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import require_data

if TYPE_CHECKING:
    from opdiff.align.layout import Tile
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


class TiledChannels(Struct, frozen=True):
    """NC1HWC0 and related layouts.

    Attributes:
        name: name of the layout.
        axes: labels of the logical axes.
        order: labels of the stored axes; `1` is C1 and `0`, always last, is C0.
        c0: the required C0; 0 if any is possible.
    """

    name: str
    axes: str
    order: str
    c0: int = 0

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """Find C as the one extent of the origin shape that is not a stored extent."""
        self._check(stored)
        padded = self._padded_shape(stored)
        if not origin:
            return Extents(padded, because("align.channel_padding_kept", channels=padded[self._channel]))
        channels = missing_extent(origin, padded[: self._channel] + padded[self._channel + 1 :])
        shape = padded if channels is None else self._with_channels(padded, channels)
        if channels is None or not self._fits(stored, shape):
            raise shape_mismatch(self.name, stored, origin)
        return Extents(shape)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Merge the tiles of channels and cut their padding."""
        self._check(stored.shape)
        if not self._fits(stored.shape, shape):
            raise shape_mismatch(self.name, stored.shape, shape)
        # N1HW0 -> N10HW -> NCHW
        split = stored.transpose([self.order.index(label) for label in self._split_axes])
        padded = to_row_major(split).reshape(self._padded_shape(stored.shape))
        return padded[tuple(slice(extent) for extent in shape)]

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Divide the channels into tiles of the layout's C0, or of the one given."""
        if array.ndim != len(self.axes):
            raise LayoutError(self.name, because("align.wrong_axes", shape=array.shape, axes=self.axes))
        channel, c0 = self._channel, self.c0 or tile.c0
        c1 = ceil_div(array.shape[channel], c0)
        padded = pad_to(array, self._with_channels(array.shape, c1 * c0))
        # NCHW -> N10HW -> N1HW0
        split = padded.reshape(*padded.shape[:channel], c1, c0, *padded.shape[channel + 1 :])
        return split.transpose([self._split_axes.index(label) for label in self.order])

    @property
    def _channel(self) -> int:
        return self.axes.index("C")

    @property
    def _split_axes(self) -> str:
        return self.axes.replace("C", "10")

    def _check(self, stored: Shape) -> None:
        if len(stored) != len(self.order):
            raise LayoutError(self.name, because("align.stored_rank", stored=stored, rank=len(self.order)))
        if self.c0 and stored[-1] != self.c0:
            raise LayoutError(self.name, because("align.c0_extent", stored=stored, c0=self.c0))
        if stored[-1] < 1:
            raise LayoutError(self.name, because("align.c0_positive", stored=stored))

    def _padded_shape(self, stored: Shape) -> Shape:
        """Return the logical shape with padding."""
        extents = dict(zip(self.order, stored, strict=True)) | {"C": stored[self.order.index("1")] * stored[-1]}
        return tuple(extents[label] for label in self.axes)

    def _with_channels(self, shape: Shape, channels: int) -> Shape:
        return (*shape[: self._channel], channels, *shape[self._channel + 1 :])

    def _fits(self, stored: Shape, shape: Shape) -> bool:
        if len(shape) != len(self.axes):
            return False
        channels = ceil_div(shape[self._channel], stored[-1]) * stored[-1]
        return self._with_channels(shape, channels) == self._padded_shape(stored)


class DiagonalChannels(Struct, frozen=True):
    """C1HWNCoC0: each tile of channels is the diagonal of a square matrix, whose other elements are 0."""

    name: str
    tiled: TiledChannels

    @property
    def axes(self) -> str:
        """Labels of the logical axes."""
        return self.tiled.axes

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """Derive the logical shape from the layout of the diagonal."""
        self._check(stored)
        try:
            return self.tiled.logical_shape(stored[:-1], origin, groups, prefer)
        except LayoutError as error:
            raise shape_mismatch(self.name, stored, origin) from error

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """Unpack the diagonal."""
        import numpy as np

        self._check(stored.shape)
        require_data(stored)
        try:
            return self.tiled.unpack(np.diagonal(stored, axis1=-2, axis2=-1), shape, groups)
        except LayoutError as error:
            raise shape_mismatch(self.name, stored.shape, shape) from error

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """Store the packed array on the diagonal."""
        import numpy as np

        diagonal = self.tiled.pack(array, tile, groups)
        stored = np.zeros((*diagonal.shape, diagonal.shape[-1]), array.dtype)
        indices = np.arange(diagonal.shape[-1])
        stored[..., indices, indices] = diagonal
        return stored

    def _check(self, stored: Shape) -> None:
        if len(stored) != len(self.tiled.order) + 1 or stored[-1] != stored[-2] or stored[-1] < 1:
            raise LayoutError(self.name, because("align.not_square", stored=stored))

"""Layouts that store every axis but cut the channels into C1 tiles of C0, the tile innermost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.layout import Extents, ceil_div, pad_to, shape_mismatch, to_row_major
from opdiff.align.origin_shape import missing_extent
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import require_data

if TYPE_CHECKING:
    from opdiff.align.layout import Tile
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


class TiledChannels(NamedTuple):
    """NC1HWC0 and its kin.

    Attributes:
        name: the layout's name.
        axes: the letters of the logical axes.
        order: the stored axes; `1` stands for C1 and `0`, always last, for C0.
        c0: the only C0 there is; 0 when any is possible.
    """

    name: str
    axes: str
    order: str
    c0: int = 0

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """Everything but C is stored as it is, so C is the one extent of the origin shape that is left."""
        self._check(stored)
        full = self._full(stored)
        if not origin:
            return Extents(full, because("align.channel_padding_kept", channels=full[self._channel]))
        channels = missing_extent(origin, full[: self._channel] + full[self._channel + 1 :])
        shape = full if channels is None else self._with_channels(full, channels)
        if channels is None or not self._fits(stored, shape):
            raise shape_mismatch(self.name, stored, origin)
        return Extents(shape)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The channels in one piece, padding cut."""
        self._check(stored.shape)
        if not self._fits(stored.shape, shape):
            raise shape_mismatch(self.name, stored.shape, shape)
        # N1HW0 -> N10HW -> NCHW
        whole = stored.transpose([self.order.index(letter) for letter in self._split_axes])
        whole = to_row_major(whole).reshape(self._full(stored.shape))
        return whole[tuple(slice(extent) for extent in shape)]

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """The channels in tiles of the layout's own C0, else of the tile's."""
        if array.ndim != len(self.axes):
            raise LayoutError(self.name, because("align.wrong_axes", shape=array.shape, axes=self.axes))
        at, c0 = self._channel, self.c0 or tile.c0
        c1 = ceil_div(array.shape[at], c0)
        whole = pad_to(array, self._with_channels(array.shape, c1 * c0))
        # NCHW -> N10HW -> N1HW0
        split = whole.reshape(*whole.shape[:at], c1, c0, *whole.shape[at + 1 :])
        return split.transpose([self._split_axes.index(letter) for letter in self.order])

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

    def _full(self, stored: Shape) -> Shape:
        """The logical shape with all padding."""
        sizes = dict(zip(self.order, stored, strict=True)) | {"C": stored[self.order.index("1")] * stored[-1]}
        return tuple(sizes[letter] for letter in self.axes)

    def _with_channels(self, shape: Shape, channels: int) -> Shape:
        return (*shape[: self._channel], channels, *shape[self._channel + 1 :])

    def _fits(self, stored: Shape, shape: Shape) -> bool:
        if len(shape) != len(self.axes):
            return False
        whole = ceil_div(shape[self._channel], stored[-1]) * stored[-1]
        return self._with_channels(shape, whole) == self._full(stored)


class DiagonalChannels(NamedTuple):
    """C1HWNCoC0: every tile of channels stands on the diagonal of a square; the rest of the square is 0."""

    name: str
    tiled: TiledChannels

    @property
    def axes(self) -> str:
        """The letters of the logical axes."""
        return self.tiled.axes

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """As for the layout of the diagonal."""
        self._check(stored)
        try:
            return self.tiled.logical_shape(stored[:-1], origin, groups, prefer)
        except LayoutError as error:
            raise shape_mismatch(self.name, stored, origin) from error

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """The diagonal, unpacked."""
        import numpy as np

        self._check(stored.shape)
        require_data(stored)
        try:
            return self.tiled.unpack(np.diagonal(stored, axis1=-2, axis2=-1), shape, groups)
        except LayoutError as error:
            raise shape_mismatch(self.name, stored.shape, shape) from error

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """The packed array on the diagonal."""
        import numpy as np

        diagonal = self.tiled.pack(array, tile, groups)
        stored = np.zeros((*diagonal.shape, diagonal.shape[-1]), array.dtype)
        every = np.arange(diagonal.shape[-1])
        stored[..., every, every] = diagonal
        return stored

    def _check(self, stored: Shape) -> None:
        if len(stored) != len(self.tiled.order) + 1 or stored[-1] != stored[-2] or stored[-1] < 1:
            raise LayoutError(self.name, because("align.not_square", stored=stored))

"""Layouts of convolution weights: FRACTAL_Z (also grouped), FRACTAL_Z_3D and FRACTAL_Z_C04.

A stored row belongs to one position of the kernel and one tile of channels, and has N1 tiles of N0 x C0. H and W are
merged in the rows, so that they cannot be derived from the stored shape alone.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.layout import Tile, ceil_div, pad_to, reshape_codes, shape_mismatch
from opdiff.align.origin_shape import find_weight_extents
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import require_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.align.layout import Extents
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

# Channels per position of the kernel in FRACTAL_Z_C04.
_C04 = 4


class _Blocks(Struct, frozen=True):
    """Tiling of weights N, C, (D,) H, W.

    The groups of a grouped convolution are on the diagonals of blocks. A block has the smallest number of groups that
    fills whole tiles; the last block may have fewer. Without groups there is one block with one group.

    Attributes:
        count: number of blocks.
        per_block: groups on the diagonal of a block.
        n: output channels of a group.
        c: input channels of a group.
        n1: tiles of N in a block.
        c1: tiles of C in a block.
        depth: D, or 1.
        area: H times W.
        tile: extents of the tiles.
    """

    count: int
    per_block: int
    n: int
    c: int
    n1: int
    c1: int
    depth: int
    area: int
    tile: Tile

    @classmethod
    def of(cls, shape: Shape, tile: Tile, groups: int) -> _Blocks:
        """Return the tiling of a shape with this number of groups along N; C is the channels of one group."""
        n, c = shape[0] // groups, shape[1]
        per_block = min(lcm(_repeats(c, tile.c0), _repeats(n, tile.n0)), groups)
        n1, c1 = ceil_div(per_block * n, tile.n0), ceil_div(per_block * c, tile.c0)
        depth, area = prod(shape[2:-2]), prod(shape[-2:])
        return cls(ceil_div(groups, per_block), per_block, n, c, n1, c1, depth, area, tile)

    @property
    def stored(self) -> Shape:
        """The stored shape."""
        return (self.count * self.depth * self.c1 * self.area, self.n1, self.tile.n0, self.tile.c0)

    @property
    def rows(self) -> Shape:
        """The stored shape with the rows split: block, D, C1, HW, N, C0."""
        return (self.count, self.depth, self.c1, self.area, self.n1 * self.tile.n0, self.tile.c0)

    @property
    def dense(self) -> Shape:
        """The shape of the blocks without tiles: block, N, C, D·HW."""
        return (self.count, self.n1 * self.tile.n0, self.c1 * self.tile.c0, self.depth * self.area)

    def iter_diagonal(self, dense: AnyArray, grouped: AnyArray) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield views of the same elements in the blocks and in the array (group, N, C, D·HW)."""
        for position in range(self.per_block):
            members = grouped[position :: self.per_block]
            rows, columns = (slice(position * extent, (position + 1) * extent) for extent in (self.n, self.c))
            yield dense[: len(members), rows, columns], members


class FractalZ(Struct, frozen=True):
    """FRACTAL_Z of axes NCHW and FRACTAL_Z_3D of axes NCDHW; rows run over (D,) C1, H, W."""

    name: str
    axes: str
    grouped: bool = False

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """Return the origin shape in the axis order that fits the stored shape."""
        _check_groups(self.name, groups, are_known=self.grouped)
        tile = _tile(self.name, stored, origin)

        def fits(shape: Shape) -> bool:
            return _divides(groups, shape[0]) and _Blocks.of(shape, tile, groups).stored == stored

        description = because("align.stored_shape", stored=stored)
        if groups > 1:
            description = because("align.stored_groups", stored=stored, groups=groups)
        return find_weight_extents(self.name, self.axes, origin, prefer, description, fits)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """Return the weights without tiles and padding, groups one after another along N."""
        blocks = self._blocks(shape, _tile(self.name, stored.shape, shape), groups)
        if blocks.stored != stored.shape:
            raise shape_mismatch(self.name, stored.shape, shape)
        split = reshape_codes(stored, blocks.rows, self.name)
        # block, D, C1, HW, N, C0 -> block, N, C1, C0, D, HW
        dense = split.transpose(0, 4, 2, 5, 1, 3).reshape(blocks.dense)
        if groups == 1:
            return reshape_codes(dense[0, : blocks.n, : blocks.c], shape, self.name)
        require_data(stored)
        import numpy as np

        result = np.empty((groups, blocks.n, blocks.c, blocks.dense[-1]), stored.dtype)
        for source, target in blocks.iter_diagonal(dense, result):
            target[...] = source
        return result.reshape(shape)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """Return the weights in tiles of `tile.n0` x `tile.c0`."""
        blocks = self._blocks(array.shape, tile, groups)
        grouped = array.reshape(groups, blocks.n, blocks.c, blocks.dense[-1])
        if groups == 1:
            dense = pad_to(grouped, blocks.dense)
        else:
            import numpy as np

            dense = np.zeros(blocks.dense, array.dtype)
            for target, source in blocks.iter_diagonal(dense, grouped):
                target[...] = source
        split = dense.reshape(*blocks.dense[:2], blocks.c1, tile.c0, blocks.depth, blocks.area)
        # block, N, C1, C0, D, HW -> block, D, C1, HW, N, C0
        return split.transpose(0, 4, 2, 5, 1, 3).reshape(blocks.stored)

    def _blocks(self, shape: Shape, tile: Tile, groups: int) -> _Blocks:
        _check_groups(self.name, groups, are_known=self.grouped)
        if len(shape) != len(self.axes):
            raise LayoutError(self.name, because("align.wrong_axes", shape=shape, axes=self.axes))
        if not _divides(groups, shape[0]):
            problem = because("align.groups_do_not_divide", n=shape[0], shape=shape, groups=groups)
            raise LayoutError(self.name, problem)
        return _Blocks.of(shape, tile, groups)


class FractalZC04(Struct, frozen=True):
    """FRACTAL_Z_C04: at most 4 channels; the merged axis H, W, C is divided into rows of C0."""

    name: str = "FRACTAL_Z_C04"
    axes: str = "NCHW"

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """Return the origin shape in the axis order that fits the stored shape."""
        _check_groups(self.name, groups)
        tile = _tile(self.name, stored, origin)
        description = because("align.stored_shape", stored=stored)
        return find_weight_extents(
            self.name, self.axes, origin, prefer, description, lambda shape: _c04_stored(shape, tile) == stored
        )

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """Return the weights without tiles and padding."""
        _check_groups(self.name, groups)
        if _c04_stored(shape, _tile(self.name, stored.shape, shape)) != stored.shape:
            raise shape_mismatch(self.name, stored.shape, shape)
        rows, n1, n0, c0 = stored.shape
        n, c, h, w = shape
        # row, N, C0 -> N, row, C0 -> N, H, W, C -> N, C, H, W
        flat = stored.reshape(rows, n1 * n0, c0)[:, :n].transpose(1, 0, 2).reshape(n, rows * c0)
        padded = reshape_codes(flat[:, : h * w * _C04], (n, h, w, _C04), self.name)
        return padded[..., :c].transpose(0, 3, 1, 2)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """Return the weights in tiles of `tile.n0` x `tile.c0`."""
        _check_groups(self.name, groups)
        stored = _c04_stored(array.shape, tile)
        if stored is None:
            raise LayoutError(self.name, because("align.too_many_channels", shape=array.shape))
        rows, n1, n0, c0 = stored
        n, _, h, w = array.shape
        flat = pad_to(array.transpose(0, 2, 3, 1), (n, h, w, _C04)).reshape(n, h * w * _C04)
        padded = pad_to(flat, (n1 * n0, rows * c0))
        # N, row, C0 -> row, N, C0
        return padded.reshape(n1, n0, rows, c0).transpose(2, 0, 1, 3)


def _c04_stored(shape: Shape, tile: Tile) -> Shape | None:
    """Return the stored shape of an array N, C, H, W; `None` if it cannot be stored."""
    if len(shape) != 4 or shape[1] > _C04:
        return None
    return (ceil_div(shape[2] * shape[3] * _C04, tile.c0), ceil_div(shape[0], tile.n0), tile.n0, tile.c0)


def _check_groups(layout: str, groups: int, *, are_known: bool = False) -> None:
    if groups > 1 and not are_known:
        raise LayoutError(layout, because("align.groups_unknown", groups=groups))


def _tile(layout: str, stored: Shape, origin: Shape) -> Tile:
    """Return the tile extents of a stored shape.

    Raises:
        LayoutError: the stored shape is not that of tiled weights, or there is no origin shape.
    """
    if len(stored) != 4 or min(stored[-2:]) < 1:
        raise LayoutError(layout, because("align.not_tiled_weights", stored=stored))
    if not origin:
        raise LayoutError(layout, because("align.shape_needed", stored=stored))
    return Tile(c0=stored[3], n0=stored[2])


def _repeats(extent: int, size: int) -> int:
    """Return the smallest number of groups of this extent that fills whole tiles."""
    return lcm(extent, size) // extent if extent else 1


def _divides(groups: int, extent: int) -> bool:
    return groups == 1 or (extent > 0 and extent % groups == 0)

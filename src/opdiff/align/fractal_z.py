"""The layouts of convolution weights: FRACTAL_Z (also grouped), FRACTAL_Z_3D and FRACTAL_Z_C04.

A stored row is one position of the kernel and one tile of channels; in it stand N1 tiles of N0 x C0. H and W are merged
in the rows, so the stored shape alone does not tell them apart.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING, NamedTuple

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

# FRACTAL_Z_C04 gives every position of the kernel this many channels.
_C04 = 4


class _Blocks(NamedTuple):
    """How an array N, C, (D,) H, W stands in tiles.

    The groups of a grouped convolution stand on the diagonals of blocks, as many in each as end at the edge of a tile;
    the last block may have fewer. Without groups there is one block, and one group in it.

    Attributes:
        count: the blocks.
        per_block: groups on the diagonal of each.
        n: output channels of one group.
        c: input channels of one group.
        n1: tiles of N in a block.
        c1: tiles of C in a block.
        depth: D, or 1.
        area: H times W.
        tile: the size of the tiles.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count
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
        """For that many groups along N; C is the number of channels in one group."""
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
        """The stored shape with the rows taken apart: block, D, C1, HW, N, C0."""
        return (self.count, self.depth, self.c1, self.area, self.n1 * self.tile.n0, self.tile.c0)

    @property
    def dense(self) -> Shape:
        """The shape of the blocks without tiles: block, N, C, D·HW."""
        return (self.count, self.n1 * self.tile.n0, self.c1 * self.tile.c0, self.depth * self.area)

    def spots(self, dense: AnyArray, grouped: AnyArray) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Views of the same elements in the blocks and in the array (group, N, C, D·HW), spot by spot."""
        for spot in range(self.per_block):
            members = grouped[spot :: self.per_block]
            rows, columns = (slice(spot * extent, (spot + 1) * extent) for extent in (self.n, self.c))
            yield dense[: len(members), rows, columns], members


class FractalZ(NamedTuple):
    """FRACTAL_Z of axes NCHW and FRACTAL_Z_3D of axes NCDHW; rows run over (D,) C1, H, W."""

    name: str
    axes: str
    grouped: bool = False

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """The origin shape in the order in which the stored shape holds it."""
        self._check_groups(groups)
        tile = _tile(self.name, stored, origin)

        def fits(shape: Shape) -> bool:
            return _divides(groups, shape[0]) and _Blocks.of(shape, tile, groups).stored == stored

        held = because("align.stored_shape", stored=stored)
        if groups > 1:
            held = because("align.stored_groups", stored=stored, groups=groups)
        return find_weight_extents(self.name, self.axes, origin, prefer, held, fits)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """The weights without tiles and padding; of a grouped convolution, group after group along N."""
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
        for source, target in blocks.spots(dense, result):
            target[...] = source
        return result.reshape(shape)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """The weights in tiles of `tile.n0` x `tile.c0`."""
        blocks = self._blocks(array.shape, tile, groups)
        grouped = array.reshape(groups, blocks.n, blocks.c, blocks.dense[-1])
        if groups == 1:
            dense = pad_to(grouped, blocks.dense)
        else:
            import numpy as np

            dense = np.zeros(blocks.dense, array.dtype)
            for target, source in blocks.spots(dense, grouped):
                target[...] = source
        split = dense.reshape(*blocks.dense[:2], blocks.c1, tile.c0, blocks.depth, blocks.area)
        # block, N, C1, C0, D, HW -> block, D, C1, HW, N, C0
        return split.transpose(0, 4, 2, 5, 1, 3).reshape(blocks.stored)

    def _blocks(self, shape: Shape, tile: Tile, groups: int) -> _Blocks:
        self._check_groups(groups)
        if len(shape) != len(self.axes):
            raise LayoutError(self.name, because("align.wrong_axes", shape=shape, axes=self.axes))
        if not _divides(groups, shape[0]):
            problem = because("align.groups_do_not_divide", n=shape[0], shape=shape, groups=groups)
            raise LayoutError(self.name, problem)
        return _Blocks.of(shape, tile, groups)

    def _check_groups(self, groups: int) -> None:
        if groups > 1 and not self.grouped:
            raise LayoutError(self.name, because("align.groups_unknown", groups=groups))


class FractalZC04(NamedTuple):
    """FRACTAL_Z_C04: at most 4 channels; the flat axis H, W, C is cut into rows of C0."""

    name: str = "FRACTAL_Z_C04"
    axes: str = "NCHW"

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """The origin shape in the order in which the stored shape holds it."""
        self._check_groups(groups)
        tile = _tile(self.name, stored, origin)
        held = because("align.stored_shape", stored=stored)
        return find_weight_extents(
            self.name, self.axes, origin, prefer, held, lambda shape: _c04_stored(shape, tile) == stored
        )

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """The weights without tiles and padding."""
        self._check_groups(groups)
        if _c04_stored(shape, _tile(self.name, stored.shape, shape)) != stored.shape:
            raise shape_mismatch(self.name, stored.shape, shape)
        rows, n1, n0, c0 = stored.shape
        n, c, h, w = shape
        # row, N, C0 -> N, row, C0 -> N, H, W, C -> N, C, H, W
        flat = stored.reshape(rows, n1 * n0, c0)[:, :n].transpose(1, 0, 2).reshape(n, rows * c0)
        whole = reshape_codes(flat[:, : h * w * _C04], (n, h, w, _C04), self.name)
        return whole[..., :c].transpose(0, 3, 1, 2)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """The weights in tiles of `tile.n0` x `tile.c0`."""
        self._check_groups(groups)
        stored = _c04_stored(array.shape, tile)
        if stored is None:
            raise LayoutError(self.name, because("align.too_many_channels", shape=array.shape))
        rows, n1, n0, c0 = stored
        n, _, h, w = array.shape
        flat = pad_to(array.transpose(0, 2, 3, 1), (n, h, w, _C04)).reshape(n, h * w * _C04)
        whole = pad_to(flat, (n1 * n0, rows * c0))
        # N, row, C0 -> row, N, C0
        return whole.reshape(n1, n0, rows, c0).transpose(2, 0, 1, 3)

    def _check_groups(self, groups: int) -> None:
        if groups > 1:
            raise LayoutError(self.name, because("align.groups_unknown", groups=groups))


def _c04_stored(shape: Shape, tile: Tile) -> Shape | None:
    """The stored shape of an array N, C, H, W, or `None` when there is none."""
    if len(shape) != 4 or shape[1] > _C04:
        return None
    return (ceil_div(shape[2] * shape[3] * _C04, tile.c0), ceil_div(shape[0], tile.n0), tile.n0, tile.c0)


def _tile(layout: str, stored: Shape, origin: Shape) -> Tile:
    """The size of the tiles, from the stored shape; also checks that there is something to go by."""
    if len(stored) != 4 or min(stored[-2:]) < 1:
        raise LayoutError(layout, because("align.not_tiled_weights", stored=stored))
    if not origin:
        raise LayoutError(layout, because("align.shape_needed", stored=stored))
    return Tile(c0=stored[3], n0=stored[2])


def _repeats(extent: int, size: int) -> int:
    """How many groups of that extent fill whole tiles."""
    return lcm(extent, size) // extent if extent else 1


def _divides(groups: int, extent: int) -> bool:
    return groups == 1 or (extent > 0 and extent % groups == 0)

"""Layouts of matrices in small tiles: FRACTAL_NZ (column by column of tiles), FRACTAL_ZZ (row by row), and FRACTAL_Z.

A matrix in FRACTAL_Z has its tiles row by row, and the elements of a tile column by column.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.layout import Extents, ceil_div, pad_to, reshape_codes, shape_mismatch
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.align.layout import Tile
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


class TiledMatrix(Struct, frozen=True):
    """A stack of matrices (the last two axes of an array of any rank) in tiles of R0 rows and C0 columns.

    Attributes:
        name: name of the layout.
        order: labels of the last four stored axes: `R` and `C` number the tiles, `r` and `c` the rows and columns of a
            tile.
    """

    name: str
    order: str
    axes: str = ""

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:  # noqa: ARG002 (protocol)
        """Return the origin shape, whose last two axes are the matrix in any axis order."""
        self._check(stored)
        if not origin:
            shape = self._padded_shape(stored)
            return Extents(shape, because("align.matrix_padding_kept", shape=shape[-2:]))
        if not self._fits(stored, origin):
            raise shape_mismatch(self.name, stored, origin)
        return Extents(origin)

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Return the matrices without tiles and padding in an array of the given shape."""
        self._check(stored.shape)
        if not self._fits(stored.shape, shape):
            raise shape_mismatch(self.name, stored.shape, shape)
        # (..., C1, R1, R0, C0) -> (..., R1, R0, C1, C0)
        lead = stored.ndim - 4
        split = stored.transpose(*range(lead), *(lead + self.order.index(label) for label in "RrCc"))
        rows, columns = _matrix(shape)
        return reshape_codes(split.reshape(self._padded_shape(stored.shape))[..., :rows, :columns], shape, self.name)

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:  # noqa: ARG002 (protocol)
        """Return the matrices in tiles of `tile.n0` rows and `tile.c0` columns."""
        lead, (rows, columns) = array.shape[:-2], _matrix(array.shape)
        r1, c1 = ceil_div(rows, tile.n0), ceil_div(columns, tile.c0)
        padded = pad_to(array.reshape(*lead, rows, columns), (*lead, r1 * tile.n0, c1 * tile.c0))
        split = padded.reshape(*lead, r1, tile.n0, c1, tile.c0)
        return split.transpose(*range(len(lead)), *(len(lead) + "RrCc".index(label) for label in self.order))

    def _check(self, stored: Shape) -> None:
        if len(stored) < 4 or min(stored[-2:]) < 1:
            raise LayoutError(self.name, because("align.not_tiled_matrix", stored=stored))

    def _padded_shape(self, stored: Shape) -> Shape:
        """Return the shape of the matrices with padding."""
        extents = dict(zip(self.order, stored[-4:], strict=True))
        return (*stored[:-4], extents["R"] * extents["r"], extents["C"] * extents["c"])

    def _fits(self, stored: Shape, shape: Shape) -> bool:
        rows, columns = _matrix(shape)
        extents = dict(zip(self.order, stored[-4:], strict=True))
        r0, c0 = extents["r"], extents["c"]
        padded = (ceil_div(rows, r0) * r0, ceil_div(columns, c0) * c0)
        return prod(shape[:-2]) == prod(stored[:-4]) and padded == self._padded_shape(stored)[-2:]


MATRIX_OF_WEIGHTS = TiledMatrix("FRACTAL_Z", order="RCcr")
"""FRACTAL_Z of a matrix K, N: tiles of N0 x C0, in which C0 runs along K."""


def _matrix(shape: Shape) -> tuple[int, int]:
    """Return rows and columns; a vector is one row, a scalar one element."""
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns

"""Storage index of every element of a tensor, as on the format page of layouts.

Index arithmetic on purpose: nothing is shared with `align`, whose reshapes are tested against this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

    Indexer = Callable[[Shape, "_Tiling"], tuple[Shape, "Index"]]

Index = tuple["AnyArray", ...]


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Tile extents and group count of a layout."""

    c0: int
    n0: int
    groups: int


def store(array: AnyArray, layout: str, *, c0: int = 16, n0: int = 16, groups: int = 1) -> AnyArray:
    """Return the stored array of `array` in a layout; padding is 0.

    `array` is in the order NCHW (NCDHW for layouts with depth, NC and NCL for layouts of these names), or any order
    with the matrix last for FRACTAL_NZ and FRACTAL_ZZ, whose R0 is `n0`. A plain layout of another rank than
    the array leaves it unchanged. `groups` applies to FRACTAL_Z only.

    Raises:
        LayoutError: the layout is not known, or cannot hold the array.
    """
    if layout in _PLAIN:
        return _permuted(array, layout)
    if layout not in _INDEXERS:
        raise LayoutError(layout, because("sample.unknown_order"))
    matrix = np.atleast_2d(array)
    try:
        shape, index = _INDEXERS[layout](matrix.shape, _Tiling(c0, n0, max(groups, 1)))
    except ValueError as error:
        raise LayoutError(layout, because("sample.cannot_hold", shape=array.shape, error=str(error))) from error
    stored = np.zeros(shape, array.dtype)
    stored[index] = matrix
    return stored


def _permuted(array: AnyArray, layout: str) -> AnyArray:
    order = _PLAIN[layout]
    if len(order) != array.ndim:
        return array
    return array.transpose([order.index(label) for label in layout])


def _ceil(extent: int, size: int) -> int:
    return -(-extent // size)


def _tiled_channels(axes: str, order: str, c0: int | None = None) -> Indexer:
    """Return the indexer of a layout with tiled channels.

    `order` names the stored axes by labels of `axes`; 1 stands for the tiles of channels, 0 for the channels of a tile.
    """

    def index(shape: Shape, tiling: _Tiling) -> tuple[Shape, Index]:
        size = c0 or tiling.c0
        extents = dict(zip(axes, shape, strict=True))
        at = dict(zip(axes, np.indices(shape, sparse=True), strict=True))
        extents |= {"1": _ceil(extents["C"], size), "0": size}
        at |= {"1": at["C"] // size, "0": at["C"] % size}
        return tuple(extents[label] for label in order), tuple(at[label] for label in order)

    return index


def _tiled_matrix(*, columns_first: bool) -> Indexer:
    """Return the indexer of a layout with tiles of the last two axes, in the order of columns or of rows."""

    def index(shape: Shape, tiling: _Tiling) -> tuple[Shape, Index]:
        *lead, rows, columns = shape
        *at, r, c = np.indices(shape, sparse=True)
        tiles = [(_ceil(rows, tiling.n0), r // tiling.n0), (_ceil(columns, tiling.c0), c // tiling.c0)]
        (extent1, at1), (extent2, at2) = reversed(tiles) if columns_first else tiles
        return (*lead, extent1, extent2, tiling.n0, tiling.c0), (*at, at1, at2, r % tiling.n0, c % tiling.c0)

    return index


def _fractal_z(shape: Shape, tiling: _Tiling) -> tuple[Shape, Index]:
    """Groups lie on the diagonals of blocks; E groups share a block to reduce padding."""
    total, c, h, w = shape
    if tiling.groups > 1 and (not total or total % tiling.groups):
        raise ValueError(f"N = {total} is not a multiple of {tiling.groups} groups")
    n = total // tiling.groups
    per_block = min(lcm(_repeats(c, tiling.c0), _repeats(n, tiling.n0)), tiling.groups)
    c1 = _ceil(per_block * c, tiling.c0)
    i, j, y, x = np.indices(shape, sparse=True)
    group, member = i // max(n, 1), i % max(n, 1)
    dc = group % per_block * c + j
    dn = group % per_block * n + member
    row = group // per_block * c1 * h * w + dc // tiling.c0 * h * w + y * w + x
    return (
        (_ceil(tiling.groups, per_block) * c1 * h * w, _ceil(per_block * n, tiling.n0), tiling.n0, tiling.c0),
        (row, dn // tiling.n0, dn % tiling.n0, dc % tiling.c0),
    )


def _repeats(extent: int, size: int) -> int:
    """Number of consecutive extents that end at a tile boundary."""
    return lcm(extent, size) // extent if extent else 1


def _fractal_z_c04(shape: Shape, tiling: _Tiling) -> tuple[Shape, Index]:
    n, c, h, w = shape
    if c > 4:
        raise ValueError(f"C = {c} is more than 4")
    i, j, y, x = np.indices(shape, sparse=True)
    k = (y * w + x) * 4 + j
    return (
        (_ceil(h * w * 4, tiling.c0), _ceil(n, tiling.n0), tiling.n0, tiling.c0),
        (k // tiling.c0, i // tiling.n0, i % tiling.n0, k % tiling.c0),
    )


def _fractal_z_3d(shape: Shape, tiling: _Tiling) -> tuple[Shape, Index]:
    n, c, d, h, w = shape
    c1 = _ceil(c, tiling.c0)
    i, j, z, y, x = np.indices(shape, sparse=True)
    row = ((z * c1 + j // tiling.c0) * h + y) * w + x
    return (d * c1 * h * w, _ceil(n, tiling.n0), tiling.n0, tiling.c0), (
        row,
        i // tiling.n0,
        i % tiling.n0,
        j % tiling.c0,
    )


# Axis order of the array for a plain layout; empty: any.
_PLAIN: dict[str, str] = {
    "ND": "", "NC": "NC", "CN": "NC", "NCL": "NCL",
    "NCHW": "NCHW", "NHWC": "NCHW", "HWCN": "NCHW", "CHWN": "NCHW",
    "NCDHW": "NCDHW", "NDHWC": "NCDHW", "DHWCN": "NCDHW", "DHWNC": "NCDHW",
}  # fmt: skip

_INDEXERS: dict[str, Indexer] = {
    "NC1HWC0": _tiled_channels("NCHW", "N1HW0"),
    "NC1HWC0_C04": _tiled_channels("NCHW", "N1HW0", c0=4),
    "NDC1HWC0": _tiled_channels("NCDHW", "ND1HW0"),
    "NHWC1C0": _tiled_channels("NCHW", "NHW10"),
    "C1HWNC0": _tiled_channels("NCHW", "1HWN0"),
    "C1HWNCoC0": _tiled_channels("NCHW", "1HWN00"),
    "FRACTAL_NZ": _tiled_matrix(columns_first=True),
    "FRACTAL_ZZ": _tiled_matrix(columns_first=False),
    "FRACTAL_Z": _fractal_z,
    "FRACTAL_Z_C04": _fractal_z_c04,
    "FRACTAL_Z_3D": _fractal_z_3d,
}

"""Where every element of a tensor lies in memory, written down the way the format page has it.

Index arithmetic on purpose: nothing is shared with `align`, whose reshapes are tested against this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

Index = tuple["AnyArray", ...]


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a layout is told to cut the axes."""

    c0: int
    n0: int
    groups: int


def place(array: AnyArray, layout: str, *, c0: int = 16, n0: int = 16, groups: int = 1) -> AnyArray:
    """The stored array that holds every element of `array` where `layout` has it; all other cells are 0.

    `array` is in the order NCHW (NCDHW for layouts with depth, NC and NCL for those with these letters), or any order
    with the matrix last for FRACTAL_NZ and FRACTAL_ZZ, whose R0 is `n0`. A plain layout with more or fewer letters than
    the array has axes leaves it as it is. `groups` matters to FRACTAL_Z alone.

    Raises:
        LayoutError: nothing is known about the layout, or it cannot hold the array.
    """
    if layout in _PLAIN:
        return _permuted(array, layout)
    if layout not in _PLACES:
        raise LayoutError(layout, "no rule says where its elements are")
    matrix = np.atleast_2d(array)
    try:
        shape, index = _PLACES[layout](matrix.shape, _Cut(c0, n0, max(groups, 1)))
    except ValueError as error:
        raise LayoutError(layout, f"cannot hold {list(array.shape)}: {error}") from error
    stored = np.zeros(shape, array.dtype)
    stored[index] = matrix
    return stored


def _permuted(array: AnyArray, layout: str) -> AnyArray:
    order = _PLAIN[layout]
    if len(order) != array.ndim:
        return array
    return array.transpose([order.index(letter) for letter in layout])


def _ceil(extent: int, size: int) -> int:
    return -(-extent // size)


def _nc1hwc0(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, h, w = shape
    i, j, y, x = np.indices(shape, sparse=True)
    return (n, _ceil(c, cut.c0), h, w, cut.c0), (i, j // cut.c0, y, x, j % cut.c0)


def _nc1hwc0_c04(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    return _nc1hwc0(shape, _Cut(4, cut.n0, cut.groups))


def _ndc1hwc0(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, d, h, w = shape
    i, j, z, y, x = np.indices(shape, sparse=True)
    return (n, d, _ceil(c, cut.c0), h, w, cut.c0), (i, z, j // cut.c0, y, x, j % cut.c0)


def _nhwc1c0(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, h, w = shape
    i, j, y, x = np.indices(shape, sparse=True)
    return (n, h, w, _ceil(c, cut.c0), cut.c0), (i, y, x, j // cut.c0, j % cut.c0)


def _c1hwnc0(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, h, w = shape
    i, j, y, x = np.indices(shape, sparse=True)
    return (_ceil(c, cut.c0), h, w, n, cut.c0), (j // cut.c0, y, x, i, j % cut.c0)


def _c1hwncoc0(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, h, w = shape
    i, j, y, x = np.indices(shape, sparse=True)
    return (_ceil(c, cut.c0), h, w, n, cut.c0, cut.c0), (j // cut.c0, y, x, i, j % cut.c0, j % cut.c0)


def _fractal_nz(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    *lead, rows, columns = shape
    *at, r, c = np.indices(shape, sparse=True)
    return (
        (*lead, _ceil(columns, cut.c0), _ceil(rows, cut.n0), cut.n0, cut.c0),
        (*at, c // cut.c0, r // cut.n0, r % cut.n0, c % cut.c0),
    )


def _fractal_zz(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    *lead, rows, columns = shape
    *at, r, c = np.indices(shape, sparse=True)
    return (
        (*lead, _ceil(rows, cut.n0), _ceil(columns, cut.c0), cut.n0, cut.c0),
        (*at, r // cut.n0, c // cut.c0, r % cut.n0, c % cut.c0),
    )


def _fractal_z(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    """Groups stand on the diagonals of blocks; E of them fill a block, so that little of it is padding."""
    total, c, h, w = shape
    if cut.groups > 1 and (not total or total % cut.groups):
        raise ValueError(f"N = {total} is not a multiple of {cut.groups} groups")
    n = total // cut.groups
    per_block = min(lcm(_repeats(c, cut.c0), _repeats(n, cut.n0)), cut.groups)
    c1 = _ceil(per_block * c, cut.c0)
    i, j, y, x = np.indices(shape, sparse=True)
    group, member = i // max(n, 1), i % max(n, 1)
    dc = group % per_block * c + j
    dn = group % per_block * n + member
    row = group // per_block * c1 * h * w + dc // cut.c0 * h * w + y * w + x
    return (
        (_ceil(cut.groups, per_block) * c1 * h * w, _ceil(per_block * n, cut.n0), cut.n0, cut.c0),
        (row, dn // cut.n0, dn % cut.n0, dc % cut.c0),
    )


def _repeats(extent: int, size: int) -> int:
    """How many extents in a row end at the edge of a tile."""
    return lcm(extent, size) // extent if extent else 1


def _fractal_z_c04(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, h, w = shape
    if c > 4:
        raise ValueError(f"C = {c} is more than 4")
    i, j, y, x = np.indices(shape, sparse=True)
    k = (y * w + x) * 4 + j
    return (
        (_ceil(h * w * 4, cut.c0), _ceil(n, cut.n0), cut.n0, cut.c0),
        (k // cut.c0, i // cut.n0, i % cut.n0, k % cut.c0),
    )


def _fractal_z_3d(shape: Shape, cut: _Cut) -> tuple[Shape, Index]:
    n, c, d, h, w = shape
    c1 = _ceil(c, cut.c0)
    i, j, z, y, x = np.indices(shape, sparse=True)
    row = ((z * c1 + j // cut.c0) * h + y) * w + x
    return (d * c1 * h * w, _ceil(n, cut.n0), cut.n0, cut.c0), (row, i // cut.n0, i % cut.n0, j % cut.c0)


# The order of the array that a plain layout is made from; empty: as it is.
_PLAIN: dict[str, str] = {
    "ND": "", "NC": "NC", "CN": "NC", "NCL": "NCL",
    "NCHW": "NCHW", "NHWC": "NCHW", "HWCN": "NCHW", "CHWN": "NCHW",
    "NCDHW": "NCDHW", "NDHWC": "NCDHW", "DHWCN": "NCDHW", "DHWNC": "NCDHW",
}  # fmt: skip

_PLACES: dict[str, Callable[[Shape, _Cut], tuple[Shape, Index]]] = {
    "NC1HWC0": _nc1hwc0,
    "NC1HWC0_C04": _nc1hwc0_c04,
    "NDC1HWC0": _ndc1hwc0,
    "NHWC1C0": _nhwc1c0,
    "C1HWNC0": _c1hwnc0,
    "C1HWNCoC0": _c1hwncoc0,
    "FRACTAL_NZ": _fractal_nz,
    "FRACTAL_ZZ": _fractal_zz,
    "FRACTAL_Z": _fractal_z,
    "FRACTAL_Z_C04": _fractal_z_c04,
    "FRACTAL_Z_3D": _fractal_z_3d,
}

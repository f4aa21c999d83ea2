"""Errors and value pairs of whole tensors for pictures, by the kernel; `measure.picture_tally` is the definition."""

from __future__ import annotations

import ctypes
from array import array
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.pictures import BINS
from opdiff.measure.kernel import library as native
from opdiff.measure.picture_tally import Errors, Tally

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.measure.picture_tally import Grid

_CELL = np.dtype([("counts", np.int64), ("not_finite", np.int64), ("squares", np.float64)])


class _Grid(ctypes.Structure):
    """Argument of the kernel, `od_grid`."""

    _fields_ = (
        ("axes", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("planes", ctypes.c_int64),
        ("cells", ctypes.c_int64),
        ("bins", ctypes.c_int64),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
    )


class NativePair(Struct, frozen=True):
    """A pair that the kernel reads where it is stored. `payloads` keeps its data in memory, if it is there."""

    job: native.NativeJob
    payloads: object = None

    def value_range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest finite value of both sides; `None` if they cannot be read."""
        ends = (ctypes.c_double * 2)()
        return (ends[0], ends[1]) if native.examine("od_value_range", self.job, ends) else None

    def tally(self, grid: Grid) -> Tally | None:
        """Return errors and value pairs of all elements; `None` if they cannot be read."""
        axes = array("q", [number for axis in grid.axes for number in axis])
        described = _Grid(axes.buffer_info()[0], len(grid.axes), grid.planes, grid.cells, BINS, grid.low, grid.high)
        planes, cells = np.zeros(grid.planes, _CELL), np.zeros(grid.cells, _CELL)
        density, counts = np.zeros((BINS, BINS), np.int64), np.zeros(2, np.int64)
        outputs = (ctypes.c_void_p(each.ctypes.data) for each in (planes, cells, density, counts))
        if not native.examine("od_picture", self.job, ctypes.byref(described), *outputs):
            return None
        return Tally(_errors(planes), _errors(cells), density, int(counts[0]), int(counts[1]))


def _errors(cells: AnyArray) -> Errors:
    return Errors(cells["counts"], cells["not_finite"], cells["squares"])

"""Errors of two tensors by plane and cell of a picture, and the density of value pairs.

`tally` is the definition in NumPy, and the fallback for `kernel.pictures`. Equal infinities, and NaN on both sides,
have an error of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from opdiff.core.pictures import BINS
from opdiff.measure.reference.block_values import absolute_errors
from opdiff.measure.slices import MAX_SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray

    Index = npt.NDArray[np.intp]

# Larger values are clipped: their sums overflow.
_MAX_VALUE = 1e300


class GridAxis(NamedTuple):
    """An axis of a tensor: `index * plane` and `index // width * cell` are added to the numbers of plane and cell."""

    extent: int
    plane: int
    width: int
    cell: int


class Grid(Struct, frozen=True):
    """Planes and cells of a picture, and the range of values that is divided into bins."""

    axes: tuple[GridAxis, ...]
    planes: int
    cells: int
    low: float
    high: float


class Errors(Struct, frozen=True):
    """Errors of planes or cells: numbers of elements and of non-finite errors, sums of squares of the others."""

    counts: AnyArray
    not_finite: AnyArray
    squares: AnyArray


class Tally(Struct, frozen=True):
    """Errors by plane and by cell, and numbers of elements.

    Attributes:
        planes: errors of each plane.
        cells: errors of each cell, over all planes.
        density: elements that are finite on both sides, by golden bin and target bin.
        outside: elements of `density` with a value outside of the range, which are in the first and last bins.
        not_finite: all other elements.
    """

    planes: Errors
    cells: Errors
    density: AnyArray
    outside: int
    not_finite: int


class WholePair(Protocol):
    """Two tensors whose elements are all looked at, without loading them; `None` if they cannot be read."""

    def value_range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest finite value of both."""

    def tally(self, grid: Grid) -> Tally | None:
        """Return their errors and value pairs."""


def tally(target: AnyArray, golden: AnyArray, coordinates: Sequence[Index], grid: Grid) -> Tally:
    """Return errors and value pairs of elements, which have these coordinates along the axes of the grid."""
    x, y = clipped_numbers(target), clipped_numbers(golden)
    parts = list(zip(grid.axes, coordinates, strict=True))
    planes = sum((index * axis.plane for axis, index in parts), np.zeros(x.size, np.intp))
    cells = sum((index // axis.width * axis.cell for axis, index in parts), np.zeros(x.size, np.intp))
    squares, is_special = squared_errors(x, y)
    is_finite = np.isfinite(x) & np.isfinite(y)
    is_within = _is_within(x, grid) & _is_within(y, grid)
    numbers = _bins(y[is_finite], grid) * BINS + _bins(x[is_finite], grid)
    return Tally(
        errors_of(planes, grid.planes, squares, is_special),
        errors_of(cells, grid.cells, squares, is_special),
        np.bincount(numbers, minlength=BINS * BINS).reshape(BINS, BINS),
        int(np.count_nonzero(is_finite & ~is_within)),
        int(np.count_nonzero(~is_finite)),
    )


def errors_of(numbers: Index, size: int, squares: AnyArray, is_special: AnyArray) -> Errors:
    """Return the errors of planes or cells, of which each element has a number."""
    counts = np.bincount(numbers, minlength=size)
    return Errors(counts, np.bincount(numbers[is_special], minlength=size), np.bincount(numbers, squares, size))


def clipped_numbers(array: AnyArray) -> AnyArray:
    """Return values as float64, finite ones so that sums and differences of them are finite."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        numbers = array.astype(np.float64)
    return np.where(np.isfinite(numbers), np.clip(numbers, -_MAX_VALUE, _MAX_VALUE), numbers)


def squared_errors(x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the squared errors, 0 for equal elements and errors that are not finite, and where these are."""
    errors = absolute_errors(x, y)
    is_special = ~np.isfinite(errors)
    return np.square(np.minimum(np.where(is_special, 0.0, errors), MAX_SQUARED_ERROR)), is_special


def _is_within(values: AnyArray, grid: Grid) -> AnyArray:
    return np.asarray((values >= grid.low) & (values <= grid.high))


def _bins(values: AnyArray, grid: Grid) -> Index:
    positions = np.clip((values - grid.low) / (grid.high - grid.low), 0.0, 1.0)
    return np.minimum((positions * BINS).astype(np.intp), BINS - 1)

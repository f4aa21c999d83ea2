"""Pictures of two tensors, from all elements or a sample of them. `core.pictures` describes the result.

values of a sample ──► range ──tally, by the kernel or of the sample──► density, error of each plane ──take──► frames
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.pictures import INF_CODE, MAX_CODE, NAN_CODE, NEGATIVE_INF_CODE, Frame, TensorPicture
from opdiff.measure.picture_tally import Grid, GridAxis, clipped_numbers, errors_of, squared_errors, tally

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape
    from opdiff.measure.picture_tally import Errors, Tally, WholePair

    Index = npt.NDArray[np.intp]
    Take = Callable[[Index], tuple[AnyArray, AnyArray]]

# Cells along each axis of a plane, and along the axis of tensors with one long axis.
MAX_CELLS, MAX_CELLS_OF_LINE = 64, 256
# Elements of a plane that are read for its images.
_MAX_PLANE_ELEMENTS = 1 << 18
# The range of values spans these quantiles of both sides, and further values up to this multiple of their distance.
_QUANTILES = 0.001, 0.999
_MAX_RANGE_RATIO = 4.0
_MAX_QUANTILE_ELEMENTS = 1 << 16
# The scale of errors ends at the range of values, or at the largest error if that is larger, up to this multiple.
_MAX_ERROR_RATIO = 10.0
# It begins at this share of its end, or at this share of the largest error if that is smaller.
_MIN_ERROR_SHARE, _MIN_LARGEST_SHARE = 1e-3, 1e-2
_MIN_SCALE_RATIO = 1e-12
# Smallest end of the scale of errors.
_MIN_VALUE = 1e-290


class SampledValues(Struct, frozen=True):
    """Values of two tensors of equal shape.

    Attributes:
        shape: shape of both, at least one axis.
        labels: labels of the axes; empty if unknown.
        positions: row-major indices of the examined elements.
        target: target values of the examined elements.
        golden: golden values of the examined elements.
        take: returns target and golden values of other elements.
        whole: both tensors, if all elements can be looked at without loading them.
    """

    shape: Shape
    labels: str
    positions: Index
    target: AnyArray
    golden: AnyArray
    take: Take
    whole: WholePair | None = None

    @property
    def share(self) -> float:
        """Share of the elements that is examined."""
        return min(self.positions.size / max(prod(self.shape), 1), 1.0)


class _Plane(Struct, frozen=True):
    """Axes of a plane, the other axes, and the cells of the plane."""

    shape: Shape
    axes: Shape
    others: Shape
    cell: tuple[int, int]
    extents: tuple[int, int]

    @classmethod
    def of(cls, shape: Shape, labels: str, max_cells: int) -> _Plane:
        axes = _plane_axes(shape, labels)
        others = tuple(axis for axis in range(len(shape)) if axis not in axes)
        height, width = ((1,) * (2 - len(axes)) + tuple(shape[axis] for axis in axes))[-2:]
        most = max_cells if len(axes) > 1 else MAX_CELLS_OF_LINE
        cell = ceil(height / most), ceil(width / most)
        return cls(shape, axes, others, cell, (ceil(height / cell[0]), ceil(width / cell[1])))

    @property
    def count(self) -> int:
        """Number of planes."""
        return prod(self.shape[axis] for axis in self.others)

    def grid(self, low: float, high: float) -> Grid:
        """Return the parts of the axes in the numbers of planes and cells."""
        weights = {axis: prod(self.shape[other] for other in self.others if other > axis) for axis in self.others}
        cells = dict(zip(self.axes[::-1], zip(self.cell[::-1], (1, self.extents[1]), strict=True), strict=False))
        axes = (
            GridAxis(extent, weights.get(axis, 0), *cells.get(axis, (1, 0))) for axis, extent in enumerate(self.shape)
        )
        return Grid(tuple(axes), self.count, prod(self.extents), low, high)

    def index(self, number: int) -> Shape:
        """Return the coordinates of a plane along the other axes."""
        extents = tuple(self.shape[axis] for axis in self.others)
        return tuple(int(each) for each in np.unravel_index(number, extents)) if extents else ()

    def positions(self, number: int) -> Index:
        """Return row-major indices of elements of a plane: all, or every n-th row and column of a large one."""
        step = max(ceil((prod(self.shape[axis] for axis in self.axes) / _MAX_PLANE_ELEMENTS) ** 0.5), 1)
        chosen = [np.arange(0, extent, step if axis in self.axes else 1) for axis, extent in enumerate(self.shape)]
        for axis, each in zip(self.others, self.index(number), strict=True):
            chosen[axis] = np.array([each])
        grid = np.meshgrid(*chosen, indexing="ij", sparse=True)
        return np.ravel_multi_index(tuple(grid), self.shape).reshape(-1)


def _plane_axes(shape: Shape, labels: str) -> Shape:
    """Return the axes of images, or the last two axes that are longer than 1."""
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    if {"H", "W"} <= set(labels):
        image = labels.index("H"), labels.index("W")
        if all(axis in long for axis in image):
            return image
    return tuple(long[-2:])


def draw_picture(
    row: int, values: SampledValues, max_image_cells: int, max_cells: int = MAX_CELLS
) -> TensorPicture | None:
    """Return the picture of two tensors; `None` if they are empty, or complex.

    Args:
        row: number of their row.
        values: their values.
        max_image_cells: maximum number of cells of all frames together; one frame may have more.
        max_cells: maximum number of cells along an axis of a plane.
    """
    if not values.target.size or np.iscomplexobj(values.target) or np.iscomplexobj(values.golden):
        return None
    plane = _Plane.of(values.shape, values.labels, max_cells)
    low, high = _value_range(values)
    found, share = _tally(values, plane.grid(low, high))
    overall = _root_mean_square(found.cells)
    weights = found.planes.squares
    total = float(weights.sum()) or 1.0
    # NaN and infinities first: their errors have no size.
    worst = np.lexsort((-weights, -found.planes.not_finite))[: max(max_image_cells // prod(plane.extents), 1)]
    sides = [_FrameSides.of(plane, int(number), values.take) for number in worst]
    largest = max(float(np.nanmax(each, initial=0.0)) for each in (overall, *(side.error for side in sides)))
    scale = _error_scale(high - low, largest)
    frames = tuple(
        side.frame(plane.index(int(number)), float(weights[number]) / total, (low, high), scale)
        for number, side in zip(worst, sides, strict=True)
    )
    return TensorPicture(
        row=row,
        shape=values.shape,
        labels=values.labels,
        axes=plane.axes,
        extents=plane.extents,
        cell=plane.cell,
        low=low,
        high=high,
        low_error=scale[0],
        high_error=scale[1],
        overall=_error_codes(overall, *scale),
        frames=frames,
        frame_count=plane.count,
        golden_counts=tuple(found.density.sum(1).tolist()),
        target_counts=tuple(found.density.sum(0).tolist()),
        density=tuple(found.density.reshape(-1).tolist()),
        outside=found.outside,
        not_finite=found.not_finite,
        sampled_share=share,
    )


def _tally(values: SampledValues, grid: Grid) -> tuple[Tally, float]:
    """Return errors and value pairs, and the share of the elements that was looked at."""
    whole = values.whole.tally(grid) if values.whole is not None else None
    if whole is not None:
        return whole, 1.0
    coordinates = [np.asarray(each) for each in np.unravel_index(values.positions, values.shape)]
    return tally(values.target, values.golden, coordinates, grid), values.share


class _FrameSides(Struct, frozen=True):
    """Means of golden and target, and errors, of the cells of a plane; NaN and infinities where a cell has them."""

    golden: AnyArray
    target: AnyArray
    error: AnyArray

    @classmethod
    def of(cls, plane: _Plane, number: int, take: Take) -> _FrameSides:
        positions = plane.positions(number)
        x, y = map(clipped_numbers, take(positions))
        coordinates = np.unravel_index(positions, plane.shape)
        grid = plane.grid(0.0, 1.0)
        parts = (index // axis.width * axis.cell for axis, index in zip(grid.axes, coordinates, strict=True))
        cells = sum(parts, np.zeros(x.size, np.intp))
        error = _root_mean_square(errors_of(cells, grid.cells, *squared_errors(x, y)))
        return cls(_mean(y, cells, grid.cells), _mean(x, cells, grid.cells), error)

    def frame(self, index: Shape, share: float, ends: tuple[float, float], scale: tuple[float, float]) -> Frame:
        golden, target = (_value_codes(side, *ends) for side in (self.golden, self.target))
        return Frame(index, share, golden, target, _error_codes(self.error, *scale))


def _root_mean_square(errors: Errors) -> AnyArray:
    """Return the errors of the cells; NaN for cells with an error that is not finite."""
    result: AnyArray = np.sqrt(errors.squares / np.maximum(errors.counts, 1))
    return np.where(errors.not_finite > 0, np.nan, result)


def _mean(values: AnyArray, cells: Index, size: int) -> AnyArray:
    """Return the means of the cells; NaN or an infinity for cells with one."""
    is_finite = np.isfinite(values)
    counts = np.maximum(np.bincount(cells, is_finite, size), 1)
    result: AnyArray = np.bincount(cells, np.where(is_finite, values, 0.0), size) / counts
    for special in (np.inf, -np.inf, np.nan):
        is_special = np.isnan(values) if np.isnan(special) else values == special
        result[np.bincount(cells, is_special, size) > 0] = special
    return result


def _value_codes(values: AnyArray, low: float, high: float) -> bytes:
    codes = np.round(_positions_in(values, low, high) * MAX_CODE).astype(np.uint8)
    codes[np.isnan(values)] = NAN_CODE
    codes[values == np.inf] = INF_CODE
    codes[values == -np.inf] = NEGATIVE_INF_CODE
    return codes.tobytes()


def _error_scale(value_range: float, largest: float) -> tuple[float, float]:
    """Return the ends of the scale of errors."""
    high = max(min(max(value_range, largest), _MAX_ERROR_RATIO * value_range), _MIN_VALUE)
    low = min(_MIN_ERROR_SHARE * high, _MIN_LARGEST_SHARE * largest) if largest else _MIN_ERROR_SHARE * high
    return max(low, _MIN_SCALE_RATIO * high), high


def _error_codes(errors: AnyArray, low: float, high: float) -> bytes:
    with np.errstate(all="ignore"):
        positions = np.log(errors / low) / np.log(high / low)
    codes: AnyArray = 1 + np.round(np.clip(np.nan_to_num(positions), 0.0, 1.0) * (MAX_CODE - 1))
    codes[errors == 0] = 0
    codes[np.isnan(errors)] = NAN_CODE
    return codes.astype(np.uint8).tobytes()


def _positions_in(values: AnyArray, low: float, high: float) -> AnyArray:
    """Return the positions of values in a range, from 0 to 1; 0 for those that are not finite."""
    positions = (np.where(np.isfinite(values), values, low) - low) / (high - low)
    return np.clip(positions, 0.0, 1.0)


def _value_range(values: SampledValues) -> tuple[float, float]:
    """Return the range of the finite values of both sides, without those that are far from all others."""
    sides = [side[np.isfinite(side)] for side in map(clipped_numbers, (values.target, values.golden))]
    both = np.concatenate([side[:: max(side.size // _MAX_QUANTILE_ELEMENTS, 1)] for side in sides])
    ends = values.whole.value_range() if values.whole is not None else None
    if not both.size:
        return 0.0, 1.0
    smallest, largest = ends or (
        min(side.min() for side in sides if side.size),
        max(side.max() for side in sides if side.size),
    )
    first, last = (float(each) for each in np.quantile(both, _QUANTILES))
    margin = _MAX_RANGE_RATIO * (last - first)
    low, high = max(float(smallest), first - margin), min(float(largest), last + margin)
    if low < high:
        return low, high
    around = max(abs(low) * 1e-3, 1e-6)
    return low - around, high + around

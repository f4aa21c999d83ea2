"""Errors of two tensors in the slices of each axis, over all elements or a sample.

    shape ──slice_axes──► SlicedAxis, …   count ──choose_sample──► Sample   both, and the data ──► SliceSums, … per axis

`measure_slices` is the definition in NumPy, and the fallback for `kernel.results.measure_slices`. Equal infinities,
and NaN on both sides, have an error of 0.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opdiff.core.dtypes import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

    Codes = Callable[[int, int], AnyArray]

MAX_SLICES = 256
"""Longer axes are divided into this many slices of several indices each."""

MAX_FULL_ELEMENTS = 1 << 20
"""Larger tensors are examined by a sample."""

_BLOCK_ELEMENTS, _NUMPY_BLOCK_ELEMENTS = 1 << 10, 1 << 16
_SAMPLE_RUN_LENGTH, _SAMPLE_RUNS = 64, 4096
# The fractional parts of its multiples are distributed evenly, for any number of multiples.
_GOLDEN_RATIO = 0.6180339887498949
MAX_SQUARED_ERROR = 1e150
"""Larger errors are clipped before they are squared: their squares overflow."""


class SlicedAxis(Struct, frozen=True):
    """An axis divided into slices of `width` indices; `stride` is the distance between two indices in real numbers."""

    axis: int
    extent: int
    stride: int
    width: int

    @property
    def slices(self) -> int:
        """Number of slices."""
        return -(-self.extent // self.width)


class Sample(Struct, frozen=True):
    """Examined elements out of `count`: from each start on `length` elements, or fewer at the end of the tensor."""

    starts: Sequence[int]
    length: int
    count: int

    @property
    def examined(self) -> int:
        """Number of examined elements; elements of overlapping runs are counted twice."""
        return min(self.length * len(self.starts), self.count)

    @property
    def share(self) -> float:
        """Share of all elements that is examined."""
        return self.examined / self.count if self.count else 1.0


class SliceSums(NamedTuple):
    """Errors in one slice: number of elements and of non-finite errors, sum of squares and maximum of finite ones."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    not_finite: int = 0
    squares: float = 0.0
    largest: float = 0.0

    @property
    def mean_square(self) -> float:
        """Mean square of the finite errors."""
        finite = self.count - self.not_finite
        return self.squares / finite if finite else 0.0


def slice_axes(shape: Shape, parts: int = 1) -> tuple[SlicedAxis, ...]:
    """Divide every axis longer than 1 into slices; an element consists of `parts` real numbers."""
    return tuple(
        SlicedAxis(axis, extent, parts * prod(shape[axis + 1 :]), -(-extent // MAX_SLICES))
        for axis, extent in enumerate(shape)
        if extent > 1
    )


def choose_sample(count: int) -> Sample:
    """Return all elements, or evenly distributed runs of elements of a large tensor."""
    if count <= MAX_FULL_ELEMENTS:
        return Sample(range(0, count, _BLOCK_ELEMENTS), _BLOCK_ELEMENTS, count)
    last = count - _SAMPLE_RUN_LENGTH + 1
    starts = [int(number * _GOLDEN_RATIO % 1.0 * last) for number in range(_SAMPLE_RUNS)]
    return Sample(starts, _SAMPLE_RUN_LENGTH, count)


def concentration(slices: Sequence[SliceSums]) -> float:
    """Return how unevenly the errors are distributed over slices: 0 if all have the same, 1 if one slice has all."""
    has_non_finite = any(sums.not_finite for sums in slices)
    weights = [sums.not_finite / sums.count if has_non_finite else sums.mean_square for sums in slices if sums.count]
    total = sum(weights)
    if len(weights) < 2 or not total:
        return 0.0
    minimum = 1 / len(weights)
    return (sum((weight / total) ** 2 for weight in weights) - minimum) / (1 - minimum)


def measure_slices(
    target: Codes, target_dtype: DType, golden: Codes, golden_dtype: DType, axes: Sequence[SlicedAxis], sample: Sample
) -> list[tuple[SliceSums, ...]]:
    """Return the errors in the slices of each axis. `target` and `golden` return the codes from `start` to `stop`.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
    """
    import numpy as np

    squares, largest = ([np.zeros(axis.slices) for axis in axes] for _ in range(2))
    counts, not_finite = ([np.zeros(axis.slices, np.int64) for axis in axes] for _ in range(2))
    for start, errors in _iter_errors(target, target_dtype, golden, golden_dtype, sample):
        finite = np.isfinite(errors)
        finite_errors = np.where(finite, errors, 0.0)
        indices = np.arange(start, start + errors.size)
        for number, axis in enumerate(axes):
            slices = indices // axis.stride % axis.extent // axis.width
            counts[number] += np.bincount(slices, minlength=axis.slices)
            not_finite[number] += np.bincount(slices[~finite], minlength=axis.slices)
            squares[number] += np.bincount(slices, np.square(np.minimum(finite_errors, MAX_SQUARED_ERROR)), axis.slices)
            np.maximum.at(largest[number], slices, finite_errors)
    columns = zip(counts, not_finite, squares, largest, strict=True)
    return [tuple(map(SliceSums, *(column.tolist() for column in axis_columns))) for axis_columns in columns]


def _iter_errors(
    target: Codes, target_dtype: DType, golden: Codes, golden_dtype: DType, sample: Sample
) -> Iterator[tuple[int, AnyArray]]:
    """Yield runs of absolute errors, each with the index of its first element."""
    from opdiff.measure.reference.block_values import absolute_errors, decode_pair

    parts = 2 if target_dtype.kind is Kind.COMPLEX else 1
    for start, stop in _spans(sample):
        first, last = start // parts, -(-stop // parts)
        x, y = decode_pair(target(first, last), target_dtype, golden(first, last), golden_dtype)
        errors = absolute_errors(x.values(), y.values())
        yield start, errors[start - first * parts : stop - first * parts]


def _spans(sample: Sample) -> Iterator[tuple[int, int]]:
    """Yield start and stop of the runs of a sample; if it is the whole tensor, of longer runs, which NumPy needs."""
    if isinstance(sample.starts, range):
        starts = range(0, sample.examined, _NUMPY_BLOCK_ELEMENTS)
        yield from ((start, start + _NUMPY_BLOCK_ELEMENTS) for start in starts)
        return
    yield from ((start, start + sample.length) for start in sample.starts)

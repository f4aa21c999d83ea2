"""Patterns of errors by channel, or another slice: constant offsets, factors, exchanged slices, a few wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.error_facts import ErrorPattern
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray

_MIN_EXTENT = 3
_MIN_ELEMENTS_PER_SLICE = 4
# Slices that may have exchanged places.
_MAX_EXCHANGED = 64
# Wrong slices: this share of all at most, each with errors above this multiple of the median one.
_MAX_WRONG_SHARE = 0.25
_MIN_ERROR_RATIO = 8.0
# Offsets of an output behind an activation show in elements that it does not clip: this share must be left.
_MIN_UNCLIPPED_SHARE = 0.2


def slice_patterns(target: AnyArray, golden: AnyArray, norm: float) -> Iterator[ErrorPattern]:
    """Yield the patterns along each axis that has enough indices, channels first."""
    for axis in _axes(golden.shape):
        # Rows: the slices along the axis.
        x, y = (np.moveaxis(each, axis, 0).reshape(golden.shape[axis], -1) for each in (target, golden))
        yield from _exchanged(x, y, norm, axis)
        yield from _few_wrong(x, y, norm, axis)
        yield from _offsets(x, y, norm, axis)
        yield from _factors(x, y, norm, axis)


def _axes(shape: tuple[int, ...]) -> list[int]:
    count = int(np.prod(shape))
    axes = [1, *range(2, len(shape)), 0] if len(shape) >= 4 else list(range(len(shape) - 1, -1, -1))
    return [axis for axis in axes if shape[axis] >= _MIN_EXTENT and count // shape[axis] >= _MIN_ELEMENTS_PER_SLICE]


def _row_errors(x: AnyArray, y: AnyArray) -> AnyArray:
    squares: AnyArray = ((x - y) ** 2).sum(axis=1)
    return squares


def _exchanged(x: AnyArray, y: AnyArray, norm: float, axis: int) -> Iterator[ErrorPattern]:
    """Slices that have each other's places."""
    errors = _row_errors(x, y)
    moved = np.flatnonzero(errors > _MIN_ERROR_RATIO * np.median(errors))
    if not 2 <= moved.size <= min(_MAX_EXCHANGED, len(x) // 2):
        return
    distances = ((x[moved, None] - y[None, moved]) ** 2).sum(axis=2)
    source = distances.argmin(axis=1)
    if len(set(source.tolist())) < moved.size or (source == np.arange(moved.size)).any():
        return
    squares = errors.sum() - errors[moved].sum() + distances.min(axis=1).sum()
    rest = float(np.sqrt(max(squares, 0.0))) / norm
    reason = because("measure.slices_exchanged", indices=tuple(moved.tolist()), axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.PERMUTED, reason, rest)


def _few_wrong(x: AnyArray, y: AnyArray, norm: float, axis: int) -> Iterator[ErrorPattern]:
    errors = _row_errors(x, y)
    wrong = np.flatnonzero(errors > _MIN_ERROR_RATIO * np.median(errors))
    if not 2 <= wrong.size <= _MAX_WRONG_SHARE * len(x):
        return
    rest = float(np.sqrt(max(errors.sum() - errors[wrong].sum(), 0.0))) / norm
    reason = because("measure.slices_wrong", indices=tuple(wrong.tolist()), extent=len(x), axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.CHANNEL, reason, rest)


def _offsets(x: AnyArray, y: AnyArray, norm: float, axis: int) -> Iterator[ErrorPattern]:
    """A constant for each slice that is added; elements at the ends of the golden range may be clipped."""
    is_free = _is_unclipped(x, y)
    counts = is_free.sum(axis=1)
    if is_free.mean() < _MIN_UNCLIPPED_SHARE:
        return
    used = counts >= _MIN_ELEMENTS_PER_SLICE
    offsets = np.where(is_free, x - y, 0.0).sum(axis=1) / np.maximum(counts, 1)
    predicted = np.clip(y + offsets[:, None], y.min(), y.max()) if not is_free.all() else y + offsets[:, None]
    left = np.where(is_free & used[:, None], x - predicted, 0.0)
    # Noise that the mean of few elements takes off counts as an error again.
    gain = np.sqrt((counts[used] / np.maximum(counts[used] - 1, 1)).max(initial=1.0))
    rest = float(np.linalg.norm(left) * gain) / norm
    ends = float(offsets[used].min(initial=0.0)), float(offsets[used].max(initial=0.0))
    reason = because("measure.slice_offsets", low=ends[0], high=ends[1], axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.BIAS, reason, rest)


def _is_unclipped(x: AnyArray, y: AnyArray) -> AnyArray:
    """Return which elements are inside the ranges of both sides, if many golden elements are at an end of theirs."""
    inside: AnyArray = np.ones(y.shape, bool)
    for end in (y.min(), y.max()):
        if (y == end).mean() > 1 / y.shape[0] / 8 and (y == end).sum() > 2:
            inside &= (y != end) & (x != end)
    return inside


def _factors(x: AnyArray, y: AnyArray, norm: float, axis: int) -> Iterator[ErrorPattern]:
    """A factor for each slice."""
    squares = (y**2).sum(axis=1)
    factors = np.divide((x * y).sum(axis=1), squares, out=np.ones(len(y)), where=squares > 0)
    rest = float(np.linalg.norm(x - factors[:, None] * y)) / norm
    reason = because("measure.slice_factors", low=float(factors.min()), high=float(factors.max()), axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.SCALE, reason, rest)

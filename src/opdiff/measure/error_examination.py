"""Facts about the errors of one tensor that need its elements: how many carry them, where they are, and in which order.

Errors are relative to the Euclidean norm of the golden tensor. Elements that are not finite are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.error_facts import ErrorFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

# Share of the squared error that the carriers have.
_CARRIED_SHARE = 0.99
# Axes with fewer indices tell nothing about the location of an error.
_MIN_EXTENT = 3
_NOWHERE = -1, 0, 0, 0.0, 0.0
# The error of a sample is that of the whole tensor, up to this factor; otherwise single elements have most of it.
_MAX_SAMPLE_RATIO = 1.5


def measure_error_facts(row: int, target: AnyArray, golden: AnyArray) -> ErrorFacts | None:
    """Return the facts about two tensors of equal shape; `None` if there is no finite error."""
    x, y = (array.astype(np.float64) for array in (target, golden))
    is_finite = np.isfinite(x) & np.isfinite(y)
    # Scaled first: squares of very large values are no float64.
    largest = max(float(np.abs(each, where=is_finite, out=np.zeros_like(each)).max(initial=0.0)) for each in (x, y))
    if not largest:
        return None
    x, y = (np.where(is_finite, each, 0.0) / largest for each in (x, y))
    norm = float(np.linalg.norm(y))
    scale = float(np.abs(x - y).max(initial=0.0))
    if not scale or not norm:
        return None
    squares: AnyArray = ((x - y) / scale) ** 2
    descending = np.sort(squares, axis=None)[::-1]
    sums = np.cumsum(descending)
    carriers = int(np.searchsorted(sums, _CARRIED_SHARE * sums[-1])) + 1
    rest = scale * float(np.sqrt(descending[carriers:].sum())) / norm
    sorted_error = float(np.linalg.norm(np.sort(x, axis=None) - np.sort(y, axis=None))) / norm
    return ErrorFacts(row, int(is_finite.sum()), carriers, rest, sorted_error, *_worst_slice(squares, y / norm))


def measure_sampled_facts(
    row: int, target: AnyArray, golden: AnyArray, coordinates: Sequence[AnyArray], shape: Shape, error: float
) -> ErrorFacts | None:
    """Return the facts about a sample of the elements of two tensors; `None` if it does not represent them.

    Args:
        row: number of the tensors' row.
        target: target values of the sample.
        golden: golden values of the sample.
        coordinates: coordinates of the sample, one array for each axis.
        shape: the shape of the whole tensors.
        error: the relative error of the whole tensors.
    """
    x, y = (array.astype(np.float64) for array in (target, golden))
    with np.errstate(all="ignore"):
        norm, distance = float(np.linalg.norm(y)), float(np.linalg.norm(x - y))
    # Also false for values that are not finite, or whose squares are not.
    if not (norm > 0 and 1 / _MAX_SAMPLE_RATIO <= distance / norm / error <= _MAX_SAMPLE_RATIO):
        return None
    squares, golden_squares = (x - y) ** 2, y**2
    sums = np.cumsum(np.sort(squares)[::-1])
    carriers = int(np.searchsorted(sums, _CARRIED_SHARE * sums[-1])) + 1
    worst = _NOWHERE
    for axis, (extent, places) in enumerate(zip(shape, coordinates, strict=True)):
        shares = np.bincount(places, squares, extent) / squares.sum()
        index = int(shares.argmax())
        if extent >= _MIN_EXTENT and shares[index] > worst[3]:
            golden_share = golden_squares[places == index].sum() / golden_squares.sum()
            worst = axis, extent, index, float(shares[index]), float(golden_share)
    return ErrorFacts(row, x.size, carriers, 0.0, 0.0, *worst, is_sample=True)


def _worst_slice(squares: AnyArray, golden: AnyArray) -> tuple[int, int, int, float, float]:
    """Return axis, extent and index of the slice with the largest share of the error, this share and the golden one."""
    worst = _NOWHERE
    for axis, extent in enumerate(squares.shape):
        if extent < _MIN_EXTENT:
            continue
        others = tuple(each for each in range(squares.ndim) if each != axis)
        shares = squares.sum(axis=others) / squares.sum()
        index = int(shares.argmax())
        if shares[index] > worst[3]:
            whole = (golden**2).sum(axis=others)
            worst = axis, extent, index, float(shares[index]), float(whole[index] / whole.sum())
    return worst

"""Elements of a tensor that deviate more than others, counted in the histogram of relative errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from opdiff.core.metrics import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.judge.error_magnitude import ErrorMagnitude

# Lower edge of the third bin and ratio of neighbouring edges, as powers of 2; see `Metrics.relative_histogram`.
_FIRST_EDGE_POWER, _EDGE_STEP_POWER = -27, 2
# An element deviates if its relative error is this many times the expected error, or above the second limit.
_DEVIATION_FACTOR = 16.0
_DEVIATION_LIMIT = 0.25
_MIN_ELEMENTS_PER_CHANNEL = 3
# Share of elements below a fraction of the tensor's norm, divided by that fraction.
_NEAR_ZERO_DENSITY = 0.8


class DeviatingElements(Struct, frozen=True):
    """Number and possible location of the deviating elements.

    Attributes:
        count: number of deviating elements.
        share: their share of all elements.
        axis: axis of which one slice has about as many elements; `None` if there is none.
        extent: extent of that axis.
        effective_share: share of the elements that would carry the whole error if each were as wrong as the worst.
    """

    count: int
    share: float
    axis: int | None = None
    extent: int = 0
    effective_share: float = 1.0


def deviating_elements(
    metrics: Metrics, magnitude: ErrorMagnitude, shape: Shape, expected_error: float
) -> DeviatingElements:
    """Return the deviating elements of a tensor whose operator has this expected relative error."""
    bins = metrics.relative_histogram
    if not bins or not metrics.count:
        return DeviatingElements(0, 0.0)
    edge, first = 2.0**_FIRST_EDGE_POWER, 2
    while edge < min(_DEVIATION_FACTOR * expected_error, _DEVIATION_LIMIT) and first < len(bins):
        edge *= 2.0**_EDGE_STEP_POWER
        first += 1
    # Expected errors are large relative to the elements that are nearly zero.
    near_zero = int(_NEAR_ZERO_DENSITY * metrics.count * expected_error / edge)
    count = max(sum(bins[first:]) - near_zero, 0)
    effective_share = min(magnitude.rms_error / magnitude.peak, 1.0) ** 2 if magnitude.peak else 1.0
    channel = _find_channel(count, metrics.count, shape)
    return DeviatingElements(count, count / metrics.count, *channel, effective_share)


def _find_channel(count: int, total: int, shape: Shape) -> tuple[int | None, int]:
    """Return the axis of which one slice has about `count` elements, and its extent.

    Channels are the second of four axes; of other shapes all axes are tried, the last one first.
    """
    axes = [1, len(shape) - 1] if len(shape) >= 4 else list(range(len(shape) - 1, -1, -1))
    for axis in axes:
        extent = shape[axis]
        if extent < 3 or extent * _MIN_ELEMENTS_PER_CHANNEL > total:
            continue
        slices = count * extent / total
        if 0.5 <= slices <= 1.3:
            return axis, extent
    return None, 0

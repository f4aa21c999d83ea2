"""How the errors of a tensor are spread over its elements, by the histogram of relative errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.core.metrics import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.judge.tensor_facts import Size

# The lower edges of the bins from the third on; see `Metrics.relative_histogram`.
_FIRST_POWER, _STEP = -27, 2
# An element is off when its relative error is so many times what is usual.
_CLEARLY = 16.0
_MUCH = 0.25
_FEWEST_IN_CHANNEL = 3
# How many elements of a tensor are smaller than a part of its norm, beside that part.
_NEAR_ZERO = 0.8


class Spread(NamedTuple):
    """How many elements are clearly off, and where they may be.

    Attributes:
        off: how many.
        share: the part of all elements that they are.
        axis: an axis of which one place has about as many elements; `None` when there is none.
        extent: of that axis.
        weight: the part of all elements that would have the whole error, were they all off by as much as the worst.
    """

    off: int
    share: float
    axis: int | None = None
    extent: int = 0
    weight: float = 1.0


def spread_of(metrics: Metrics, size: Size, shape: Shape, usual: float) -> Spread:
    """The spread of errors over a tensor; `usual` is the relative error that its operator must have."""
    bins = metrics.relative_histogram
    if not bins or not metrics.count:
        return Spread(0, 0.0)
    edge, first = 2.0**_FIRST_POWER, 2
    while edge < min(_CLEARLY * usual, _MUCH) and first < len(bins):
        edge *= 2.0**_STEP
        first += 1
    # Some elements are nearly zero, and usual errors are large beside them.
    off = max(sum(bins[first:]) - int(_NEAR_ZERO * metrics.count * usual / edge), 0)
    weight = min((size.absolute / size.peak) ** 2, 1.0) if size.peak else 1.0
    return Spread(off, off / metrics.count, *_channel(off, metrics.count, shape), weight)


def _channel(off: int, count: int, shape: Shape) -> tuple[int | None, int]:
    """The axis of channels (the second of four, else the last), if one channel has about as many elements."""
    axes = [1, len(shape) - 1] if len(shape) >= 4 else list(range(len(shape) - 1, -1, -1))
    for axis in axes:
        extent = shape[axis]
        if extent < 3 or extent * _FEWEST_IN_CHANNEL > count:
            continue
        part = off * extent / count
        if 0.5 <= part <= 1.3:
            return axis, extent
    return None, 0

"""Values for the search of a cause: the bad tensor, its deviating elements, the comparison it is part of, the cause."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.judge.error_budget import is_quantized
from opdiff.judge.network import MIN_ELEMENTS_FOR_CONTENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import ErrorKind, Verdict
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.judge.network import Network
    from opdiff.judge.tensor_errors import ErrorMagnitude
    from opdiff.judge.tensor_verdicts import CreatedError

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


class Cause(Struct, frozen=True):
    """A kind of error and the evidence for it."""

    kind: ErrorKind
    evidence: tuple[Reason, ...]


class CauseContext(Struct, frozen=True):
    """The comparison in which causes are searched.

    Attributes:
        rows: all rows.
        network: network of the target.
        verdicts: verdict of each row.
        by_content: indices of the rows with equal statistics, by their statistics.
        facts: facts about the elements of tensors, by index of the row.
    """

    rows: Sequence[Row]
    network: Network
    verdicts: Sequence[Verdict]
    by_content: dict[tuple[object, ...], list[int]]
    facts: dict[int, ErrorFacts]


class Case(Struct, frozen=True):
    """One tensor with an error, and the elements that deviate."""

    created: CreatedError
    metrics: Metrics
    row: Row
    deviating: DeviatingElements
    context: CauseContext

    @property
    def magnitude(self) -> ErrorMagnitude:
        """Magnitude of the error."""
        return self.created.magnitude

    @property
    def facts(self) -> ErrorFacts | None:
        """Facts about the elements of the tensor; `None` if they were not examined."""
        return self.context.facts.get(self.created.row_index)

    @property
    def is_quantized(self) -> bool:
        """Whether the operator works on quantized values."""
        return is_quantized(self.created.operator, self.context.rows, self.created.inputs)


def cause_context(
    rows: Sequence[Row], network: Network, verdicts: Sequence[Verdict], facts: Sequence[ErrorFacts] = ()
) -> CauseContext:
    """Return the context of a comparison; tensors of equal content are found by their statistics."""
    by_content: dict[tuple[object, ...], list[int]] = {}
    for row_index, row in enumerate(rows):
        content = content_of(row)
        if content is not None:
            by_content.setdefault(content, []).append(row_index)
    return CauseContext(rows, network, verdicts, by_content, {each.row: each for each in facts})


def content_of(row: Row) -> tuple[object, ...] | None:
    """Return statistics that only tensors of equal content share."""
    metrics = row.metrics
    if metrics is None or not metrics.target_std or not isfinite(metrics.target_std):
        return None
    if metrics.count < MIN_ELEMENTS_FOR_CONTENT:
        return None
    return metrics.count, metrics.target_mean, metrics.target_std, metrics.target_min, metrics.target_max

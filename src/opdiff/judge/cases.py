"""One bad tensor as a case: the comparison it is part of, its deviating elements, and the causes that they show.

Causes that metrics and the graph show are in `causes`.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.judge.error_budget import is_quantized
from opdiff.judge.network import MIN_ELEMENTS_FOR_CONTENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.error_facts import ErrorFacts, ErrorPattern
    from opdiff.core.judgement import Verdict
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Fact, Reason
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
# Limits of `DeviatingElements.effective_share`: of errors in one channel, and of errors in a few elements.
_MAX_CHANNEL_SHARE = 0.03
_MAX_OUTLIER_SHARE = 0.004
# In small tensors a few elements are a larger share: at most the first number of at least the second.
_MAX_OUTLIERS = 3.5
_MIN_ELEMENTS_FOR_OUTLIERS = 12
# Deviating elements for each element that carries the error, at most.
_MAX_DEVIATING_RATIO = 8
# The error is in one slice if the slice has the first share of the error, more than the second share of its elements
# deviates, and the slice does not have most of the golden tensor, too.
_MIN_SLICE_SHARE = 0.9
_MIN_CARRIERS_OF_SLICE = 0.25
_MAX_GOLDEN_SHARE = 0.5
# A pattern explains an error if no more than noise, or than this share of the error, remains.
_MAX_REMAINDER = 0.1
# Means of bins describe a function coarsely.
_MAX_FUNCTION_REMAINDER = 0.45
# A simpler pattern is preferred to a pattern that leaves less of the error, up to this factor.
_PREFERENCE = 1.5


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
    """A kind of error and the evidence for it; `exceeds_type` as in `Finding`."""

    kind: ErrorKind
    evidence: tuple[Reason, ...]
    exceeds_type: bool = False


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


def one_channel(case: Case) -> Cause | None:
    """The elements of one slice deviate, and hardly any others."""
    facts = case.facts
    # Values are quantized by channel, so a bad channel of a quantized operator is a matter of quantization.
    if facts is None or case.is_quantized or not is_in_slice(facts):
        return None
    located: dict[str, Fact] = {"share": facts.slice_share, "index": facts.index, "axis": facts.axis}
    channel = because("judge.in_slice", extent=facts.extent, **located)
    sample = (because("judge.by_sample", count=facts.count, total=case.metrics.count),) if facts.is_sample else ()
    return Cause(ErrorKind.CHANNEL, (channel, *sample, _worst_element(case)))


def is_in_slice(facts: ErrorFacts) -> bool:
    """Return whether the error is in one slice."""
    if facts.slice_share < _MIN_SLICE_SHARE or facts.golden_share > _MAX_GOLDEN_SHARE:
        return False
    return facts.carriers > max(_MAX_OUTLIERS, _MIN_CARRIERS_OF_SLICE * facts.count / facts.extent)


def few_elements(case: Case) -> Cause | None:
    """A few elements carry the error, and all others are within the budget."""
    facts, count, budget = case.facts, case.metrics.count, case.created.budget
    if count < _MIN_ELEMENTS_FOR_OUTLIERS:
        return None
    if facts is None or facts.is_sample:
        return _few_by_metrics(case)
    is_far = case.magnitude.error > 4 * budget.allowed
    is_few = facts.carriers <= _MAX_OUTLIER_SHARE * count or (facts.carriers <= _MAX_OUTLIERS and is_far)
    if not is_few or facts.rest > budget.allowed:
        return None
    few = because("judge.few_carry", count=facts.carriers, total=count)
    return Cause(ErrorKind.OUTLIERS, (few, because("judge.others_error", rest=facts.rest), _worst_element(case)))


def _worst_element(case: Case) -> Reason:
    return because("judge.worst_element", target=case.metrics.worst_target, golden=case.metrics.worst_golden)


def _few_by_metrics(case: Case) -> Cause | None:
    """Few elements, or as many as a channel has, deviate by the metrics alone."""
    deviating, count = case.deviating, case.metrics.count
    carriers = deviating.effective_share * count
    is_far = case.magnitude.error > 4 * case.created.budget.allowed
    is_few = deviating.effective_share <= _MAX_OUTLIER_SHARE or (carriers <= _MAX_OUTLIERS and is_far)
    if is_few and deviating.count <= _MAX_DEVIATING_RATIO * max(carriers, 1.0):
        few = because("judge.few_elements", count=max(round(carriers), 1), total=count)
        return Cause(ErrorKind.OUTLIERS, (few, _worst_element(case)))
    if deviating.axis is None or deviating.effective_share > _MAX_CHANNEL_SHARE or case.is_quantized:
        return None
    off = because("judge.deviating_elements", count=deviating.count, total=count, share=deviating.share)
    channel = because("judge.one_channel", extent=deviating.extent, axis=deviating.axis)
    return Cause(ErrorKind.CHANNEL, (off, channel, _worst_element(case)))


def wrong_computation(case: Case) -> Cause | None:
    """A wrong computation explains all of the error but noise."""
    found = [pattern for pattern in case.facts.patterns if _explains(pattern, case)] if case.facts else []
    if not found:
        return None
    least = min(pattern.rest for pattern in found)
    best = next(pattern for pattern in found if pattern.rest <= _PREFERENCE * least)
    rest = because("judge.pattern_rest", error=case.magnitude.error, rest=best.rest)
    return Cause(best.kind, (best.reason, rest))


def _explains(pattern: ErrorPattern, case: Case) -> bool:
    error = case.magnitude.error
    if pattern.kind is ErrorKind.FUNCTION:
        return not case.is_quantized and pattern.rest <= _MAX_FUNCTION_REMAINDER * error
    allowed = max(case.created.budget.unavoidable, _MAX_REMAINDER * error)
    return pattern.rest <= min(allowed, error / 2)

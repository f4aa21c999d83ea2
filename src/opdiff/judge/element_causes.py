"""Causes that the elements of a tensor show: a wrong computation, a wrong channel, a few wrong elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.judge.cases import Cause

if TYPE_CHECKING:
    from opdiff.core.error_facts import ErrorFacts, ErrorPattern
    from opdiff.core.reasons import Fact, Reason
    from opdiff.judge.cases import Case

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

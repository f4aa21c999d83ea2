"""The step of a chain that lost the accuracy: quantization, conversion, fusion, another version or processor.

comparisons of neighbours, and of each stage with the first ──► StepVerdict, … ──► the step that lost most
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from opdiff.core.judgement import Agreement, ErrorKind, Origin, Outcome
from opdiff.core.stages import ChainVerdict, Loss, StepVerdict
from opdiff.judge.step_advice import ChainFacts, chain_advice, possible_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement
    from opdiff.core.stages import Change, Stage, Step

# An accumulated error must be this many times the error of an operator at fault to be the greater problem.
_MIN_RATIO_TO_FAULT = 3.0
# A step that loses accuracy multiplies the error since the first stage by this factor, at least.
_MIN_GROWTH = 2.0
_BAD_AGREEMENTS = (Agreement.SLIGHT, Agreement.SIGNIFICANT)


def judge_chain(stages: Sequence[Stage], steps: Sequence[Step], totals: Sequence[Step]) -> ChainVerdict:
    """Return which step lost the accuracy; `totals` compare the third and all later stages with the first one."""
    whole = (steps[0], *totals)
    own = [_seen(step.comparison, step.changes) for step in steps]
    verdicts = tuple(_with_totals(number, steps, whole, own) for number in range(len(steps)))
    culprit = _culprit(steps, verdicts, whole)
    advice = chain_advice(ChainFacts(stages, steps, whole, verdicts, culprit))
    return ChainVerdict(_outcome(steps, verdicts), verdicts, culprit, advice)


def step_loss(judgement: Judgement) -> Loss:
    """Return the kind of loss that a comparison shows."""
    if judgement.misfit is not None:
        return Loss.UNKNOWN
    if judgement.findings:
        is_input = judgement.findings[0].kind is ErrorKind.INPUT
        return Loss.INPUT if is_input else Loss.NODE
    is_accumulated = any(verdict.origin is Origin.ACCUMULATED for verdict in judgement.verdicts)
    if is_accumulated or judgement.outputs.agreement in _BAD_AGREEMENTS:
        return Loss.ACCUMULATED
    return Loss.NONE if judgement.outcome is Outcome.CLEAN or _are_outputs_seen(judgement) else Loss.UNKNOWN


def _are_outputs_seen(judgement: Judgement) -> bool:
    """Return whether all operators lead to tensors that were compared, and the outputs agree.

    Many operators of a quantized model have no counterpart, but their errors would show in operators that follow.
    """
    coverage = judgement.coverage
    is_data = coverage.compared > 0 and coverage.statistics <= coverage.data and not coverage.checksums
    return is_data and not coverage.unseen and judgement.outputs.agreement is Agreement.MATCH


def output_error(step: Step) -> float:
    """Return the relative error of the model's worst output; 0 if it is unknown."""
    error = step.comparison.judgement.outputs.error if step.comparison else None
    return error or 0.0


def _with_totals(number: int, steps: Sequence[Step], whole: Sequence[Step], own: Sequence[StepVerdict]) -> StepVerdict:
    """Return the verdict for a step; if the step was not compared, by comparisons with the first stage.

    A loss between the first and a later stage belongs to the step if nothing was lost before and after the step.
    """
    if own[number].loss is not Loss.UNKNOWN or (number and not _is_match(whole[number - 1])):
        return own[number]
    for later in range(number, len(steps)):
        if later > number and own[later].loss is not Loss.NONE:
            break
        found = _seen(whole[later].comparison, steps[number].changes)
        has_grown = not number or output_error(whole[later]) > _MIN_GROWTH * output_error(whole[number - 1])
        if found.loss is Loss.NONE or (found.loss in (Loss.NODE, Loss.ACCUMULATED) and has_grown):
            return found._replace(shown_by=later + 1)
    return own[number]


def _is_match(step: Step) -> bool:
    """Return whether nothing was lost up to this stage."""
    return step.comparison is not None and step_loss(step.comparison.judgement) is Loss.NONE


def _seen(comparison: Comparison | None, changes: tuple[Change, ...]) -> StepVerdict:
    """Return the verdict that a comparison shows."""
    if comparison is None:
        return StepVerdict(Loss.UNKNOWN, changes)
    judgement = comparison.judgement
    finding = judgement.findings[0] if judgement.findings else None
    nodes = comparison.graphs[0].nodes if comparison.graphs else ()
    possible = possible_changes(changes, finding, nodes) if finding else changes
    return StepVerdict(step_loss(judgement), possible, finding)


def _culprit(steps: Sequence[Step], verdicts: Sequence[StepVerdict], whole: Sequence[Step]) -> int | None:
    """Return the step that lost most: by operators at fault, unless accumulated errors are much larger."""

    def error(number: int) -> float:
        shown_by = verdicts[number].shown_by
        return output_error(steps[number] if shown_by is None else whole[shown_by - 1])

    lost = {loss: [number for number, each in enumerate(verdicts) if each.loss is loss] for loss in Loss}
    if lost[Loss.INPUT]:
        return lost[Loss.INPUT][0]
    at_fault = max(lost[Loss.NODE], key=error, default=None)
    accumulated = max(lost[Loss.ACCUMULATED], key=error, default=None)
    if at_fault is None or accumulated is None:
        return accumulated if at_fault is None else at_fault
    fault_error = error(at_fault)
    is_larger = fault_error < inf and error(accumulated) > _MIN_RATIO_TO_FAULT * fault_error
    return accumulated if is_larger else at_fault


def _outcome(steps: Sequence[Step], verdicts: Sequence[StepVerdict]) -> Outcome:
    """Return the worst outcome of the steps; unsure if nothing is bad and a step was not compared."""
    found = {step.comparison.judgement.outcome for step in steps if step.comparison is not None}
    losses = {verdict.loss for verdict in verdicts}
    if Outcome.WRONG in found:
        return Outcome.WRONG
    if Outcome.SUSPICIOUS in found or losses & {Loss.NODE, Loss.ACCUMULATED, Loss.INPUT}:
        return Outcome.SUSPICIOUS
    return Outcome.UNSURE if Loss.UNKNOWN in losses else Outcome.CLEAN

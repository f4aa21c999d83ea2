"""The step of a chain that lost the accuracy: quantization, conversion, fusion, another version or processor.

comparisons of neighbours, and of each stage with the first ──► StepVerdict, … ──► the step that lost most ──► advice
"""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import next_command
from opdiff.core.judgement import MIN_COVERAGE, Agreement, ErrorKind, Origin, Outcome
from opdiff.core.reasons import Reason, because
from opdiff.core.stages import ChainVerdict, Change, Loss, StepVerdict
from opdiff.judge.advice import fault_sentence, remedy_sentence
from opdiff.judge.error_model import is_quantizing
from opdiff.judge.remedies import FUSION_OFF_FILE, FUSION_SWITCH, end_layers, fusion_off_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison, GraphNode
    from opdiff.core.judgement import Finding, Judgement, ModelOutputs
    from opdiff.core.stages import Stage, Step

# An accumulated error must be this many times the error of an operator at fault to be the greater problem.
_MIN_RATIO_TO_FAULT = 3.0
# A step that loses accuracy multiplies the error since the first stage by this factor, at least.
_MIN_GROWTH = 2.0
_BAD_AGREEMENTS = (Agreement.SLIGHT, Agreement.SIGNIFICANT)
# Kinds of error that quantized values cannot have because they are quantized.
_NOT_BY_QUANTIZATION = frozenset({
    ErrorKind.OVERFLOW, ErrorKind.PERMUTED, ErrorKind.MEMORY, ErrorKind.OPERAND, ErrorKind.INDICES,
})  # fmt: skip
# Errors of steps that add up give a total between these factors of the largest step and of the sum.
_MIN_SHARE_OF_LARGEST, _MAX_RATIO_TO_SUM = 0.5, 1.5
# Smaller errors of outputs are rounding.
_MIN_ERROR = 1.5e-3
_LOST = (Loss.NODE, Loss.ACCUMULATED)


def judge_chain(stages: Sequence[Stage], steps: Sequence[Step], totals: Sequence[Step]) -> ChainVerdict:
    """Return which step lost the accuracy; `totals` compare the third and all later stages with the first one."""
    whole = (steps[0], *totals)
    own = [_seen(step.comparison, step.changes) for step in steps]
    verdicts = tuple(_with_totals(number, steps, whole, own) for number in range(len(steps)))
    culprit = _culprit(steps, verdicts, whole)
    advice = _sentences(_ChainFacts(stages, steps, whole, verdicts, culprit))
    return ChainVerdict(_outcome(steps, verdicts), verdicts, culprit, tuple(advice))


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


def _output_error(step: Step) -> float:
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
        has_grown = not number or _output_error(whole[later]) > _MIN_GROWTH * _output_error(whole[number - 1])
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
    possible = possible_changes(changes, finding, _nodes(comparison)) if finding else changes
    return StepVerdict(step_loss(judgement), possible, finding)


def _nodes(comparison: Comparison | None) -> Sequence[GraphNode]:
    return comparison.graphs[0].nodes if comparison and comparison.graphs else ()


def _culprit(steps: Sequence[Step], verdicts: Sequence[StepVerdict], whole: Sequence[Step]) -> int | None:
    """Return the step that lost most: by operators at fault, unless accumulated errors are much larger."""

    def error(number: int) -> float:
        shown_by = verdicts[number].shown_by
        return _output_error(steps[number] if shown_by is None else whole[shown_by - 1])

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


# Changes that can cause an error, by its kind and its operator


def possible_changes(changes: tuple[Change, ...], finding: Finding, nodes: Sequence[GraphNode]) -> tuple[Change, ...]:
    """Return the changes that can cause a finding.

    Fusion of other operators changes memory and layouts, so that fusion may be the cause for any operator.
    """
    if len(changes) < 2:
        return changes
    is_known = any(node.name == finding.operator for node in nodes)
    if finding.kind in _NOT_BY_QUANTIZATION or (is_known and not _is_on_quantized_values(finding, nodes)):
        return tuple(change for change in changes if change is not Change.QUANTIZATION)
    return changes


def is_not_fused(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault is known to be compiled from one original, without a fusion pass."""
    node = next((node for node in nodes if node.name == finding.operator), None)
    if node is None or finding.before:
        return False
    return not (len(node.originals) > 1 or node.passes or node.buffer_passes)


def _is_on_quantized_values(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault, a producer, or an uncompared operator before it quantizes or dequantizes."""
    by_name = {node.name: node for node in nodes}
    inputs = by_name[finding.operator].inputs if finding.operator in by_name else ()
    names = (finding.operator, *finding.before, *(text.rpartition(":")[0] for text in inputs))
    return any(_is_quantizing(by_name[name]) for name in names if name in by_name)


def _is_quantizing(node: GraphNode) -> bool:
    return is_quantizing(node.op_type) or any("quant" in name.lower() for name in (node.name, *node.originals))


# The result in sentences


class _ChainFacts(NamedTuple):
    """Facts of which the sentences speak; `whole` are the comparisons of every stage with the first one."""

    stages: Sequence[Stage]
    steps: Sequence[Step]
    whole: Sequence[Step]
    verdicts: Sequence[StepVerdict]
    culprit: int | None

    def shown(self, number: int) -> Comparison | None:
        """Return the comparison that shows what a step lost."""
        shown_by = self.verdicts[number].shown_by
        return (self.steps[number] if shown_by is None else self.whole[shown_by - 1]).comparison

    def outputs(self, number: int) -> ModelOutputs | None:
        """Return the agreement of the model's outputs before and after a step."""
        comparison = self.shown(number)
        return comparison.judgement.outputs if comparison else None


def _named_changes(changes: Sequence[Change]) -> Reason:
    """Return the names of changes, one of which is meant."""
    names = [Reason(f"stages.change_{change}") for change in changes]
    return reduce(lambda first, second: because("stages.either", first=first, second=second), names)


def _sentences(facts: _ChainFacts) -> Iterator[Reason]:
    """Yield the result and the advice, the most important sentence first."""
    if facts.culprit is None:
        yield _nothing_lost(facts)
    elif facts.verdicts[facts.culprit].loss is Loss.INPUT:
        yield because("stages.inputs_differ", **_numbers(facts, facts.culprit))
    else:
        yield from _lost(facts, facts.culprit)
    yield from _others(facts)
    yield from _unknown(facts)
    yield from _sums(facts)
    if facts.culprit is not None and facts.verdicts[facts.culprit].loss in _LOST:
        yield from _advice(facts, facts.culprit)


def _numbers(facts: _ChainFacts, number: int) -> dict[str, int]:
    """Return the numbers of the stages of a step, from 1."""
    return {"golden": facts.steps[number].golden + 1, "target": facts.steps[number].target + 1}


def _step_facts(facts: _ChainFacts, number: int) -> dict[str, Reason | int]:
    return {"step": _named_changes(facts.verdicts[number].changes), **_numbers(facts, number)}


def _nothing_lost(facts: _ChainFacts) -> Reason:
    losses = {verdict.loss for verdict in facts.verdicts}
    if losses == {Loss.NONE}:
        return because("stages.nothing_lost", count=len(facts.steps))
    return because("stages.nothing_seen" if Loss.NONE in losses else "stages.nothing_compared")


def _lost(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    """Yield where the accuracy was lost, and the evidence for the loss."""
    verdict, outputs, comparison = facts.verdicts[number], facts.outputs(number), facts.shown(number)
    if comparison is None or outputs is None:
        return
    code = "stages.lost_inside" if outputs.agreement is Agreement.MATCH else "stages.lost"
    yield because(code, **_step_facts(facts, number), numbers=_error(outputs))
    if verdict.shown_by is not None:
        yield because("stages.shown_by_first", **_numbers(facts, number), stage=verdict.shown_by + 1)
    if verdict.finding is not None:
        yield fault_sentence(verdict.finding, outputs)
        yield remedy_sentence(verdict.finding)
    else:
        origins = [each.origin for each in comparison.judgement.verdicts]
        yield because("stages.accumulated", count=origins.count(Origin.ACCUMULATED))


def _error(outputs: ModelOutputs) -> Reason | None:
    """Return the error of the outputs, as far as the error is known."""
    if outputs.error is None:
        return None
    return (
        because("judge.output_infinite") if outputs.error == inf else because("judge.output_error", error=outputs.error)
    )


def _others(facts: _ChainFacts) -> Iterator[Reason]:
    """Yield the other steps that lost accuracy."""
    for number, verdict in enumerate(facts.verdicts):
        outputs = facts.outputs(number)
        if number == facts.culprit or verdict.loss not in _LOST or outputs is None:
            continue
        shown = {**_step_facts(facts, number), "numbers": _error(outputs)}
        if verdict.finding is None:
            yield because("stages.also_accumulated", **shown)
        else:
            kind = Reason(f"judge.kind_{verdict.finding.kind}")
            yield because("stages.also_lost", **shown, operator=verdict.finding.operator, kind=kind)


def _unknown(facts: _ChainFacts) -> Iterator[Reason]:
    """Yield the steps that were not compared, or only in small part: the accuracy may have been lost there."""
    code = "stages.may_hold_more" if facts.culprit is not None else "stages.may_hold"
    for number, (step, verdict) in enumerate(zip(facts.steps, facts.verdicts, strict=True)):
        if verdict.loss is not Loss.UNKNOWN and verdict.shown_by is None:
            yield from _little(facts, number)
            continue
        possible = Reason(code) if verdict.shown_by is None else None
        if verdict.loss is Loss.NONE and verdict.shown_by is not None:
            possible = because("stages.not_lost", stage=verdict.shown_by + 1)
        shown = _step_facts(facts, number) | {"possible": possible}
        if step.comparison is None:
            yield because("stages.not_compared", **shown, problem=step.problem)
            continue
        judgement = step.comparison.judgement
        if judgement.misfit is not None:
            command = judgement.misfit.fact("command")
            yield because("stages.not_judged", **shown, problem=judgement.misfit, command=command)
            continue
        counts = {"compared": judgement.coverage.compared, "operators": judgement.coverage.operators}
        yield because("stages.too_little", **shown, **counts)


def _little(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    """Yield that little of a step was compared, although its outputs agree."""
    comparison = facts.steps[number].comparison
    coverage = comparison.judgement.coverage if comparison else None
    if coverage and coverage.share < MIN_COVERAGE and facts.verdicts[number].loss is Loss.NONE:
        counts = {"compared": coverage.compared, "operators": coverage.operators}
        yield because("stages.little_compared", **_step_facts(facts, number), **counts)


def _sums(facts: _ChainFacts) -> Iterator[Reason]:
    """Yield that the errors of the steps do not add up to the error of the whole chain."""
    errors = [step.comparison.judgement.outputs.error if step.comparison else None for step in facts.steps]
    last = facts.whole[-1].comparison
    total = last.judgement.outputs.error if last else None
    known = [error for error in errors if error is not None]
    if len(facts.steps) < 2 or total is None or len(known) < len(errors) or max(known) in (0.0, inf) or total == inf:
        return
    largest = max(known)
    if total < _MIN_SHARE_OF_LARGEST * largest and largest > _MIN_ERROR:
        number = errors.index(largest)
        yield because("stages.errors_cancel", **_step_facts(facts, number), total=total, largest=largest)
    elif total > _MAX_RATIO_TO_SUM * sum(known) and total > _MIN_ERROR:
        yield because("stages.errors_exceed_sum", total=total, sum=sum(known))


# Documented advice for each step


def _advice(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    changes = facts.verdicts[number].changes
    yield from _separation(facts, number)
    if Change.QUANTIZATION in changes:
        yield from _quantization(facts, number)
    if changes == (Change.CONVERSION,):
        yield from _conversion(facts, number)
    if changes == (Change.FUSION,):
        yield because("stages.advice_fusion", file=FUSION_SWITCH, all_off=FUSION_OFF_FILE)
    if Change.VERSION in changes or Change.PROCESSOR in changes:
        yield because("stages.advice_environment")
    if Change.PROCESSOR in changes:
        yield because("stages.advice_processor")


def _separation(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    """Yield which run is missing to tell several changes apart."""
    verdict, step = facts.verdicts[number], facts.steps[number]
    target = facts.stages[step.target]
    if len(verdict.changes) > 1:
        yield because("stages.not_separated", changes=_named_changes(verdict.changes))
        finding, comparison = verdict.finding, facts.shown(number)
        if Change.FUSION in verdict.changes and finding and is_not_fused(finding, _nodes(comparison)):
            yield because("stages.not_fused", operator=finding.operator)
    if Change.QUANTIZATION in verdict.changes and len(verdict.changes) > 1:
        yield because("stages.run_quantized")
    if Change.FUSION in verdict.changes and len(verdict.changes) > 1:
        compile_line, json_line = fusion_off_commands(target.origin)
        yield because("stages.run_fusion_off", file=FUSION_OFF_FILE, command=compile_line)
        yield because("stages.then_convert", command=json_line)
    if {Change.VERSION, Change.PROCESSOR} <= set(verdict.changes):
        yield because("stages.say_which")


def _quantization(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    verdict, comparison = facts.verdicts[number], facts.shown(number)
    if verdict.finding is None:
        yield because("stages.advice_quantization_configuration")
    elif verdict.finding.kind is not ErrorKind.QUANTIZATION:
        yield because("stages.advice_quantized_layer")
    layers = end_layers(node for node in _nodes(comparison) if is_quantizing(node.op_type))
    yield because("stages.advice_outer_layers", layers=because("stages.layers", names=layers) if layers else None)
    yield because("stages.advice_calibration")
    yield because("stages.advice_task_accuracy")


def _conversion(facts: _ChainFacts, number: int) -> Iterator[Reason]:
    verdict, comparison = facts.verdicts[number], facts.shown(number)
    is_quantized = facts.stages[facts.steps[number].target].quantized
    layers = comparison.judgement.costly_layers if comparison else ()
    if is_quantized and (verdict.finding is None or layers):
        yield because("stages.advice_accumulated_quantized")
        if layers:
            yield because("stages.advice_costly_layers", layers=layers)
    if verdict.finding is None or comparison is None:
        if not is_quantized:
            yield because("stages.advice_accumulated")
        return
    yield because("stages.advice_single_operator", command=next_command(comparison, verdict.finding))
    on_quantized_values = is_quantized and _is_on_quantized_values(verdict.finding, _nodes(comparison))
    yield because("stages.advice_node_quantized" if on_quantized_values else "stages.advice_node")

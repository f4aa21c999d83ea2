"""The result of a chain of stages in sentences, and the documented advice for the step that lost the accuracy."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.judgement import MIN_COVERAGE, Agreement, ErrorKind, Origin
from opdiff.core.next_command import next_command
from opdiff.core.reasons import Reason, because
from opdiff.core.stages import Change, Loss
from opdiff.judge.advice import fault_sentence, remedy_sentence
from opdiff.judge.error_model import is_quantizing
from opdiff.judge.remedies import FUSION_OFF_FILE, FUSION_SWITCH, end_layers, fusion_off_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison, GraphNode
    from opdiff.core.judgement import Finding, ModelOutputs
    from opdiff.core.stages import Stage, Step, StepVerdict

# Kinds of error that quantized values cannot have because they are quantized.
_NOT_BY_QUANTIZATION = frozenset({
    ErrorKind.OVERFLOW, ErrorKind.PERMUTED, ErrorKind.MEMORY, ErrorKind.OPERAND, ErrorKind.INDICES,
})  # fmt: skip
# Errors of steps that add up give a total between these factors of the largest step and of the sum.
_MIN_SHARE_OF_LARGEST, _MAX_RATIO_TO_SUM = 0.5, 1.5
# Smaller errors of outputs are rounding.
_MIN_ERROR = 1.5e-3
_LOST = (Loss.NODE, Loss.ACCUMULATED)


def possible_changes(changes: tuple[Change, ...], finding: Finding, nodes: Sequence[GraphNode]) -> tuple[Change, ...]:
    """Return the changes that can cause a finding.

    Fusion of other operators changes memory and layouts, so that fusion may be the cause for any operator.
    """
    if len(changes) < 2:
        return changes
    is_known = any(node.name == finding.operator for node in nodes)
    if finding.kind in _NOT_BY_QUANTIZATION or (is_known and not is_on_quantized_values(finding, nodes)):
        return tuple(change for change in changes if change is not Change.QUANTIZATION)
    return changes


def is_not_fused(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault is known to be compiled from one original, without a fusion pass."""
    node = next((node for node in nodes if node.name == finding.operator), None)
    if node is None or finding.before:
        return False
    return not (len(node.originals) > 1 or node.passes or node.buffer_passes)


def is_on_quantized_values(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault, a producer, or an uncompared operator before it quantizes or dequantizes."""
    by_name = {node.name: node for node in nodes}
    inputs = by_name[finding.operator].inputs if finding.operator in by_name else ()
    names = (finding.operator, *finding.before, *(text.rpartition(":")[0] for text in inputs))
    return any(_is_quantizing(by_name[name]) for name in names if name in by_name)


def _is_quantizing(node: GraphNode) -> bool:
    return is_quantizing(node.op_type) or any("quant" in name.lower() for name in (node.name, *node.originals))


class ChainFacts(NamedTuple):
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


def chain_advice(facts: ChainFacts) -> tuple[Reason, ...]:
    """Return the sentences, the most important one first."""
    return tuple(_sentences(facts))


def named_changes(changes: Sequence[Change]) -> Reason:
    """Return the names of changes, one of which is meant."""
    names = [Reason(f"stages.change_{change}") for change in changes]
    return reduce(lambda first, second: because("stages.either", first=first, second=second), names)


def _sentences(facts: ChainFacts) -> Iterator[Reason]:
    if facts.culprit is None:
        yield from _nothing_lost(facts)
    elif facts.verdicts[facts.culprit].loss is Loss.INPUT:
        yield because("stages.inputs_differ", **_numbers(facts, facts.culprit))
    else:
        yield from _lost(facts, facts.culprit)
    yield from _others(facts)
    yield from _unknown(facts)
    yield from _sums(facts)
    if facts.culprit is not None and facts.verdicts[facts.culprit].loss in _LOST:
        yield from _advice(facts, facts.culprit)


def _numbers(facts: ChainFacts, number: int) -> dict[str, int]:
    """Return the numbers of the stages of a step, from 1."""
    return {"golden": facts.steps[number].golden + 1, "target": facts.steps[number].target + 1}


def _step_facts(facts: ChainFacts, number: int) -> dict[str, Reason | int]:
    return {"step": named_changes(facts.verdicts[number].changes), **_numbers(facts, number)}


def _nothing_lost(facts: ChainFacts) -> Iterator[Reason]:
    losses = {verdict.loss for verdict in facts.verdicts}
    if losses == {Loss.NONE}:
        yield because("stages.nothing_lost", count=len(facts.steps))
    elif Loss.NONE in losses:
        yield because("stages.nothing_seen")
    else:
        yield because("stages.nothing_compared")


def _lost(facts: ChainFacts, number: int) -> Iterator[Reason]:
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


def _others(facts: ChainFacts) -> Iterator[Reason]:
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


def _unknown(facts: ChainFacts) -> Iterator[Reason]:
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
        counts = {"compared": judgement.coverage.compared, "operators": judgement.coverage.operators}
        yield because("stages.too_little", **shown, **counts, problem=judgement.misfit)


def _little(facts: ChainFacts, number: int) -> Iterator[Reason]:
    """Yield that little of a step was compared, although its outputs agree."""
    comparison = facts.steps[number].comparison
    coverage = comparison.judgement.coverage if comparison else None
    if coverage and coverage.share < MIN_COVERAGE and facts.verdicts[number].loss is Loss.NONE:
        counts = {"compared": coverage.compared, "operators": coverage.operators}
        yield because("stages.little_compared", **_step_facts(facts, number), **counts)


def _sums(facts: ChainFacts) -> Iterator[Reason]:
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


def _advice(facts: ChainFacts, number: int) -> Iterator[Reason]:
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


def _separation(facts: ChainFacts, number: int) -> Iterator[Reason]:
    """Yield which run is missing to tell several changes apart."""
    verdict, step = facts.verdicts[number], facts.steps[number]
    target = facts.stages[step.target]
    if len(verdict.changes) > 1:
        yield because("stages.not_separated", changes=named_changes(verdict.changes))
        yield from _unlikely_fusion(facts, number)
    if Change.QUANTIZATION in verdict.changes and len(verdict.changes) > 1:
        yield because("stages.run_quantized")
    if Change.FUSION in verdict.changes and len(verdict.changes) > 1:
        compile_line, json_line = fusion_off_commands(target.origin)
        yield because("stages.run_fusion_off", file=FUSION_OFF_FILE, command=compile_line)
        yield because("stages.then_convert", command=json_line)
    if {Change.VERSION, Change.PROCESSOR} <= set(verdict.changes):
        yield because("stages.say_which")


def _unlikely_fusion(facts: ChainFacts, number: int) -> Iterator[Reason]:
    verdict, comparison = facts.verdicts[number], facts.shown(number)
    if Change.FUSION not in verdict.changes or verdict.finding is None or comparison is None:
        return
    if is_not_fused(verdict.finding, comparison.graphs[0].nodes if comparison.graphs else ()):
        yield because("stages.not_fused", operator=verdict.finding.operator)


def _quantization(facts: ChainFacts, number: int) -> Iterator[Reason]:
    verdict, comparison = facts.verdicts[number], facts.shown(number)
    if verdict.finding is None:
        yield because("stages.advice_quantization_configuration")
    elif verdict.finding.kind is not ErrorKind.QUANTIZATION:
        yield because("stages.advice_quantized_layer")
    nodes = comparison.graphs[0].nodes if comparison and comparison.graphs else ()
    layers = end_layers(node for node in nodes if is_quantizing(node.op_type))
    yield because("stages.advice_outer_layers", layers=because("stages.layers", names=layers) if layers else None)
    yield because("stages.advice_calibration")
    yield because("stages.advice_task_accuracy")


def _conversion(facts: ChainFacts, number: int) -> Iterator[Reason]:
    verdict, comparison = facts.verdicts[number], facts.shown(number)
    is_quantized = facts.stages[facts.steps[number].target].quantized
    if verdict.finding is None or comparison is None:
        yield because("stages.advice_accumulated_quantized" if is_quantized else "stages.advice_accumulated")
        return
    yield because("stages.advice_single_operator", command=next_command(comparison, verdict.finding))
    nodes = comparison.graphs[0].nodes if comparison.graphs else ()
    on_quantized_values = is_quantized and is_on_quantized_values(verdict.finding, nodes)
    yield because("stages.advice_node_quantized" if on_quantized_values else "stages.advice_node")

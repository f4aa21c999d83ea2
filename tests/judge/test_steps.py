"""Verdicts for the steps of a chain, by made comparisons."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from opdiff.core.comparison import Comparison, GraphNode, Mode, ModelGraph, Side
from opdiff.core.dump import DumpKind
from opdiff.core.graph import ModelOrigin
from opdiff.core.judgement import (
    Agreement,
    Coverage,
    ErrorKind,
    Finding,
    Judgement,
    Level,
    ModelOutputs,
    Origin,
    Outcome,
    Verdict,
)
from opdiff.core.reasons import because, quoted, render
from opdiff.core.stages import ChainVerdict, Change, Loss, Stage, StageKind, Step
from opdiff.judge.remedies import fusion_off_commands
from opdiff.judge.steps import is_not_fused, judge_chain, possible_changes, step_loss

WHOLE = Coverage(4, 4, 4)
STAGES = tuple(Stage(str(kind), kind, DumpKind.NPU) for kind in StageKind)
CHANGES = (Change.QUANTIZATION, Change.CONVERSION, Change.FUSION)


def finding(kind: ErrorKind = ErrorKind.SCALE, operator: str = "a") -> Finding:
    evidence, remedies = (quoted("evidence"),), (quoted("remedy"),)
    return Finding(operator, "Conv2D", f"{operator}:output:0", Level.WRONG, kind, evidence, remedies)


def judgement(
    error: float | None = 0.0, *found: Finding, origin: Origin = Origin.NONE, coverage: Coverage = WHOLE
) -> Judgement:
    """Return a judgement of a model with this error of its output."""
    is_bad = bool(found) or origin is not Origin.NONE
    verdict = Verdict(Level.WRONG if is_bad else Level.NOISE, quoted("rule"), origin)
    agreement = Agreement.UNKNOWN if error is None else Agreement.SIGNIFICANT if is_bad else Agreement.MATCH
    outputs = ModelOutputs(agreement, "out:output:0", 0.9, error)
    return Judgement("", (verdict,), found, coverage=coverage, outputs=outputs)


def step(number: int, made: Judgement | None, golden: int | None = None, *nodes: GraphNode) -> Step:
    first = number if golden is None else golden
    if made is None:
        return Step(first, number + 1, (CHANGES[number],), problem=quoted("no rules"))
    sides = Side("target", DumpKind.NPU), Side("golden", DumpKind.NPU)
    comparison = Comparison(Mode.OFFLINE, *sides, quoted("scenario"), (), made, graphs=(ModelGraph(nodes),))
    return Step(first, number + 1, (CHANGES[number],), comparison)


def chain_of(*made: Judgement | None, totals: tuple[Judgement | None, ...]) -> ChainVerdict:
    steps = [step(number, each) for number, each in enumerate(made)]
    return judge_chain(STAGES, steps, [step(number, each, 0) for number, each in enumerate(totals, 1)])


GOOD, BAD = judgement(0.001), judgement(0.2, finding())
ACCUMULATED = judgement(0.2, origin=Origin.ACCUMULATED)
UNSEEN = judgement(None, coverage=Coverage(4, 1, 1, unseen=("b",)))


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        (GOOD, Loss.NONE),
        (BAD, Loss.NODE),
        (ACCUMULATED, Loss.ACCUMULATED),
        (judgement(0.3, finding(ErrorKind.INPUT)), Loss.INPUT),
        (UNSEEN, Loss.UNKNOWN),
        (judgement(0.001, coverage=Coverage(9, 1, 1)), Loss.NONE),
        (judgement(0.001, coverage=Coverage(9, 1, 0, 1)), Loss.UNKNOWN),
        (judgement(0.001, coverage=Coverage(9, 1, 0, 0, 1)), Loss.UNKNOWN),
        (replace(GOOD, misfit=because("judge.nothing_compared")), Loss.UNKNOWN),
    ],
)
def test_loss_of_a_step(made: Judgement, loss: Loss) -> None:
    assert step_loss(made) is loss


@pytest.mark.parametrize(
    ("steps", "totals", "culprit", "outcome"),
    [
        pytest.param((GOOD, GOOD, GOOD), (GOOD, GOOD), None, Outcome.CLEAN, id="clean"),
        pytest.param((GOOD, BAD, GOOD), (BAD, BAD), 1, Outcome.WRONG, id="one fault"),
        pytest.param((BAD, judgement(0.3, finding()), GOOD), (BAD, BAD), 1, Outcome.WRONG, id="the larger of two"),
        pytest.param((ACCUMULATED, BAD, GOOD), (BAD, BAD), 1, Outcome.WRONG, id="a fault before accumulated errors"),
        pytest.param(
            (ACCUMULATED, judgement(0.01, finding()), GOOD), (BAD, BAD), 0, Outcome.WRONG, id="accumulated, much larger"
        ),
        pytest.param((BAD, GOOD, judgement(inf, finding())), (BAD, BAD), 2, Outcome.WRONG, id="infinite"),
        pytest.param((GOOD, None, GOOD), (BAD, BAD), 1, Outcome.SUSPICIOUS, id="shown by the first stage"),
        pytest.param((GOOD, None, GOOD), (None, BAD), 1, Outcome.SUSPICIOUS, id="shown by a later stage"),
        pytest.param((GOOD, None, GOOD), (GOOD, GOOD), None, Outcome.CLEAN, id="acquitted by the first stage"),
        pytest.param((GOOD, None, GOOD), (None, None), None, Outcome.UNSURE, id="not compared"),
        pytest.param((GOOD, None, BAD), (None, BAD), 2, Outcome.WRONG, id="not compared, a later fault"),
        pytest.param((None, GOOD, GOOD), (BAD, BAD), 0, Outcome.SUSPICIOUS, id="first step not compared"),
        pytest.param(
            (judgement(0.15), None, GOOD), (BAD, BAD), None, Outcome.UNSURE, id="no larger than the error before it"
        ),
        pytest.param((UNSEEN, UNSEEN, UNSEEN), (UNSEEN, UNSEEN), None, Outcome.UNSURE, id="nothing seen"),
    ],
)
def test_the_step_that_lost_most(
    steps: tuple[Judgement | None, ...],
    totals: tuple[Judgement | None, ...],
    culprit: int | None,
    outcome: Outcome,
) -> None:
    verdict = chain_of(*steps, totals=totals)
    assert (verdict.culprit, verdict.outcome) == (culprit, outcome)


@pytest.mark.parametrize(
    ("steps", "totals", "sentence"),
    [
        ((GOOD, BAD, BAD), (BAD, judgement(0.05, finding())), "A later step cancels a part of it by chance."),
        ((GOOD, BAD, GOOD), (BAD, judgement(0.9, finding())), "all steps together by 0.202"),
        ((GOOD, judgement(0.3, finding(ErrorKind.INPUT)), GOOD), (BAD, BAD), "were run on different inputs"),
        ((GOOD, ACCUMULATED, GOOD), (BAD, BAD), "It is an accumulated error"),
        ((ACCUMULATED, BAD, GOOD), (BAD, BAD), "Also in quantization (stage 1 to 2, relative error 0.2)"),
        ((GOOD, None, BAD), (None, BAD), "could not be compared. It may hold a part of the loss. Reason: no rules"),
        ((ACCUMULATED, GOOD, GOOD), (BAD, BAD), "repeat the quantization with another configuration"),
    ],
)
def test_sentences(steps: tuple[Judgement | None, ...], totals: tuple[Judgement | None, ...], sentence: str) -> None:
    verdict = chain_of(*steps, totals=totals)
    assert sentence in "\n".join(render(each) for each in verdict.advice)


def test_errors_that_add_up_are_not_mentioned() -> None:
    verdict = chain_of(GOOD, BAD, GOOD, totals=(BAD, BAD))
    assert not {"stages.errors_cancel", "stages.errors_exceed_sum"} & {each.code for each in verdict.advice}


QUANT = GraphNode("q", "AscendQuant", ("x:0",), ("q",))
NODES = (
    QUANT,
    GraphNode("a", "Conv2D", ("q:0",), ("a", "r"), buffer_passes=("Pass",)),
    GraphNode("b", "Conv2D", ("q:0",), ("b",)),
    GraphNode("c", "Pooling", ("a:0",), ("c",)),
)


@pytest.mark.parametrize(
    ("operator", "kind", "left"),
    [
        ("a", ErrorKind.SCALE, CHANGES),
        ("a", ErrorKind.QUANTIZATION, CHANGES),
        ("a", ErrorKind.PERMUTED, (Change.CONVERSION, Change.FUSION)),
        ("c", ErrorKind.SCALE, (Change.CONVERSION, Change.FUSION)),
        ("unknown", ErrorKind.SCALE, CHANGES),
    ],
)
def test_changes_that_can_cause_an_error(operator: str, kind: ErrorKind, left: tuple[Change, ...]) -> None:
    assert possible_changes(CHANGES, finding(kind, operator), NODES) == left
    assert possible_changes((Change.QUANTIZATION,), finding(kind, operator), NODES) == (Change.QUANTIZATION,)


@pytest.mark.parametrize(("operator", "is_single"), [("a", False), ("b", True), ("unknown", False)])
def test_operators_that_are_not_fused(operator: str, *, is_single: bool) -> None:
    assert is_not_fused(finding(operator=operator), NODES) is is_single
    assert not is_not_fused(replace(finding(operator=operator), before=("q",)), NODES)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), "--model=MODEL --framework=FRAMEWORK --soc_version=SOC_VERSION"),
        (("atc", "--model=net.onnx", "--framework=5", "--output=net"), "--model=net.onnx --framework=5"),
        (("atc", "--model", "my net.onnx", "--fusion_switch_file", "f.cfg"), "'--model=my net.onnx'"),
    ],
)
def test_commands_of_the_next_conversion(arguments: tuple[str, ...], options: str) -> None:
    assert fusion_off_commands(ModelOrigin(command_line=arguments)) == (
        f"atc {options} --output=fusion_off --fusion_switch_file=fusion_switch_all_off.cfg",
        "atc --mode=1 --om=fusion_off.om --json=fusion_off.json",
    )

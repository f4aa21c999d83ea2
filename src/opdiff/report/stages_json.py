"""The answer about a chain of stages for programs; see docs/commands/stages.md.

The classes are a contract: fields may be added, but none changes its meaning without a new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from opdiff.core.reasons import render
from opdiff.report.answer_json import Coverage, Fault, make_coverage, make_fault, utf8

if TYPE_CHECKING:
    from opdiff.core.stages import Chain, Stage, Step

VERSION = 1


class StageAnswer(msgspec.Struct):
    """A stage; the first one has number 1."""

    number: int
    path: str
    kind: Literal["original", "quantized", "fusion-off", "offline"]
    data: Literal["npu", "npy"]
    quantized: bool
    rules: str | None
    evidence: list[str]


class OutputError(msgspec.Struct):
    """Agreement of the model's outputs, and the worst of them."""

    agreement: Literal["match", "slight", "significant", "unknown"]
    tensor: str | None
    cosine: float | None
    error: float | None


class StepAnswer(msgspec.Struct):
    """A step between two stages."""

    golden: int
    target: int
    changes: list[str]
    loss: Literal["none", "node", "accumulated", "input", "unknown"]
    possible_changes: list[str]
    shown_by: int | None
    problem: str | None
    coverage: Coverage | None
    outputs: OutputError | None
    since_first: OutputError | None
    findings: list[Fault]


class StagesAnswer(msgspec.Struct):
    """The whole document; `culprit` is the position in `steps` of the one that lost most."""

    schema: Literal["opdiff-stages"]
    version: int
    verdict: Literal["clean", "suspicious", "wrong", "unsure"]
    culprit: int | None
    stages: list[StageAnswer]
    steps: list[StepAnswer]
    advice: list[str]
    notes: list[str]


def make_stages_answer(chain: Chain) -> StagesAnswer:
    """Return the answer about a chain."""
    verdict = chain.verdict
    return StagesAnswer(
        schema="opdiff-stages",
        version=VERSION,
        verdict=verdict.outcome.value,
        culprit=verdict.culprit,
        stages=[_stage(number, stage) for number, stage in enumerate(chain.stages, 1)],
        steps=[_step(chain, number) for number in range(len(chain.steps))],
        advice=[utf8(render(sentence)) for sentence in verdict.advice],
        notes=[utf8(render(note)) for note in chain.notes],
    )


def _stage(number: int, stage: Stage) -> StageAnswer:
    evidence = [utf8(render(reason)) for reason in stage.evidence]
    rules = utf8(stage.rules) or None
    return StageAnswer(number, utf8(stage.path), stage.kind.value, stage.data.value, stage.quantized, rules, evidence)


def _step(chain: Chain, number: int) -> StepAnswer:
    step, verdict = chain.steps[number], chain.verdict.steps[number]
    comparison = step.comparison
    return StepAnswer(
        golden=step.golden + 1,
        target=step.target + 1,
        changes=[str(change) for change in step.changes],
        loss=verdict.loss.value,
        possible_changes=[str(change) for change in verdict.changes],
        shown_by=None if verdict.shown_by is None else verdict.shown_by + 1,
        problem=utf8(render(step.problem)) or None,
        coverage=make_coverage(comparison.judgement.coverage) if comparison else None,
        outputs=_outputs(step),
        since_first=_outputs(chain.total(step.target)),
        findings=[make_fault(each, comparison.graphs) for each in comparison.judgement.findings] if comparison else [],
    )


def _outputs(step: Step) -> OutputError | None:
    if step.comparison is None:
        return None
    outputs = step.comparison.judgement.outputs
    return OutputError(outputs.agreement.value, utf8(outputs.tensor) or None, outputs.cosine, outputs.error)

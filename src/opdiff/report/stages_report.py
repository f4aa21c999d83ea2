"""A chain of stages: lines for the terminal, and the answer for programs; see docs/commands/stages.md.

The classes of the answer are a contract: fields may be added, but none changes its meaning without a new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from opdiff.core.judgement import Outcome
from opdiff.core.reasons import Language, Reason, because, render, render_all
from opdiff.core.stages import Loss, StageKind
from opdiff.report.answer_json import Coverage, Fault, make_coverage, make_fault, utf8
from opdiff.report.columns import columns_of, padded
from opdiff.report.summary_text import SummaryLine, Tone, sentence_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.stages import Chain, Stage, Step

VERSION = 1
_TONES = {Outcome.WRONG: Tone.BAD, Outcome.SUSPICIOUS: Tone.WARNING, Outcome.CLEAN: Tone.GOOD}
_COLUMNS = ("step", "outputs", "total", "operators", "result")


def chain_lines(chain: Chain, language: Language = Language.ENGLISH) -> Iterator[SummaryLine]:
    """Yield the lines about a chain."""
    yield from note_lines(chain, language)
    yield SummaryLine(render(because("report.stages_head"), language))
    yield from (SummaryLine(f"  {line}") for line in _stage_lines(chain.stages, language))
    yield SummaryLine(render(because("report.steps_head"), language))
    yield from _step_lines(chain, language)
    yield from verdict_lines(chain, language)
    yield from sentence_lines(chain.verdict.advice[1:], language)


def note_lines(chain: Chain, language: Language = Language.ENGLISH) -> Iterator[SummaryLine]:
    """Yield the remarks about the runs and the limits."""
    yield from sentence_lines(chain.notes, language, Tone.WARNING)


def verdict_lines(chain: Chain, language: Language = Language.ENGLISH) -> Iterator[SummaryLine]:
    """Yield the first sentence of the advice."""
    tone = _TONES.get(chain.verdict.outcome, Tone.WARNING)
    yield from sentence_lines(chain.verdict.advice[:1], language, tone)


def _stage_lines(stages: Sequence[Stage], language: Language) -> Iterator[str]:
    paths = [stage.path for stage in stages]
    width = max(map(len, paths))
    for number, stage in enumerate(stages, 1):
        quantized = stage.quantized and stage.kind is not StageKind.QUANTIZED
        kind = render(Reason(f"stages.kind_{stage.kind}"), language)
        kind += render(because("stages.is_quantized"), language) if quantized else ""
        yield f"{number} {stage.path:{width}}  {kind} ({render_all(stage.evidence, language)})"


def _step_lines(chain: Chain, language: Language) -> Iterator[SummaryLine]:
    rows = [_cells(chain, number, language) for number in range(len(chain.steps))]
    header = tuple(render(Reason(f"stages.column_{name}"), language) for name in _COLUMNS)
    widths = [max(columns_of(row[column]) for row in (header, *rows)) for column in range(len(header))]
    yield SummaryLine("  " + _joined(header, widths), Tone.FAINT)
    for number, row in enumerate(rows):
        is_bad = chain.verdict.steps[number].loss not in (Loss.NONE, Loss.UNKNOWN)
        yield SummaryLine("  " + _joined(row, widths), Tone.BAD if is_bad else Tone.PLAIN)


def _cells(chain: Chain, number: int, language: Language) -> tuple[str, ...]:
    step, verdict = chain.steps[number], chain.verdict.steps[number]
    changes = "+".join(render(Reason(f"stages.short_{change}"), language) for change in step.changes)
    result = render(Reason(f"stages.loss_{verdict.loss}"), language)
    if verdict.finding is not None:
        result += f": {verdict.finding.operator}"
    return (
        f"{step.golden + 1}-{step.target + 1} {changes}",
        _shown_outputs(step, language),
        _shown_outputs(chain.total(step.target), language),
        _shown_coverage(step),
        result,
    )


def _shown_outputs(step: Step, language: Language) -> str:
    """Return the agreement and the error of the model's outputs; a dash if they are unknown."""
    outputs = step.comparison.judgement.outputs if step.comparison else None
    if outputs is None or outputs.error is None:
        return "-"
    return f"{outputs.error:.3g}{render(Reason(f'stages.agreement_{outputs.agreement}'), language)}"


def _shown_coverage(step: Step) -> str:
    if step.comparison is None:
        return "-"
    coverage = step.comparison.judgement.coverage
    return f"{coverage.compared}/{coverage.operators}"


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    filled = (padded(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(filled).rstrip()


# The answer for programs


class StageAnswer(Struct):
    """A stage; the first one has number 1."""

    number: int
    path: str
    kind: Literal["original", "quantized", "fusion-off", "offline"]
    data: Literal["npu", "npy"]
    quantized: bool
    rules: str | None
    evidence: list[str]


class OutputError(Struct):
    """Agreement of the model's outputs, and the worst of them."""

    agreement: Literal["match", "slight", "significant", "unknown"]
    tensor: str | None
    cosine: float | None
    error: float | None


class StepAnswer(Struct):
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


class StagesAnswer(Struct):
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

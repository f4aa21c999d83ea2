"""A chain of stages in lines for the terminal: the stages, the error after every step, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Outcome
from opdiff.core.reasons import Language, Reason, because, render, render_all
from opdiff.core.stages import Loss, StageKind
from opdiff.report.columns import columns_of, padded
from opdiff.report.summary_text import SummaryLine, Tone, sentence_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.stages import Chain, Stage, Step

_TONES = {Outcome.WRONG: Tone.BAD, Outcome.SUSPICIOUS: Tone.WARNING, Outcome.CLEAN: Tone.GOOD}


def chain_lines(chain: Chain, language: Language = Language.ENGLISH) -> Iterator[SummaryLine]:
    """Yield the lines about a chain."""
    yield from sentence_lines(chain.notes, language, Tone.WARNING)
    yield SummaryLine(render(because("report.stages_head"), language))
    yield from (SummaryLine(f"  {line}") for line in _stage_lines(chain.stages, language))
    yield SummaryLine(render(because("report.steps_head"), language))
    yield from _step_lines(chain, language)
    yield from verdict_lines(chain, language)
    yield from sentence_lines(chain.verdict.advice[1:], language)


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


_COLUMNS = ("step", "outputs", "total", "operators", "result")


def _cells(chain: Chain, number: int, language: Language) -> tuple[str, ...]:
    step, verdict = chain.steps[number], chain.verdict.steps[number]
    changes = "+".join(render(Reason(f"stages.short_{change}"), language) for change in step.changes)
    result = render(Reason(f"stages.loss_{verdict.loss}"), language)
    if verdict.finding is not None:
        result += f": {verdict.finding.operator}"
    return (
        f"{step.golden + 1}-{step.target + 1} {changes}",
        _outputs(step, language),
        _outputs(chain.total(step.target), language),
        _coverage(step),
        result,
    )


def _outputs(step: Step, language: Language) -> str:
    """Return the agreement and the error of the model's outputs; a dash if they are unknown."""
    outputs = step.comparison.judgement.outputs if step.comparison else None
    if outputs is None or outputs.error is None:
        return "-"
    return f"{outputs.error:.3g} {render(Reason(f'stages.agreement_{outputs.agreement}'), language)}"


def _coverage(step: Step) -> str:
    if step.comparison is None:
        return "-"
    coverage = step.comparison.judgement.coverage
    return f"{coverage.compared}/{coverage.operators}"


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    filled = (padded(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(filled).rstrip()

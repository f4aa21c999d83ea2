"""The result in a few sentences, and the remedies for each kind of error.

The most important comes first: inputs that do not belong together, what the comparison cannot see, the model's
outputs, the operators at fault, the remedy, how much was compared, and the file that changed the limits.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from opdiff.core.judgement import MIN_COVERAGE, Agreement, ErrorKind, Level, Origin, changed_limits
from opdiff.core.reasons import Reason, because
from opdiff.judge.locate import MAX_RUN_NOISE, MAX_USUAL_NOISE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.judgement import Coverage, Finding, Judgement, ModelOutputs

_MAX_NAMES = 3
# Kinds of errors that other implementations may have, too.
_UNEXPLAINED = frozenset({ErrorKind.PRECISION, ErrorKind.QUANTIZATION, ErrorKind.FUSION, ErrorKind.UNKNOWN})
# Files left out are mentioned above this number for each operator.
_MAX_LEFT_OUT_SHARE = 0.1


def kind_name(kind: ErrorKind) -> Reason:
    """Return the name of a kind of error."""
    return Reason(f"judge.kind_{kind}")


def remedies_of(kind: ErrorKind, passes: Sequence[str], buffer_passes: Sequence[str]) -> tuple[Reason, ...]:
    """Return the remedies for an error of an operator that these fusion passes created."""
    named = (*passes, *buffer_passes)
    fused = (because("judge.remedy_disable_passes", passes=named),) if named else ()
    return (Reason(f"judge.remedy_{kind}"), *fused)


def advice_of(judgement: Judgement) -> tuple[Reason, ...]:
    """Return the result in sentences, the most important one first."""
    sentences = _checksums(judgement) if judgement.coverage.checksums else _sentences(judgement)
    return (*sentences, *changed_limits(judgement.limits))


def _sentences(judgement: Judgement) -> Iterator[Reason]:
    coverage = judgement.coverage
    marks = Counter(judgement.marks())
    compared = sum(count for (level, _), count in marks.items() if level is not Level.NOT_COMPARABLE)
    if judgement.misfit is not None:
        yield judgement.misfit
        yield _coverage(coverage)
        return
    if not compared:
        yield because("judge.nothing_compared")
        return
    yield from _reservations(coverage)
    yield from _outputs(judgement)
    if judgement.noise > MAX_USUAL_NOISE:
        yield because("judge.noisy_quantized_run" if judgement.costly_layers else "judge.noisy_run")
        yield from _quantization(judgement)
    if len(judgement.candidates) > 1 and judgement.findings:
        yield because("judge.order_only", operators=_named(judgement.candidates))
    accumulated = sum(count for (_, origin), count in marks.items() if origin is Origin.ACCUMULATED)
    if judgement.first_unit and (judgement.findings or not accumulated):
        yield _start(judgement)
    if judgement.findings:
        yield from _faults(judgement)
    elif not judgement.first_unit or accumulated:
        yield from _no_faults(judgement, compared, accumulated)
    yield from judgement.remarks
    # Errors so large that an error of the operators that inherited them would not show.
    hidden = sum(count for (level, origin), count in marks.items() if origin is Origin.INHERITED and level.is_bad)
    if hidden and judgement.findings:
        yield because("judge.hidden_faults", count=hidden)
    if coverage.share >= MIN_COVERAGE:
        yield _coverage(coverage)


def _checksums(judgement: Judgement) -> Iterator[Reason]:
    """Yield what checksums show: how many of them differ, and where the first one is."""
    coverage = judgement.coverage
    different = sum(level.is_bad for level, _ in judgement.marks())
    yield from _reservations(coverage)
    if different:
        first = {"operator": judgement.first_bad, "unit": judgement.first_unit}
        yield because("judge.checksums_differ_in", count=different, total=coverage.checksums, **first)
        yield Reason("judge.checksums_next")
    else:
        yield because("judge.all_checksums_equal", count=coverage.checksums)
    yield from _not_acquitted(coverage)
    if coverage.share >= MIN_COVERAGE:
        yield _coverage(coverage)


def _quantization(judgement: Judgement) -> Iterator[Reason]:
    """Yield what to do about small errors in many operators of a quantized model."""
    if judgement.costly_layers:
        yield because("judge.quantize_again", layers=judgement.costly_layers)


def _start(judgement: Judgement) -> Reason:
    """Return with which operator of which unit to start: that of the first finding, as the next command has it."""
    for finding in judgement.findings[:1]:
        if finding.units:
            return because("judge.look_first", operator=finding.operator, unit=str(finding.units[0]))
    return because("judge.look_first", operator=judgement.first_bad, unit=judgement.first_unit)


def _coverage(coverage: Coverage) -> Reason:
    return because("judge.coverage", compared=coverage.compared, operators=coverage.operators)


def _reservations(coverage: Coverage) -> Iterator[Reason]:
    """Yield what the comparison cannot see."""
    if coverage.operators and coverage.share < MIN_COVERAGE:
        yield because("judge.low_coverage", compared=coverage.compared, operators=coverage.operators)
    if coverage.left_out > _MAX_LEFT_OUT_SHARE * coverage.operators:
        yield because("judge.files_left_out", count=coverage.left_out)
    total = coverage.data + coverage.statistics + coverage.checksums
    if coverage.statistics:
        yield because("judge.statistics_only", count=coverage.statistics, total=total)


def _outputs(judgement: Judgement) -> Iterator[Reason]:
    """Yield how well the model's outputs agree; the usual causes only if no operator is found to be at fault."""
    outputs = judgement.outputs
    if outputs.tensor:
        is_slight, is_significant = (outputs.agreement is each for each in (Agreement.SLIGHT, Agreement.SIGNIFICANT))
        is_unexplained = not judgement.findings or (is_slight and _is_noise_of_run(judgement))
        is_bad = is_slight or is_significant
        usual = Reason(f"judge.usual_causes_{outputs.agreement}") if is_bad and is_unexplained else None
        facts = {"tensor": outputs.tensor, "numbers": _numbers(outputs), "usual": usual}
        agreement = str(outputs.agreement)
        if outputs.error is None and outputs.agreement is not Agreement.MATCH:
            agreement = "statistics_differ" if is_bad else "statistics"
        yield Reason(f"judge.outputs_{agreement}", tuple(facts.items()))
    if outputs.missing:
        yield because("judge.outputs_missing", count=len(outputs.missing), operators=_named(outputs.missing))


def _numbers(outputs: ModelOutputs) -> Reason | None:
    """Return cosine and error of the worst output, as far as they are known."""
    if outputs.error is None:
        return None
    if outputs.error == inf:
        return because("judge.output_infinite")
    if outputs.cosine is None:
        return because("judge.output_error", error=outputs.error)
    return because("judge.output_numbers", cosine=outputs.cosine, error=outputs.error)


def _named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first names, and an ellipsis for the others."""
    return (*names[:_MAX_NAMES], "…") if len(names) > _MAX_NAMES else tuple(names)


def _no_faults(judgement: Judgement, compared: int, accumulated: int) -> Iterator[Reason]:
    coverage = judgement.coverage
    if accumulated:
        yield because("judge.accumulated", count=accumulated)
        if not judgement.costly_layers:
            yield because("judge.widen_or_accept")
    elif judgement.has_withdrawn:
        yield because("judge.all_innocent")
    elif not coverage.data:
        yield because("judge.all_statistics_agree", count=compared)
    elif coverage.statistics:
        yield because("judge.data_and_statistics_agree", data=coverage.data, statistics=coverage.statistics)
    else:
        is_whole = coverage.compared == coverage.operators and not coverage.left_out
        yield because("judge.within_noise" if is_whole else "judge.compared_within_noise", count=compared)
        yield because("judge.look_elsewhere")
    if judgement.noise <= MAX_USUAL_NOISE:  # otherwise it was said with the noise
        yield from _quantization(judgement)
    yield from _not_acquitted(coverage)


def _not_acquitted(coverage: Coverage) -> Iterator[Reason]:
    if coverage.unseen:
        yield because("judge.not_acquitted", count=len(coverage.unseen), operators=_named(coverage.unseen))


def _faults(judgement: Judgement) -> Iterator[Reason]:
    worst, others = judgement.findings[0], judgement.findings[1:]
    sentence = fault_sentence(worst, judgement.outputs)
    yield Reason("judge.noisiest", sentence.facts) if _is_noise_of_run(judgement) else sentence
    if worst.share:
        yield because("judge.output_share", share=worst.share)
    yield remedy_sentence(worst)
    if others:
        listed = tuple(
            because("judge.named_fault", operator=other.operator, kind=kind_name(other.kind))
            for other in others[:_MAX_NAMES]
        )
        more = because("judge.more_faults", count=len(others) - _MAX_NAMES) if len(others) > _MAX_NAMES else None
        yield because("judge.also_at_fault", faults=listed, more=more)
    if judgement.outputs.agreement is Agreement.MATCH:
        yield because("judge.look_elsewhere")


def _is_noise_of_run(judgement: Judgement) -> bool:
    """Return whether all operators differ. One that only differs more is not at fault for that."""
    return judgement.noise >= MAX_RUN_NOISE and judgement.findings[0].kind in _UNEXPLAINED


def fault_sentence(finding: Finding, outputs: ModelOutputs) -> Reason:
    """Return the sentence about the worst operator: at fault, suspected, or beyond its budget in a good model."""
    code = "judge.proved_fault" if finding.is_proved else "judge.fault"
    code = code if finding.missing is None else "judge.suspect"
    return because(
        "judge.inner_fault" if outputs.agreement is Agreement.MATCH else code,
        operator=finding.operator,
        op_type=finding.op_type,
        before=because("judge.or_before", operators=_named(finding.before)) if finding.before else None,
        kind=kind_name(finding.kind),
        evidence=finding.evidence[0],
        missing=finding.missing,
        tensor=finding.tensor,
    )


def remedy_sentence(finding: Finding) -> Reason:
    """Return what to do about an operator at fault."""
    remedy, passes = finding.remedies[0], (*finding.passes, *finding.buffer_passes)
    if passes:
        return because("judge.advice_or_pass", remedy=remedy, fusion_pass=passes[0])
    return because("judge.advice", remedy=remedy)

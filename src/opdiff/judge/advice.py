"""The result in at most three sentences, and the remedies for each kind of error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Level, Origin
from opdiff.core.reasons import Reason, because

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.judgement import ErrorKind, Finding, Verdict


def kind_name(kind: ErrorKind) -> Reason:
    """Return the name of a kind of error."""
    return Reason(f"judge.kind_{kind}")


def remedies_of(kind: ErrorKind, passes: Sequence[str], buffer_passes: Sequence[str]) -> tuple[Reason, ...]:
    """Return the remedies for an error of an operator that these fusion passes created."""
    named = (*passes, *buffer_passes)
    fused = (because("judge.remedy_disable_passes", passes=named),) if named else ()
    return (Reason(f"judge.remedy_{kind}"), *fused)


def advice_of(findings: Sequence[Finding], verdicts: Sequence[Verdict], first_bad: str = "") -> tuple[Reason, ...]:
    """Return the result in at most three sentences; `first_bad` is the first faulty operator."""
    if findings:
        return _faulty(findings, next((each for each in findings if each.operator == first_bad), findings[0]))
    compared = len(verdicts) - [verdict.level for verdict in verdicts].count(Level.NOT_COMPARABLE)
    if not compared:
        return (because("judge.nothing_compared"),)
    accumulated = [verdict.origin for verdict in verdicts].count(Origin.ACCUMULATED)
    if accumulated:
        return because("judge.accumulated", count=accumulated), because("judge.widen_or_accept")
    return because("judge.within_noise", count=compared), because("judge.look_elsewhere")


def _faulty(findings: Sequence[Finding], earliest: Finding) -> tuple[Reason, ...]:
    worst = findings[0]
    fault = because(
        "judge.fault",
        operator=worst.operator,
        op_type=worst.op_type,
        before=because("judge.or_before", operator=worst.before[-1]) if worst.before else None,
        kind=kind_name(worst.kind),
        evidence=worst.evidence[0],
        others=_others(findings, earliest),
    )
    share = (because("judge.output_share", share=worst.share),) if worst.share else ()
    return fault, *share, _remedy(worst)


def _others(findings: Sequence[Finding], earliest: Finding) -> Reason | None:
    """The first faulty operator if it is not the worst, else the number of further ones."""
    count = len(findings)
    if earliest is not findings[0]:
        return because("judge.first_other", count=count, operator=earliest.operator, kind=kind_name(earliest.kind))
    return because("judge.more_behind", count=count - 1) if count > 1 else None


def _remedy(finding: Finding) -> Reason:
    remedy, passes = finding.remedies[0], (*finding.passes, *finding.buffer_passes)
    if passes:
        return because("judge.advice_or_pass", remedy=remedy, fusion_pass=passes[0])
    return because("judge.advice", remedy=remedy)

"""Findings and the operators that were computed again: proved, withdrawn, or left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import ErrorKind, Finding, Level, Origin
from opdiff.core.reasons import because
from opdiff.core.replay import ReplayVerdict
from opdiff.core.tensor import Slot
from opdiff.judge.advice import advice_of, remedies_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.judgement import Judgement, Verdict
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import Replay

_INPUT_PART = f":{Slot.INPUT}:"
# The golden values exceed the element type of the output, in which the operator is replayed as well.
_TOO_SMALL_TYPE = frozenset({"judge.beyond_range", "judge.saturated"})
# Own error in units of the allowed error. A larger own error is reported without a cause, even if noise hides it.
_MIN_HIDDEN_EXCESS = 1.5


def with_replays(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> Judgement:
    """Return a judgement whose findings agree with replayed operators.

    A guilty operator is proved, with the change that explains its output as the cause. An innocent operator
    computed the right output from its inputs, so that its finding is withdrawn, unless the finding is about an input or
    about the pairing.
    """
    if not replays or judgement.misfit is not None:
        return judgement
    by_name = {replay.operator: replay for replay in replays}
    findings = [_proved(finding, by_name.get(finding.operator)) for finding in judgement.findings]
    withdrawn = [finding.operator for finding in findings if _is_refuted(finding, by_name)]
    kept = [finding for finding in findings if not _is_refuted(finding, by_name)]
    kept += _found_by_replay(judgement, rows, replays)
    kept = _proved_first(kept)
    found = replace(
        judgement,
        findings=tuple(kept),
        verdicts=_with_inherited(judgement.verdicts, rows, frozenset(withdrawn)),
        first_bad=_first_bad(judgement.first_bad, kept, rows),
        worst=kept[0].operator if kept else "",
        remarks=(*judgement.remarks, *_remarks(withdrawn)),
        candidates=tuple(name for name in judgement.candidates if not _is_innocent(name, by_name)),
    )
    return replace(found, advice=advice_of(found))


def _proved_first(findings: Sequence[Finding]) -> list[Finding]:
    """Return proved findings before the others, except findings with a larger share of the error."""
    largest = max(
        (1.0 if finding.share is None else finding.share for finding in findings if finding.is_proved), default=1.0
    )
    return sorted(findings, key=lambda finding: not finding.is_proved and (finding.share or 0.0) <= largest)


def _proved(finding: Finding, replay: Replay | None) -> Finding:
    if replay is None or replay.verdict is not ReplayVerdict.GUILTY or _INPUT_PART in finding.tensor:
        return finding
    return proved_finding(finding, replay)


def proved_finding(finding: Finding, replay: Replay) -> Finding:
    """Return the finding about a guilty operator, with the change that explains its output as the cause."""
    kind = replay.cause.kind if replay.cause is not None else ErrorKind.UNKNOWN
    kind = finding.kind if kind is ErrorKind.UNKNOWN else kind
    remedies = remedies_of(kind, finding.passes, finding.buffer_passes)
    evidence = (*_evidence(replay), *finding.evidence)
    return replace(finding, kind=kind, evidence=evidence, remedies=remedies, is_proved=True)


def _evidence(replay: Replay) -> tuple[Reason, ...]:
    output = replay.outputs[0]
    own = because("judge.proved", error=output.error, allowed=output.limit)
    if replay.cause is None or replay.cause.kind is ErrorKind.UNKNOWN:
        return (own,)
    return replay.cause.evidence, own


def _is_innocent(name: str, by_name: Mapping[str, Replay]) -> bool:
    return name in by_name and by_name[name].verdict is ReplayVerdict.INNOCENT


def _is_refuted(finding: Finding, by_name: Mapping[str, Replay]) -> bool:
    """Return whether an innocent operator has a finding about its own computation."""
    return is_about_output(finding) and finding.missing is None and _is_innocent(finding.operator, by_name)


def is_about_output(finding: Finding) -> bool:
    """Return whether a finding is about the computation of an operator, not about its input, type or pairing."""
    is_about_type = any(reason.code in _TOO_SMALL_TYPE for reason in finding.evidence)
    return _INPUT_PART not in finding.tensor and finding.kind is not ErrorKind.PAIRING and not is_about_type


def _found_by_replay(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> list[Finding]:
    """Return findings for guilty operators that have none, unless their outputs were compared and are good.

    Noise of the inputs hides errors in an output; they count if they have a cause, or are far above what the operator
    may add.
    """
    known = {finding.operator for finding in judgement.findings}
    levels = {str(row.key): verdict.level for row, verdict in zip(rows, judgement.verdicts, strict=True)}
    found = []
    for replay in replays:
        if replay.verdict is not ReplayVerdict.GUILTY or replay.operator in known:
            continue
        level = levels.get(replay.outputs[0].tensor, Level.NOT_COMPARABLE)
        if is_beyond_noise(replay, level):
            found.append(finding_by_replay(replay, level))
    return found


def is_beyond_noise(replay: Replay, level: Level) -> bool:
    """Return whether a guilty operator is a finding, by the level of its output in the comparison."""
    is_explained = replay.cause is not None and replay.cause.kind not in (ErrorKind.UNKNOWN, ErrorKind.PRECISION)
    is_hidden = level is Level.NOISE and (is_explained or replay.outputs[0].excess > _MIN_HIDDEN_EXCESS)
    return level.is_bad or level is Level.NOT_COMPARABLE or is_hidden


def finding_by_replay(replay: Replay, level: Level) -> Finding:
    """Return the finding about a guilty operator that the comparison did not suspect."""
    kind = replay.cause.kind if replay.cause is not None else ErrorKind.UNKNOWN
    finding = Finding(replay.operator, replay.op_type, replay.outputs[0].tensor, level, kind)
    evidence, remedies = _evidence(replay), remedies_of(kind, (), ())
    return replace(finding, evidence=evidence, remedies=remedies, is_proved=True)


def _with_inherited(verdicts: Sequence[Verdict], rows: Sequence[Row], withdrawn: frozenset[str]) -> Sequence[Verdict]:
    """Return the verdicts; errors of innocent operators come from their inputs."""
    if not withdrawn:
        return verdicts
    return tuple(
        replace(verdict, origin=Origin.INHERITED)
        if verdict.origin is Origin.CREATED and row.key is not None and row.key.op in withdrawn
        else verdict
        for row, verdict in zip(rows, verdicts, strict=True)
    )


def _first_bad(before: str, findings: Sequence[Finding], rows: Sequence[Row]) -> str:
    """Return the operator of the first finding in the order of the rows."""
    names = {finding.operator for finding in findings}
    if before in names:
        return before
    return next((row.key.op for row in rows if row.key is not None and row.key.op in names), "")


def _remarks(withdrawn: Sequence[str]) -> tuple[Reason, ...]:
    return (because("judge.withdrawn", operators=tuple(withdrawn)),) if withdrawn else ()

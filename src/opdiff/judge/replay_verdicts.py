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
    from collections.abc import Iterable, Mapping, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import Judgement, Verdict
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import Replay

    # The unit is `None` offline.
    UnitKey = tuple[Unit | None, str]
    ByKey = Mapping[UnitKey, Replay]

_INPUT_PART = f":{Slot.INPUT}:"
# The golden values exceed the element type of the output, in which the operator is replayed as well.
# Own error in units of the allowed error. A larger own error is reported without a cause, even if noise hides it.
_MIN_HIDDEN_EXCESS = 1.5
_MAX_NAMED_UNITS = 5


def with_replays(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> Judgement:
    """Return a judgement whose findings agree with replayed operators.

    A guilty operator is proved, with the change that explains its output as the cause. An innocent operator
    computed the right output from its inputs, so that its finding is withdrawn, unless the finding is about an input or
    about the pairing.

    In graph mode, proofs count for the unit in which the operator was computed again: a finding keeps the units in
    which it is not refuted, and names the units in which it is proved.
    """
    if not replays or judgement.misfit is not None:
        return judgement
    by_key: ByKey = {(replay.unit, replay.operator): replay for replay in replays}
    new = _found_by_replay(judgement, rows, replays)
    if replays[0].unit is None:
        old = [_proved(finding, by_key) for finding in judgement.findings if not _is_refuted(finding, None, by_key)]
        kept = _proved_first([*old, *new])
        first_bad, first_unit = _first_bad(judgement.first_bad, kept, rows), ""
    else:
        old = [part for finding in judgement.findings for part in _split(finding, by_key)]
        kept = _merged([*old, *new], by_key)
        first_bad, first_unit = _first_bad_unit(judgement, kept, by_key)
    withdrawn = {
        (unit, finding.operator): None
        for finding in judgement.findings
        for unit in _units_of(finding)
        if _is_refuted(finding, unit, by_key)
    }
    others = {replay.operator for replay in replays if replay.verdict is not ReplayVerdict.INNOCENT}
    innocent = {replay.operator for replay in replays} - others
    found = replace(
        judgement,
        findings=tuple(kept),
        verdicts=_with_inherited(judgement.verdicts, rows, withdrawn),
        first_bad=first_bad,
        first_unit=first_unit,
        worst=kept[0].operator if kept else "",
        remarks=(*judgement.remarks, *_remarks(withdrawn)),
        candidates=tuple(name for name in judgement.candidates if name not in innocent),
        has_withdrawn=bool(withdrawn),
    )
    return replace(found, advice=advice_of(found))


def _units_of(finding: Finding) -> tuple[Unit | None, ...]:
    return finding.units or (None,)


def _is_refuted(finding: Finding, unit: Unit | None, by_key: ByKey) -> bool:
    """Return whether an innocent operator has a finding about its own computation."""
    replay = by_key.get((unit, finding.operator))
    is_innocent = replay is not None and replay.verdict is ReplayVerdict.INNOCENT
    return is_innocent and finding.missing is None and _is_about_output(finding)


def _is_about_output(finding: Finding) -> bool:
    """Return whether a finding is about the computation of an operator, not about its input, type or pairing."""
    return _INPUT_PART not in finding.tensor and finding.kind is not ErrorKind.PAIRING and not finding.exceeds_type


def _proved_finding(finding: Finding, replay: Replay) -> Finding:
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


def _found_by_replay(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> list[Finding]:
    """Return findings for guilty operators that have none in their unit, unless their outputs are good.

    Noise of the inputs hides errors in an output; they count if they have a cause, or are far above what the operator
    may add.
    """
    known = {(unit, finding.operator) for finding in judgement.findings for unit in _units_of(finding)}
    guilty = {
        (replay.unit, replay.outputs[0].tensor): replay
        for replay in replays
        if replay.verdict is ReplayVerdict.GUILTY and (replay.unit, replay.operator) not in known
    }
    if not guilty:
        return []
    levels = {
        (row.unit, str(row.key)): verdict.level
        for row, verdict in zip(rows, judgement.verdicts, strict=True)
        if row.key is not None and (row.unit, str(row.key)) in guilty
    }
    found = []
    for key, replay in guilty.items():
        level = levels.get(key, Level.NOT_COMPARABLE)
        if _is_beyond_noise(replay, level):
            units = () if replay.unit is None else (replay.unit,)
            suspect = Finding(replay.operator, replay.op_type, key[1], level, ErrorKind.UNKNOWN, units=units)
            found.append(replace(_proved_finding(suspect, replay), proved_units=units))
    return found


def _is_beyond_noise(replay: Replay, level: Level) -> bool:
    """Return whether a guilty operator is a finding, by the level of its output in the comparison."""
    is_explained = replay.cause is not None and replay.cause.kind not in (ErrorKind.UNKNOWN, ErrorKind.PRECISION)
    is_hidden = level is Level.NOISE and (is_explained or replay.outputs[0].excess > _MIN_HIDDEN_EXCESS)
    return level.is_bad or level is Level.NOT_COMPARABLE or is_hidden


def _with_inherited(
    verdicts: Sequence[Verdict], rows: Sequence[Row], withdrawn: Mapping[UnitKey, None]
) -> Sequence[Verdict]:
    """Return the verdicts; errors of innocent operators come from their inputs."""
    if not withdrawn:
        return verdicts
    return tuple(
        replace(verdict, origin=Origin.INHERITED)
        if verdict.origin is Origin.CREATED and row.key is not None and (row.unit, row.key.op) in withdrawn
        else verdict
        for row, verdict in zip(rows, verdicts, strict=True)
    )


def _remarks(withdrawn: Mapping[UnitKey, None]) -> tuple[Reason, ...]:
    """Return the remark that names the withdrawn operators; of many in graph mode the first ones."""
    names = tuple(name if unit is None else f"{name} ({unit})" for unit, name in withdrawn)
    in_graph_mode = any(unit is not None for unit, _ in withdrawn)
    if in_graph_mode and len(names) > _MAX_NAMED_UNITS:
        names = (*names[:_MAX_NAMED_UNITS], "…")
    return (because("judge.withdrawn", operators=names),) if names else ()


# Offline


def _proved(finding: Finding, by_key: ByKey) -> Finding:
    replay = by_key.get((None, finding.operator))
    if replay is None or replay.verdict is not ReplayVerdict.GUILTY or _INPUT_PART in finding.tensor:
        return finding
    return _proved_finding(finding, replay)


def _proved_first(findings: Sequence[Finding]) -> list[Finding]:
    """Return proved findings before the others, except findings with a larger share of the error."""
    largest = max(
        (1.0 if finding.share is None else finding.share for finding in findings if finding.is_proved), default=1.0
    )
    return sorted(findings, key=lambda finding: not finding.is_proved and (finding.share or 0.0) <= largest)


def _first_bad(before: str, findings: Sequence[Finding], rows: Sequence[Row]) -> str:
    """Return the operator of the first finding in the order of the rows."""
    names = {finding.operator for finding in findings}
    if before in names:
        return before
    return next((row.key.op for row in rows if row.key is not None and row.key.op in names), "")


# Graph mode


def _split(finding: Finding, by_key: ByKey) -> list[Finding]:
    """Return the proved parts of a finding by kind, and the rest of the finding, in units that decide nothing."""
    open_units: list[Unit] = []
    proved: list[Finding] = []
    for unit in finding.units:
        replay = by_key.get((unit, finding.operator))
        if replay is not None and replay.verdict is ReplayVerdict.GUILTY and _is_about_output(finding):
            proved.append(replace(_proved_finding(finding, replay), units=(unit,), proved_units=(unit,)))
        elif not _is_refuted(finding, unit, by_key):
            open_units.append(unit)
    if not proved:
        return [replace(finding, units=tuple(open_units))] if open_units else []
    first = next((part for part in proved if part.kind is finding.kind), proved[0])
    return [replace(part, units=(*part.units, *open_units)) if part is first else part for part in proved]


def _merged(findings: Iterable[Finding], by_key: ByKey) -> list[Finding]:
    """Return every operator and kind once, with all its units, proved findings first, then wrong ones.

    The evidence is that of the first proved finding.
    """
    found: dict[tuple[str, str], Finding] = {}
    for finding in sorted(findings, key=lambda finding: not finding.is_proved):
        key = finding.operator, finding.kind
        known = found.get(key)
        if known is None:
            found[key] = finding
            continue
        units = tuple(dict.fromkeys((*known.units, *finding.units)))
        proved = tuple(dict.fromkeys((*known.proved_units, *finding.proved_units)))
        found[key] = replace(known, units=units, proved_units=proved)
    merged = [_with_units_named(finding, by_key) for finding in found.values()]
    return sorted(merged, key=lambda finding: (not finding.is_proved, finding.level is not Level.WRONG))


def _with_units_named(finding: Finding, by_key: ByKey) -> Finding:
    """Return a proved finding that says in which units it is proved."""
    if not finding.proved_units:
        return finding
    more = "; …" if len(finding.proved_units) > _MAX_NAMED_UNITS else ""
    named = "; ".join(map(str, finding.proved_units[:_MAX_NAMED_UNITS])) + more
    reason = because("judge.proved_units", units=named, count=len(finding.proved_units), total=len(finding.units))
    first = len(_evidence(by_key[finding.proved_units[0], finding.operator]))
    return replace(finding, evidence=(*finding.evidence[:first], reason, *finding.evidence[first:]))


def _first_bad_unit(judgement: Judgement, findings: Sequence[Finding], by_key: ByKey) -> tuple[str, str]:
    """Return the first operator at fault and its unit: as before, or of the earliest token if innocent."""
    innocent = {
        (str(unit), name) for (unit, name), replay in by_key.items() if replay.verdict is ReplayVerdict.INNOCENT
    }
    if (judgement.first_unit, judgement.first_bad) not in innocent:
        return judgement.first_bad, judgement.first_unit
    units = [(unit.order, number, finding.operator, unit) for number, finding in enumerate(findings)
             for unit in finding.units]  # fmt: skip
    if not units:
        return "", ""
    _, _, operator, unit = min(units, key=lambda item: item[:2])
    return operator, str(unit)

"""Findings of graph mode and the operators that were computed again, unit by unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Level, Origin
from opdiff.core.reasons import because
from opdiff.core.replay import ReplayVerdict
from opdiff.judge.advice import advice_of
from opdiff.judge.replay_verdicts import finding_by_replay, is_about_output, is_beyond_noise, proved_finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import Finding, Judgement, Verdict
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import Replay

    UnitKey = tuple[Unit | None, str]
    ByKey = Mapping[UnitKey, Replay]

_MAX_NAMED_UNITS = 5


def with_unit_replays(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> Judgement:
    """Return a judgement of graph mode whose findings agree with replayed operators.

    Proofs count for the unit in which the operator was computed again: a finding keeps the units in which it is not
    refuted, and names the units in which it is proved.
    """
    if not replays or judgement.misfit is not None:
        return judgement
    by_key: ByKey = {(replay.unit, replay.operator): replay for replay in replays}
    findings = [part for finding in judgement.findings for part in _split(finding, by_key)]
    found = _merged([*findings, *_found_by_replay(judgement, rows, replays)])
    withdrawn = _withdrawn(judgement.findings, by_key)
    kept = sorted(found, key=lambda finding: (not finding.is_proved, finding.level is not Level.WRONG))
    first_bad, first_unit = _first_bad(judgement, kept, by_key)
    after = replace(
        judgement,
        findings=tuple(kept),
        verdicts=_with_inherited(judgement.verdicts, rows, withdrawn),
        first_bad=first_bad,
        first_unit=first_unit,
        worst=kept[0].operator if kept else "",
        remarks=(*judgement.remarks, *_remarks(withdrawn)),
        candidates=tuple(name for name in judgement.candidates if not _is_innocent_everywhere(name, replays)),
    )
    return replace(after, advice=advice_of(after))


def _split(finding: Finding, by_key: ByKey) -> list[Finding]:
    """Return the proved parts of a finding by kind, and the rest of the finding, in units that decide nothing."""
    replays = {unit: by_key.get((unit, finding.operator)) for unit in finding.units}
    open_units = [unit for unit, replay in replays.items() if not _decides(finding, replay)]
    proved: list[Finding] = []
    for unit, replay in replays.items():
        if replay is not None and replay.verdict is ReplayVerdict.GUILTY and _decides(finding, replay):
            proved.append(replace(proved_finding(finding, replay), units=(unit,), proved_units=(unit,)))
    if not proved:
        return [replace(finding, units=tuple(open_units))] if open_units else []
    first = next((part for part in proved if part.kind is finding.kind), proved[0])
    return [replace(part, units=(*part.units, *open_units)) if part is first else part for part in proved]


def _decides(finding: Finding, replay: Replay | None) -> bool:
    """Return whether a replay proves or refutes a finding."""
    if replay is None or replay.verdict is ReplayVerdict.NOT_REPLAYABLE:
        return False
    if replay.verdict is ReplayVerdict.GUILTY:
        return is_about_output(finding)
    return is_about_output(finding) and finding.missing is None


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return every operator and kind once, with all its units and the evidence of the first proved finding."""
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
    return [_with_units_named(finding) for finding in found.values()]


def _with_units_named(finding: Finding) -> Finding:
    """Return a proved finding that says in which units it is proved."""
    if not finding.proved_units:
        return finding
    more = "; …" if len(finding.proved_units) > _MAX_NAMED_UNITS else ""
    named = "; ".join(map(str, finding.proved_units[:_MAX_NAMED_UNITS])) + more
    reason = because("judge.proved_units", units=named, count=len(finding.proved_units), total=len(finding.units))
    first = 1 if finding.evidence[0].code == "judge.proved" else 2
    return replace(finding, evidence=(*finding.evidence[:first], reason, *finding.evidence[first:]))


def _found_by_replay(judgement: Judgement, rows: Sequence[Row], replays: Sequence[Replay]) -> list[Finding]:
    """Return findings for guilty operators without one in their unit, unless their outputs agree with the golden."""
    known = {(unit, finding.operator) for finding in judgement.findings for unit in finding.units}
    guilty = {
        (replay.unit, replay.outputs[0].tensor): replay
        for replay in replays
        if replay.verdict is ReplayVerdict.GUILTY and (replay.unit, replay.operator) not in known
    }
    levels = {
        (row.unit, str(row.key)): verdict.level
        for row, verdict in zip(rows, judgement.verdicts, strict=True)
        if row.key is not None and (row.unit, str(row.key)) in guilty
    }
    found = []
    for key, replay in guilty.items():
        level = levels.get(key, Level.NOT_COMPARABLE)
        if replay.unit is not None and is_beyond_noise(replay, level):
            found.append(replace(finding_by_replay(replay, level), units=(replay.unit,), proved_units=(replay.unit,)))
    return found


def _withdrawn(findings: Iterable[Finding], by_key: ByKey) -> dict[UnitKey, None]:
    """Return the units and operators that are innocent although there was a finding."""
    return {
        (unit, finding.operator): None
        for finding in findings
        for unit in finding.units
        if (replay := by_key.get((unit, finding.operator))) is not None
        and replay.verdict is ReplayVerdict.INNOCENT
        and _decides(finding, replay)
    }


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


def _first_bad(judgement: Judgement, findings: Sequence[Finding], by_key: ByKey) -> tuple[str, str]:
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


def _is_innocent_everywhere(name: str, replays: Iterable[Replay]) -> bool:
    verdicts = {replay.verdict for replay in replays if replay.operator == name}
    return verdicts == {ReplayVerdict.INNOCENT}


def _remarks(withdrawn: Mapping[UnitKey, None]) -> tuple[Reason, ...]:
    if not withdrawn:
        return ()
    names = [f"{name} ({unit})" for unit, name in withdrawn]
    shown = (*names[:_MAX_NAMED_UNITS], "…") if len(names) > _MAX_NAMED_UNITS else tuple(names)
    return (because("judge.withdrawn", operators=shown),)

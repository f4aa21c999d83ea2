"""Suspects of every unit of graph mode, computed again within a time limit, and the judgement that follows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.core.replay import Replay, ReplayVerdict
from opdiff.workflows.compare.judging import find_limits, judge_replays
from opdiff.workflows.replay.graph_replay import GraphReplayer
from opdiff.workflows.replay.graph_units import find_unit, read_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.dump import Unit
    from opdiff.core.reasons import Reason
    from opdiff.workflows.replay.graph_units import GraphUnit
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.proof import ProofOptions

    Progress = Callable[[int, int], None]
    Report = Callable[[int, int, float], None]


class UnitSuspects(Struct, frozen=True):
    """Operators of one unit to be computed again, the worst first, and others if none of them is guilty."""

    unit: Unit
    operators: tuple[str, ...]
    others: tuple[str, ...] = ()


def suspects_by_unit(comparison: Comparison, count: int | None) -> list[UnitSuspects]:
    """Return the suspects of every unit, those of early tokens first.

    Without any finding, the operators with the largest errors within the noise are taken.
    """
    found: dict[Unit, dict[str, None]] = {}
    for finding in comparison.judgement.findings:
        for unit in finding.units:
            found.setdefault(unit, {}).update(dict.fromkeys((finding.operator, *finding.before)))
    bad: dict[Unit, dict[str, None]] = {}
    noisy: list[tuple[float, Unit, str]] = []
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        if row.unit is None or row.key is None or not row.is_output:
            continue
        if verdict.level.is_bad:
            bad.setdefault(row.unit, {})[row.key.op] = None
        elif verdict.level is Level.NOISE and not found:
            noisy.append((verdict.excess or 0.0, row.unit, row.key.op))
    if not found and not bad:
        for _, unit, name in sorted(noisy, key=lambda item: -item[0])[:count]:
            found.setdefault(unit, {})[name] = None
    units = sorted({**found, **bad}, key=_order)
    return [_suspects(unit, [*found.get(unit, ())], [*bad.get(unit, ())], count) for unit in units]


def _suspects(unit: Unit, found: Sequence[str], bad: Sequence[str], count: int | None) -> UnitSuspects:
    if not found:
        return UnitSuspects(unit, tuple(bad[:count]))
    return UnitSuspects(unit, tuple(found[:count]), tuple(name for name in bad if name not in found)[:count])


def _order(unit: Unit) -> tuple[int, int, int]:
    return unit.token, unit.rank or 0, unit.graph or 0


def prove_units(comparison: Comparison, options: ProofOptions, report: Report) -> Comparison:
    """Return a comparison of graph mode with the suspects of its units replayed, and its judgement corrected.

    If none of the suspects of a unit is guilty, its operators with bad outputs follow. `report` takes the number of
    operators done, their total, and the seconds that are left.
    """
    try:
        replays, is_complete = _Proof(comparison, options, report).run()
    except (InputError, UsageError) as error:
        return replace(comparison, notes=(*comparison.notes, because("replay.impossible", problem=error.reason)))
    if not is_complete:
        note = because("replay.out_of_time", seconds=options.seconds, count=len(replays))
        comparison = replace(comparison, notes=(*comparison.notes, note))
    return judge_replays(replace(comparison, replays=tuple(replays))) if replays else comparison


def replay_suspects(comparison: Comparison, options: ReplayOptions, progress: Progress) -> Iterator[Replay]:
    """Replay the suspects of the chosen units of a comparison of graph mode.

    Raises:
        InputError: the dump or a text cannot be used.
    """
    units = [unit for unit in read_units(options.target) if unit.is_chosen(options.rank, options.token, options.graph)]
    replayer = GraphReplayer(find_limits(options.limits))
    plan = [(item.unit, name) for item in suspects_by_unit(comparison, None) for name in item.operators]
    chosen = [(unit, name) for unit, name in plan if find_unit(units, unit) is not None]
    for number, (unit, name) in enumerate(chosen):
        progress(number, len(chosen))
        yield _replayed(replayer, find_unit(units, unit), unit, name)
    progress(len(chosen), len(chosen))


class _Proof:
    """The run over all units, until the time is over."""

    def __init__(self, comparison: Comparison, options: ProofOptions, report: Report) -> None:
        self._comparison = comparison
        self._count = options.count
        self._ends = time.monotonic() + options.seconds
        self._report = report
        self._units = read_units(options.replay.target)
        self._replayer = GraphReplayer(find_limits(options.replay.limits))
        self._found: list[Replay] = []
        self._total = 0

    def run(self) -> tuple[list[Replay], bool]:
        """Return the replayed operators, and whether the time was enough."""
        plan = self._every_operator() if self._count is None else suspects_by_unit(self._comparison, self._count)
        self._total = sum(len(item.operators) for item in plan)
        for item in plan:
            begun = len(self._found)
            if not self._replay(item.unit, item.operators):
                return self._found, False
            is_proved = any(replay.verdict is ReplayVerdict.GUILTY for replay in self._found[begun:])
            if item.others and not is_proved:
                self._total += len(item.others)
                if not self._replay(item.unit, item.others):
                    return self._found, False
        self._progress()
        return self._found, True

    def _every_operator(self) -> list[UnitSuspects]:
        """Return all operators of the compared units."""
        compared = dict.fromkeys(row.unit for row in self._comparison.rows if row.unit is not None)
        units = [(unit, find_unit(self._units, unit)) for unit in sorted(compared, key=_order)]
        return [UnitSuspects(unit, tuple(self._replayer.operators(own))) for unit, own in units if own is not None]

    def _replay(self, unit: Unit, operators: Sequence[str]) -> bool:
        """Compute some operators of a unit again; return whether there is time left."""
        own = find_unit(self._units, unit)
        for name in operators:
            self._progress()
            self._found.append(_replayed(self._replayer, own, unit, name))
            if time.monotonic() > self._ends:
                return False
        return True

    def _progress(self) -> None:
        self._report(len(self._found), self._total, max(self._ends - time.monotonic(), 0.0))


def _replayed(replayer: GraphReplayer, own: GraphUnit | None, unit: Unit, name: str) -> Replay:
    """Return the replay of an operator, with the unit as the comparison names it."""
    if own is None:
        return _not_replayable(unit, name, because("replay.no_unit"))
    try:
        return replace(replayer.replay(own, name), unit=unit)
    except InputError as error:
        return _not_replayable(unit, name, error.reason)


def _not_replayable(unit: Unit, name: str, reason: Reason) -> Replay:
    return Replay(name, "", ReplayVerdict.NOT_REPLAYABLE, reason=reason, unit=unit)

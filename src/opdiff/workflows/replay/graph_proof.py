"""Suspects of every unit of graph mode, computed again within a time limit, and the judgement that follows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Level
from opdiff.core.replay import Replay, ReplayVerdict
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.graph_replay import (
    ChosenOperator,
    GraphReplayer,
    operators_of,
    replay_chosen,
    units_of,
)
from opdiff.workflows.replay.graph_units import find_unit
from opdiff.workflows.replay.proof import with_replays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.dump import Unit
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.graph_units import GraphUnit
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.proof import ProofOptions, Replayed, ReplayProgress

    Progress = Callable[[int, int], None]


class UnitSuspects(Struct, frozen=True):
    """Operators of one unit to be computed again, the worst first, and others to follow if none of these is guilty."""

    unit: Unit
    operators: tuple[str, ...]
    others: tuple[str, ...] = ()


def suspects_by_unit(comparison: Comparison, count: int | None) -> list[UnitSuspects]:
    """Return the suspects of every unit, units of early tokens first.

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
    units = sorted({**found, **bad}, key=lambda unit: unit.order)
    return [_suspects(unit, [*found.get(unit, ())], [*bad.get(unit, ())], count) for unit in units]


def _suspects(unit: Unit, found: Sequence[str], bad: Sequence[str], count: int | None) -> UnitSuspects:
    if not found:
        return UnitSuspects(unit, tuple(bad[:count]))
    return UnitSuspects(unit, tuple(found[:count]), tuple(name for name in bad if name not in found)[:count])


def prove_units(comparison: Comparison, options: ProofOptions, on_progress: ReplayProgress) -> Comparison:
    """Return a comparison of graph mode with the suspects of its units replayed, and its judgement corrected.

    If none of the suspects of a unit is guilty, its operators with bad outputs follow. `on_progress` is called
    as in `prove`.
    """
    return with_replays(comparison, options, lambda: _Proof(comparison, options, on_progress).run())


def replay_suspects(
    comparison: Comparison, options: ReplayOptions, progress: Progress, cluster: Cluster | None = None
) -> Iterator[Replay]:
    """Replay the suspects of the chosen units of a comparison of graph mode.

    Raises:
        InputError: the dump or a text cannot be used.
    """
    units = units_of(options, cluster)
    plan = suspects_by_unit(comparison, None)
    chosen = [found for item in plan for found in _chosen(units, item.unit, item.operators)]
    known = [item for item in chosen if item.own is not None]
    yield from replay_chosen(known, GraphReplayer(find_limits(options.limits)), progress, cluster)


def _chosen(units: Sequence[GraphUnit], unit: Unit, operators: Sequence[str]) -> list[ChosenOperator]:
    own = find_unit(units, unit)
    return [ChosenOperator(own, unit, name) for name in operators]


class _Proof:
    """The run over all units, until the time is over."""

    def __init__(self, comparison: Comparison, options: ProofOptions, on_progress: ReplayProgress) -> None:
        self._comparison = comparison
        self._count = options.count
        self._deadline = time.monotonic() + options.seconds
        self._on_progress = on_progress
        self._cluster = options.cluster
        self._units = units_of(options.replay, options.cluster)
        self._replayer = GraphReplayer(find_limits(options.replay.limits), options.replay.threads)
        self._found: list[Replay] = []
        self._total = 0

    def run(self) -> Replayed:
        """Return the replayed operators, and whether the time was enough."""
        plan = self._every_operator() if self._count is None else suspects_by_unit(self._comparison, self._count)
        self._total = sum(len(item.operators) for item in plan)
        if self._cluster is not None:
            return self._run_on_workers(plan)
        for item in plan:
            begun = len(self._found)
            if not self._replay([(item.unit, item.operators)]):
                return self._found, False
            is_proved = any(replay.verdict is ReplayVerdict.GUILTY for replay in self._found[begun:])
            if item.others and not is_proved:
                self._total += len(item.others)
                if not self._replay([(item.unit, item.others)]):
                    return self._found, False
        return self._found, True

    def _run_on_workers(self, plan: Sequence[UnitSuspects]) -> Replayed:
        """Replay the suspects of all units, then the others of units where none is guilty."""
        is_complete = self._replay([(item.unit, item.operators) for item in plan])
        guilty = {replay.unit for replay in self._found if replay.verdict is ReplayVerdict.GUILTY}
        others = [item for item in plan if item.unit not in guilty]
        if is_complete:
            self._total += sum(len(item.others) for item in others)
            is_complete = self._replay([(item.unit, item.others) for item in others])
        positions = {item.unit: number for number, item in enumerate(plan)}
        ordered = sorted(self._found, key=lambda replay: positions[replay.unit] if replay.unit is not None else 0)
        return ordered, is_complete

    def _every_operator(self) -> list[UnitSuspects]:
        """Return all operators of the compared units."""
        compared = dict.fromkeys(row.unit for row in self._comparison.rows if row.unit is not None)
        units = [(unit, find_unit(self._units, unit)) for unit in sorted(compared, key=lambda unit: unit.order)]
        known = [(unit, own) for unit, own in units if own is not None]
        found = operators_of([own for _, own in known], self._cluster)
        return [UnitSuspects(unit, tuple(names)) for (unit, _), names in zip(known, found, strict=True)]

    def _replay(self, wanted: Sequence[tuple[Unit, tuple[str, ...]]]) -> bool:
        """Compute some operators of units again; return whether there is time left."""
        before = len(self._found)

        def progress(done: int, _all: int) -> None:
            self._on_progress(before + done, self._total, max(self._deadline - time.monotonic(), 0.0))

        chosen = [found for unit, operators in wanted for found in _chosen(self._units, unit, operators)]
        for found in replay_chosen(chosen, self._replayer, progress, self._cluster):
            self._found.append(found)
            if time.monotonic() > self._deadline:
                return False
        return True

"""Changes between two comparisons of the same model: tensors that got worse or better, appeared or vanished."""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import LEVELS, Level
from opdiff.core.reasons import Reason, because
from opdiff.report.short_names import short_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.comparison import Comparison, Environment, Row

# The three good levels have the same rank: changes between them are not reported.
_RANK: dict[Level | None, int] = dict.fromkeys((*LEVELS, None), 0) | {Level.SUSPICIOUS: 1, Level.WRONG: 2}
# Smallest factor by which the distance of a bad tensor must change to be reported.
_MIN_DISTANCE_RATIO = 1.1
# Most operators that are named.
_MAX_FAULTS = 3


class ChangeKind(StrEnum):
    """Kind of change, in the order of the report."""

    WORSE = "worse"
    VANISHED = "vanished"
    APPEARED = "appeared"
    BETTER = "better"


class Change(Struct, frozen=True):
    """Change of one tensor.

    Attributes:
        kind: kind of change. A tensor that was compared in only one comparison has appeared or vanished.
        operator: the target's operator.
        op_type: its type.
        tensor: the tensor, as `conv1:output:0`.
        before: its level in the old comparison; `None` if it was not compared there.
        after: its level in the new one.
        cosine_before: its cosine similarity in the old comparison.
        cosine_after: the same in the new one.
        distance_before: its relative Euclidean distance in the old comparison.
        distance_after: the same in the new one.
        row: number of its row in the new comparison.
        reason: why it vanished, if the new comparison has a reason.
        place: rank, token and graph in graph mode; empty offline.
    """

    kind: ChangeKind
    operator: str
    op_type: str
    tensor: str
    before: Level | None = None
    after: Level | None = None
    cosine_before: float | None = None
    cosine_after: float | None = None
    distance_before: float | None = None
    distance_after: float | None = None
    row: int | None = None
    reason: Reason | str = ""
    place: str = ""

    @property
    def full_name(self) -> str:
        """The tensor, preceded by rank, token and graph in graph mode."""
        return f"{self.place}: {self.tensor}" if self.place else self.tensor


class Changes(Struct, frozen=True):
    """Changes between two comparisons.

    Attributes:
        old: environment of the old comparison.
        new: environment of the new comparison.
        rows: the changed tensors by kind, then in the order of the report.
        faults: which operators still are, no longer are and newly are at fault.
        same: number of tensors that were compared both times and did not change.
        other_numbers: number of these with different measurements.
        limits: files that changed the limits of the old and of the new comparison; empty for the defaults.
    """

    old: Environment
    new: Environment
    rows: tuple[Change, ...]
    faults: tuple[Reason, ...] = ()
    same: int = 0
    other_numbers: int = 0
    limits: tuple[str, str] = ("", "")

    def of(self, kind: ChangeKind) -> tuple[Change, ...]:
        """Return the changes of one kind."""
        return tuple(change for change in self.rows if change.kind is kind)

    def losses(self) -> dict[str, int]:
        """Return the descriptions of regressions and their numbers of tensors; empty if there are none.

        A tensor that is not compared any more is a loss, whether its operator is still there or not.
        """
        counts = {
            "got worse": len(self.of(ChangeKind.WORSE)),
            "new and bad": sum(_RANK[change.after] > 0 for change in self.of(ChangeKind.APPEARED)),
            "not compared any more": len(self.of(ChangeKind.VANISHED)),
        }
        return {description: count for description, count in counts.items() if count}


class _LevelledRow(Struct, frozen=True):
    """A row, its number and its level."""

    number: int
    row: Row
    level: Level

    @property
    def is_compared(self) -> bool:
        return self.level is not Level.NOT_COMPARABLE

    @property
    def measurements(self) -> tuple[object, ...]:
        """Metrics and tensor statistics of the row."""
        sides = self.row.target, self.row.golden
        return self.row.metrics, *(side.stats for side in sides if side is not None)


def find_changes(old: Comparison, new: Comparison) -> Changes:
    """Return the changes from an old comparison to a new one.

    Tensors are identified by operator, slot and index; in graph mode also by rank, token and graph.
    """
    earlier, later = _by_key(old), _by_key(new)
    found: list[Change] = []
    same = other_numbers = 0
    for key in {**later, **earlier}:
        before, after = earlier.get(key), later.get(key)
        change = _find_change(before, after)
        if change is not None:
            found.append(change)
        elif before and after and after.is_compared:
            same += 1
            other_numbers += before.measurements != after.measurements
    order = list(ChangeKind)
    found.sort(key=lambda change: order.index(change.kind))
    faults = tuple(_changed_faults(old, new))
    limits = old.judgement.limits, new.judgement.limits
    return Changes(old.environment, new.environment, tuple(found), faults, same, other_numbers, limits)


def _changed_faults(old: Comparison, new: Comparison) -> Iterator[Reason]:
    """Yield what became of the operators at fault."""
    before, after = (list(dict.fromkeys(find.operator for find in one.judgement.findings)) for one in (old, new))
    names = short_names(old) | short_names(new)
    groups = {
        "report.still_at_fault": [operator for operator in after if operator in before],
        "report.newly_at_fault": [operator for operator in after if operator not in before],
        "report.no_longer_at_fault": [operator for operator in before if operator not in after],
    }
    for code, operators in groups.items():
        if operators:
            more = because("report.and_more", count=len(operators) - _MAX_FAULTS) if operators[_MAX_FAULTS:] else ""
            shown = ", ".join(names.get(operator, operator) for operator in operators[:_MAX_FAULTS])
            yield because(code, operators=shown, more=more)


def _by_key(comparison: Comparison) -> dict[tuple[str, str, str, int], _LevelledRow]:
    """Return rows by tensor; several rows of one tensor are numbered in order."""
    counts: Counter[tuple[str, str, str]] = Counter()
    found = {}
    for number, (row, verdict) in enumerate(zip(comparison.rows, comparison.judgement.verdicts, strict=True)):
        key = (_unit_text(row), row.label.target, str(row.key))
        found[*key, counts[key]] = _LevelledRow(number, row, verdict.level)
        counts[key] += 1
    return found


def _unit_text(row: Row) -> str:
    return str(row.unit) if row.unit else ""


def _find_change(before: _LevelledRow | None, after: _LevelledRow | None) -> Change | None:
    old = before if before and before.is_compared else None
    new = after if after and after.is_compared else None
    latest = after or before
    if latest is None or not (old or new):
        return None
    kind = _kind(old, new)
    if kind is None:
        return None
    row = latest.row
    return Change(
        kind,
        row.label.target,
        row.label.op_type,
        str(row.key),
        old.level if old else None,
        new.level if new else None,
        _cosine(old),
        _cosine(new),
        _distance(old),
        _distance(new),
        after.number if after else None,
        "" if new or after is None or after.row.reason is None else after.row.reason,
        _unit_text(row),
    )


def _kind(old: _LevelledRow | None, new: _LevelledRow | None) -> ChangeKind | None:
    """Return the kind of change between two compared rows; `None` for one that is missing or was not compared."""
    if old is None:
        return ChangeKind.APPEARED
    if new is None:
        return ChangeKind.VANISHED
    if _RANK[old.level] != _RANK[new.level]:
        return ChangeKind.WORSE if _RANK[new.level] > _RANK[old.level] else ChangeKind.BETTER
    before, after = _distance(old), _distance(new)
    if not _RANK[new.level] or before is None or after is None:
        return None
    before, after = _inf_for_nan(before), _inf_for_nan(after)
    if after > before * _MIN_DISTANCE_RATIO:
        return ChangeKind.WORSE
    return ChangeKind.BETTER if after < before / _MIN_DISTANCE_RATIO else None


def _cosine(found: _LevelledRow | None) -> float | None:
    return found.row.metrics.cosine if found and found.row.metrics else None


def _distance(found: _LevelledRow | None) -> float | None:
    return found.row.metrics.relative_euclidean_distance if found and found.row.metrics else None


def _inf_for_nan(distance: float) -> float:
    return math.inf if math.isnan(distance) else distance

"""Two comparisons of the same model: what got worse, better, appeared or vanished from the one to the other."""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.judgement import LEVELS, Level
from opdiff.core.reasons import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.comparison import Comparison, Environment, Row

# The three good levels are one here: a good tensor that is a little less so is no news.
_RANK: dict[Level | None, int] = dict.fromkeys((*LEVELS, None), 0) | {Level.SUSPICIOUS: 1, Level.WRONG: 2}
# A bad tensor whose distance changes by less is as bad as before.
_FACTOR = 1.1


class ChangeKind(StrEnum):
    """What became of a tensor; in the order of the report."""

    WORSE = "worse"
    VANISHED = "vanished"
    APPEARED = "appeared"
    BETTER = "better"


class Change(NamedTuple):
    """A tensor that is not as it was.

    Attributes:
        kind: what became of it. What could be compared in one of both only has appeared or vanished.
        operator: the target's operator.
        op_type: its type.
        tensor: the tensor, as `conv1:output:0`.
        before: its level in the old comparison; `None` when it was not compared there.
        after: its level in the new one.
        cosine_before: its cosine similarity in the old comparison.
        cosine_after: the same in the new one.
        distance_before: its relative Euclidean distance in the old comparison.
        distance_after: the same in the new one.
        row: its row in the new comparison.
        reason: why it vanished, where the new comparison tells.
        place: of graph mode, the rank, token and graph.
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
    reason: str = ""
    place: str = ""

    @property
    def placed(self) -> str:
        """The tensor, after the rank, token and graph that it is of."""
        return f"{self.place}: {self.tensor}" if self.place else self.tensor


class Changes(NamedTuple):
    """What is different between two comparisons.

    Attributes:
        old: who made the old one.
        new: who made the new one.
        rows: the tensors that changed: worse ones first, in the order of the report otherwise.
        same: how many tensors were compared both times and are as good or as bad as before.
        other_numbers: how many of those do not have the same numbers.
    """

    old: Environment
    new: Environment
    rows: tuple[Change, ...]
    same: int = 0
    other_numbers: int = 0

    def of(self, kind: ChangeKind) -> tuple[Change, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.rows if change.kind is kind)

    def losses(self) -> dict[str, int]:
        """What a gate does not let through, in words, and how many tensors each is; nothing where all is well.

        An operator that is not there any more is no loss; one that is, and cannot be compared any more, is.
        """
        counts = {
            "got worse": len(self.of(ChangeKind.WORSE)),
            "new and bad": sum(_RANK[change.after] > 0 for change in self.of(ChangeKind.APPEARED)),
            "not comparable any more": sum(change.row is not None for change in self.of(ChangeKind.VANISHED)),
        }
        return {what: count for what, count in counts.items() if count}


class _Seen(NamedTuple):
    """A row, its number and its level."""

    number: int
    row: Row
    level: Level

    @property
    def is_compared(self) -> bool:
        return self.level is not Level.NOT_COMPARABLE

    @property
    def numbers(self) -> tuple[object, ...]:
        """What was measured, to be compared with an earlier comparison."""
        sides = self.row.target, self.row.golden
        return self.row.metrics, *(side.stats for side in sides if side is not None)


def find_changes(old: Comparison, new: Comparison) -> Changes:
    """What is different in the new comparison.

    Tensors are known by their operator, side and number; in graph mode by their rank, token and graph, too.
    """
    earlier, later = _by_key(old), _by_key(new)
    found: list[Change] = []
    same = other_numbers = 0
    for key in {**later, **earlier}:
        before, after = earlier.get(key), later.get(key)
        change = _change(before, after)
        if change is not None:
            found.append(change)
        elif before and after and after.is_compared:
            same += 1
            other_numbers += before.numbers != after.numbers
    order = list(ChangeKind)
    found.sort(key=lambda change: order.index(change.kind))
    return Changes(old.environment, new.environment, tuple(found), same, other_numbers)


def _by_key(comparison: Comparison) -> dict[tuple[str, str, str, int], _Seen]:
    """Return rows by tensor; the order tells several rows of one tensor apart."""
    times: Counter[tuple[str, str, str]] = Counter()
    found = {}
    for number, (row, verdict) in enumerate(zip(comparison.rows, comparison.judgement.verdicts, strict=True)):
        key = (_unit_text(row), row.label.target, str(row.key))
        found[*key, times[key]] = _Seen(number, row, verdict.level)
        times[key] += 1
    return found


def _unit_text(row: Row) -> str:
    return str(row.unit) if row.unit else ""


def _change(before: _Seen | None, after: _Seen | None) -> Change | None:
    was, stays = before is not None and before.is_compared, after is not None and after.is_compared
    if was and before and after and stays:
        kind = _both(before, after)
        return None if kind is None else _made(kind, before, after)
    if was and before:
        return _made(ChangeKind.VANISHED, before, after)
    return _made(ChangeKind.APPEARED, before, after) if stays else None


def _both(before: _Seen, after: _Seen) -> ChangeKind | None:
    if _RANK[before.level] != _RANK[after.level]:
        return ChangeKind.WORSE if _RANK[after.level] > _RANK[before.level] else ChangeKind.BETTER
    was, now = _distance(before), _distance(after)
    if not _RANK[after.level] or was is None or now is None:
        return None
    was, now = _size(was), _size(now)
    if now > was * _FACTOR:
        return ChangeKind.WORSE
    return ChangeKind.BETTER if now < was / _FACTOR else None


def _made(kind: ChangeKind, before: _Seen | None, after: _Seen | None) -> Change:
    row = next(_rows(after, before))
    old = before if before and before.is_compared else None
    new = after if after and after.is_compared else None
    return Change(
        kind,
        row.label.target,
        row.label.op_type,
        str(row.key),
        old and old.level,
        new and new.level,
        _cosine(old),
        _cosine(new),
        _distance(old),
        _distance(new),
        after and after.number,
        "" if new or after is None or after.row.reason is None else render(after.row.reason),
        _unit_text(row),
    )


def _rows(*seen: _Seen | None) -> Iterator[Row]:
    return (one.row for one in seen if one is not None)


def _cosine(seen: _Seen | None) -> float | None:
    return seen.row.metrics.cosine if seen and seen.row.metrics else None


def _size(distance: float) -> float:
    """What has become NaN is as far away as can be."""
    return math.inf if math.isnan(distance) else distance


def _distance(seen: _Seen | None) -> float | None:
    return seen.row.metrics.relative_euclidean_distance if seen and seen.row.metrics else None

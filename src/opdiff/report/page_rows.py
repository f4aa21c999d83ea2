"""The part of a very long comparison that the HTML page shows: as many units as a browser can open, bad ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from msgspec.structs import replace

from opdiff.core.judgement import Level
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.dump import Unit

MAX_PAGE_ROWS = 2_000_000
"""Number of rows up to which the page has all of them, in a file of 300 to 600 MB."""

_FIRST_LEVELS = (Level.WRONG, Level.SUSPICIOUS)


def page_part(comparison: Comparison, max_rows: int = MAX_PAGE_ROWS) -> Comparison:
    """Return a comparison in graph mode with at most `max_rows` rows of complete units, and a note about the others.

    The first unit is always complete. Findings and counts are those of the whole comparison.
    """
    if len(comparison.rows) <= max_rows:
        return comparison
    counts: Counter[Unit | None] = Counter()
    levels: dict[Unit | None, set[Level]] = {}
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        counts[row.unit] += 1
        levels.setdefault(row.unit, set()).add(verdict.level)
    chosen = _chosen_units(counts, levels, max_rows)
    numbers = [number for number, row in enumerate(comparison.rows) if row.unit in chosen]
    note = because(
        "report.page_part", units=len(chosen), total_units=len(counts), count=len(numbers), total=len(comparison.rows)
    )
    return _with_rows(replace(comparison, notes=(note, *comparison.notes)), numbers)


def _chosen_units(
    counts: Mapping[Unit | None, int], levels: Mapping[Unit | None, Collection[Level]], max_rows: int
) -> set[Unit | None]:
    """Return the units that fit: those with wrong tensors first, then those with suspicious ones, in their order."""
    chosen: set[Unit | None] = set()
    total = 0
    for unit in sorted(counts, key=lambda unit: [level not in levels[unit] for level in _FIRST_LEVELS]):
        total += counts[unit]
        if chosen and total > max_rows:
            break
        chosen.add(unit)
    return chosen


class ChosenRows(Sequence["Row"]):
    """Some of the rows of a comparison, read when they are needed."""

    def __init__(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        self._rows = rows
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Row]:
        return map(self._rows.__getitem__, self._numbers)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return ChosenRows(self._rows, self._numbers[index])
        return self._rows[self._numbers[index]]


def _with_rows(comparison: Comparison, numbers: Sequence[int]) -> Comparison:
    judgement = comparison.judgement
    profiles, pictures, facts = comparison.profiles, comparison.pictures, comparison.error_facts
    wanted = {each.row for each in profiles} | {each.row for each in pictures} | {each.row for each in facts}
    places = {number: place for place, number in enumerate(numbers) if number in wanted}
    return replace(
        comparison,
        rows=ChosenRows(comparison.rows, numbers),
        judgement=replace(
            judgement,
            verdicts=tuple(judgement.verdicts[number] for number in numbers),
            documented=tuple(judgement.documented[number] for number in numbers) if judgement.documented else (),
        ),
        profiles=tuple(replace(each, row=places[each.row]) for each in profiles if each.row in places),
        pictures=tuple(replace(each, row=places[each.row]) for each in pictures if each.row in places),
        error_facts=tuple(replace(each, row=places[each.row]) for each in facts if each.row in places),
    )

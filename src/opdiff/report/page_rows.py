"""The part of a long comparison that the HTML page shows: as many units as a browser can hold, bad ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Level
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.dump import Unit

MAX_PAGE_ROWS = 100_000
"""Number of rows up to which the page has all of them."""

_FIRST_LEVELS = (Level.WRONG, Level.SUSPICIOUS)


def page_part(comparison: Comparison, max_rows: int = MAX_PAGE_ROWS) -> Comparison:
    """Return a comparison in graph mode with at most `max_rows` rows of complete units, and a note about the others.

    The first unit is always complete. Findings and counts are those of the whole comparison.
    """
    if len(comparison.rows) <= max_rows:
        return comparison
    members: dict[Unit | None, list[int]] = {}
    for number, row in enumerate(comparison.rows):
        members.setdefault(row.unit, []).append(number)
    chosen = _chosen_units(comparison, members, max_rows)
    numbers = sorted(number for unit in chosen for number in members[unit])
    note = because(
        "report.page_part", units=len(chosen), total_units=len(members), count=len(numbers), total=len(comparison.rows)
    )
    return _with_rows(replace(comparison, notes=(note, *comparison.notes)), numbers)


def _chosen_units(
    comparison: Comparison, members: Mapping[Unit | None, Sequence[int]], max_rows: int
) -> list[Unit | None]:
    """Return the units that fit: those with wrong tensors first, then those with suspicious ones, in their order."""
    verdicts = comparison.judgement.verdicts
    levels = {unit: {verdicts[number].level for number in numbers} for unit, numbers in members.items()}
    order = sorted(members, key=lambda unit: [level not in levels[unit] for level in _FIRST_LEVELS])
    chosen: list[Unit | None] = []
    count = 0
    for unit in order:
        count += len(members[unit])
        if chosen and count > max_rows:
            break
        chosen.append(unit)
    return chosen


def _with_rows(comparison: Comparison, numbers: Sequence[int]) -> Comparison:
    judgement = comparison.judgement
    places = {number: place for place, number in enumerate(numbers)}
    return replace(
        comparison,
        rows=tuple(comparison.rows[number] for number in numbers),
        judgement=replace(
            judgement,
            verdicts=tuple(judgement.verdicts[number] for number in numbers),
            documented=tuple(judgement.documented[number] for number in numbers) if judgement.documented else (),
        ),
        profiles=tuple(
            replace(profile, row=places[profile.row]) for profile in comparison.profiles if profile.row in places
        ),
        pictures=tuple(
            replace(picture, row=places[picture.row]) for picture in comparison.pictures if picture.row in places
        ),
    )

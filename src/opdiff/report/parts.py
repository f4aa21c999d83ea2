"""Parts of a comparison: consecutive rows with their verdicts, which a report writes at a time.

    Comparison ──part_reference──► PartReference, … ──load, in any process──► RowPart

Forms of reports for millions of rows are made of parts by several processes: a `map` for these jobs is `MapJobs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct

from opdiff.core.row_store import load_part, part_of, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import DocumentedResult, Verdict
    from opdiff.core.row_store import Part

_T = TypeVar("_T")
_V = TypeVar("_V")


class RowPart(NamedTuple):
    """Consecutive rows with their verdicts and, in graph mode, their documented results."""

    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    results: Sequence[DocumentedResult]


class PartReference(Struct, frozen=True):
    """Consecutive rows to be loaded, by this process or another one."""

    rows: Part[Row]
    verdicts: Part[Verdict]
    results: Part[DocumentedResult]

    def load(self) -> RowPart:
        """Return the rows."""
        return RowPart(load_part(self.rows), load_part(self.verdicts), load_part(self.results))


def part_reference(comparison: Comparison, numbers: range) -> PartReference:
    """Return the rows with these numbers; verdicts and results only if the comparison has them."""
    judgement = comparison.judgement
    return PartReference(
        part_of(comparison.rows, numbers),
        part_of(judgement.verdicts, numbers) if judgement.verdicts else (),
        part_of(judgement.documented, numbers) if judgement.documented else (),
    )


def map_distinct(function: Callable[[_T], _V], values: Sequence[_T]) -> list[_V]:
    """Apply a function to all values of a column, once for equal ones."""
    results = {value: function(value) for value in set(values)}
    return [results[value] for value in values]


def divided(numbers: range, max_rows: int) -> Iterator[range]:
    """Yield consecutive numbers in parts of up to so many."""
    for start in range(numbers.start, numbers.stop, max_rows):
        yield range(start, min(start + max_rows, numbers.stop))


def whole_units(comparison: Comparison, min_rows: int, max_rows: int = 0) -> Iterator[range]:
    """Yield the numbers of all rows in parts of at least `min_rows` that end with a unit.

    Units, and comparisons offline, with more than `max_rows` rows are divided; 0 for no maximum. There is at least one
    part.
    """
    start = stop = 0
    before = None
    for run, numbers in runs_of(comparison.rows):
        if run.unit != before and stop - start >= min_rows:
            yield range(start, stop)
            start = stop
        before, stop = run.unit, numbers.stop
        while max_rows and stop - start >= max_rows:
            yield range(start, start + max_rows)
            start += max_rows
    if stop > start or not stop:
        yield range(start, stop)

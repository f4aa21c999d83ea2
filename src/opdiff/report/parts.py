"""Parts of a comparison: consecutive rows with their verdicts, which a report writes at a time.

    Comparison ──part_reference──► PartReference, … ──load──► RowPart ──pack──► bytes, … ──add──► file of a PartWriter
                                                    └──── in any process ────┘

Files for millions of rows are made of parts by several processes: a `map` for these jobs is `MapJobs`. All files of a
comparison are made in one pass, because loading the rows takes as long as packing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

from opdiff.core.row_store import load_part, part_of, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import DocumentedResult, Verdict
    from opdiff.core.row_store import MapJobs, Part

_T = TypeVar("_T")
_V = TypeVar("_V")

# A part ends with a unit, so that units of this many rows or more have parts of their own, and small ones share one.
_MIN_PART_ROWS = 1_000
# Longer units, and long offline comparisons, are divided: rows that are packed take memory.
_MAX_PART_ROWS = 20_000
# Parts of fewer rows are packed together.
_MIN_JOB_ROWS = 8_000


class RowPart(Struct, frozen=True):
    """Consecutive rows with their verdicts and, in graph mode, their documented results; number of the first row."""

    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    results: Sequence[DocumentedResult]
    start: int

    @classmethod
    def joined(cls, parts: Sequence[RowPart]) -> RowPart:
        """Return neighbouring parts as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [row for part in parts for row in part.rows],
            [verdict for part in parts for verdict in part.verdicts],
            [result for part in parts for result in part.results],
            parts[0].start,
        )


class PartReference(Struct, frozen=True):
    """Consecutive rows to be loaded, by this process or another one."""

    rows: Part[Row]
    verdicts: Part[Verdict]
    results: Part[DocumentedResult]
    start: int

    def load(self) -> RowPart:
        """Return the rows."""
        return RowPart(load_part(self.rows), load_part(self.verdicts), load_part(self.results), self.start)


def part_reference(comparison: Comparison, numbers: range) -> PartReference:
    """Return the rows with these numbers; verdicts and results only if the comparison has them."""
    judgement = comparison.judgement
    return PartReference(
        part_of(comparison.rows, numbers),
        part_of(judgement.verdicts, numbers) if judgement.verdicts else (),
        part_of(judgement.documented, numbers) if judgement.documented else (),
        numbers.start,
    )


class PartWriter(Struct, frozen=True):
    """A writer of a file that is made of the parts of a comparison.

    Attributes:
        pack: returns what the file has of some neighbouring parts. Picklable, since other processes may call it.
        add: called with what `pack` returned for all parts, in their order.
    """

    pack: Callable[[Sequence[RowPart]], Any]
    add: Callable[[Any], object]


class PartsJob(Struct, frozen=True):
    """Neighbouring parts to be packed for several files."""

    parts: tuple[PartReference, ...]
    pack: tuple[Callable[[Sequence[RowPart]], Any], ...]


def write_parts(comparison: Comparison, writers: Sequence[PartWriter], map_jobs: MapJobs) -> None:
    """Write some files in one pass over all rows."""
    pack = tuple(writer.pack for writer in writers)
    jobs = [
        PartsJob(tuple(part_reference(comparison, numbers) for numbers in some), pack)
        for some in _neighbours(row_parts(comparison))
    ]
    for packed in map_jobs(pack_parts, jobs):
        for writer, result in zip(writers, packed, strict=True):
            writer.add(result)


def pack_parts(job: PartsJob) -> list[Any]:
    """Return what each file has of the parts of a job."""
    parts = [part.load() for part in job.parts]
    return [pack(parts) for pack in job.pack]


def row_parts(comparison: Comparison) -> Iterator[range]:
    """Yield the numbers of the rows of each part; there is at least one part."""
    return whole_units(comparison, _MIN_PART_ROWS, _MAX_PART_ROWS)


def _neighbours(parts: Iterator[range]) -> Iterator[list[range]]:
    """Yield the parts of each job: of at least `_MIN_JOB_ROWS` rows, unless the next part is large."""
    some: list[range] = []
    for numbers in parts:
        if some and numbers.stop - some[0].start > _MAX_PART_ROWS:
            yield some
            some = []
        some.append(numbers)
        if numbers.stop - some[0].start >= _MIN_JOB_ROWS:
            yield some
            some = []
    if some:
        yield some


def map_distinct(function: Callable[[_T], _V], values: Sequence[_T]) -> list[_V]:
    """Apply a function to all values of a column, once for equal ones."""
    results = {value: function(value) for value in set(values)}
    return [results[value] for value in values]


def field_columns(values: Sequence[Struct | None], kind: type[Struct]) -> Sequence[tuple[Any, ...]]:
    """Return the fields of values of one class as columns; `None` for missing values."""
    names = kind.__struct_fields__
    if not values:
        return [()] * len(names)
    missing = (None,) * len(names)
    return list(zip(*[missing if value is None else structs.astuple(value) for value in values], strict=True))


def whole_units(comparison: Comparison, min_rows: int, max_rows: int) -> Iterator[range]:
    """Yield the numbers of all rows in parts of at least `min_rows` that end with a unit.

    Units, and comparisons offline, with more than `max_rows` rows are divided. There is at least one part.
    """
    start = stop = 0
    before = None
    for run, numbers in runs_of(comparison.rows):
        if run.unit != before and stop - start >= min_rows:
            yield range(start, stop)
            start = stop
        before, stop = run.unit, numbers.stop
        while stop - start >= max_rows:
            yield range(start, start + max_rows)
            start += max_rows
    if stop > start or not stop:
        yield range(start, stop)

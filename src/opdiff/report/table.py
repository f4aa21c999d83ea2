"""Tables of results for CSV files and workbooks: groups of columns, each of which fills several cells of a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.report.cells import some_at_a_time, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import DocumentedResult, Verdict
    from opdiff.report.cells import Cell, NumberTexts


class JudgedRow(Struct, frozen=True):
    """A row, its verdict, and the documented result of graph mode."""

    row: Row
    verdict: Verdict
    result: DocumentedResult | None = None


class JudgedRows(Iterable[JudgedRow]):
    """Some rows of a comparison in graph mode, by ranges of their numbers; each is looked up when it is needed."""

    def __init__(self, comparison: Comparison, ranges: Sequence[range]) -> None:
        self._comparison, self._ranges = comparison, ranges

    def __iter__(self) -> Iterator[JudgedRow]:
        rows, judgement = self._comparison.rows, self._comparison.judgement
        for numbers in self._ranges:
            for number in numbers:
                yield JudgedRow(rows[number], judgement.verdicts[number], judgement.documented[number])


class Columns(Struct, frozen=True):
    """Neighbouring columns: their titles, and the cells of each of them, of some rows."""

    titles: tuple[str, ...]
    cells: Callable[[Sequence[JudgedRow]], Iterable[Sequence[Cell]]]

    @classmethod
    def by_row(cls, titles: tuple[str, ...], cells: Callable[[JudgedRow], Sequence[Cell]]) -> Columns:
        """Return columns whose cells are found row by row."""
        return cls(titles, lambda rows: zip(*map(cells, rows), strict=True))


class Table(Struct, frozen=True):
    """A table to be written.

    Attributes:
        columns: its columns, documented ones first.
        rows: its rows, which may be iterated several times.
        number_texts: the form of numbers in a CSV file.
    """

    columns: tuple[Columns, ...]
    rows: Iterable[JudgedRow]
    number_texts: NumberTexts

    def header(self) -> list[str]:
        """Return the titles of all columns."""
        return [title for columns in self.columns for title in columns.titles]

    def parts(self) -> Iterator[list[Sequence[Cell]]]:
        """Yield the cells of each column, some rows at a time."""
        for some in some_at_a_time(self.rows):
            yield [cells for columns in self.columns for cells in columns.cells(some)]

    def cells(self) -> Iterator[tuple[Cell, ...]]:
        """Yield the cells of each row."""
        for columns in self.parts():
            yield from zip(*columns, strict=True)


def write_csv(table: Table, path: str) -> None:
    """Write the table; nothing is written if an error occurs."""
    write_table(path, table.header(), table.parts(), table.number_texts)

"""Tables of results for CSV files and workbooks: groups of columns, each of which fills several cells of a row."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.report.cells import write_rows

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


class JudgedRows(Collection[JudgedRow]):
    """Some rows of a comparison in graph mode, by ranges of their numbers; each is looked up when it is needed."""

    def __init__(self, comparison: Comparison, ranges: Sequence[range]) -> None:
        self._comparison, self._ranges = comparison, ranges

    def __len__(self) -> int:
        return sum(map(len, self._ranges))

    def __iter__(self) -> Iterator[JudgedRow]:
        rows, judgement = self._comparison.rows, self._comparison.judgement
        for numbers in self._ranges:
            for number in numbers:
                yield JudgedRow(rows[number], judgement.verdicts[number], judgement.documented[number])

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)


class Columns(Struct, frozen=True):
    """Neighbouring columns: their titles, and their cells of a row."""

    titles: tuple[str, ...]
    cells: Callable[[JudgedRow], Sequence[Cell]]


class Table(Struct, frozen=True):
    """A table to be written.

    Attributes:
        columns: its columns, documented ones first.
        rows: its rows.
        number_texts: the form of numbers in a CSV file.
    """

    columns: tuple[Columns, ...]
    rows: Collection[JudgedRow]
    number_texts: NumberTexts

    def header(self) -> list[str]:
        """Return the titles of all columns."""
        return [title for columns in self.columns for title in columns.titles]

    def cells(self) -> Iterator[list[Cell]]:
        """Yield the cells of each row."""
        groups = [columns.cells for columns in self.columns]
        for row in self.rows:
            yield [cell for cells in groups for cell in cells(row)]


def write_csv(table: Table, path: str) -> None:
    """Write the table; nothing is written if an error occurs."""
    write_rows(path, table.header(), table.cells(), table.number_texts)

"""Workbooks: a comparison with its summary, or one table of graph mode. Needs xlsxwriter (`opdiff[xlsx]`)."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import name_in_errors
from opdiff.core.formatting import escape_controls
from opdiff.core.judgement import LEVELS, Colour, Level
from opdiff.core.reasons import render, render_all
from opdiff.report.flat import iter_flat_tables
from opdiff.report.summary_text import first_bad_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from opdiff.core.comparison import Comparison
    from opdiff.report.table import Table

MAX_ROWS = 1_048_576
"""Maximum number of rows of a sheet; further rows are written to another sheet."""

_RED, _YELLOW, _GREEN = "#FFC7CE", "#FFEB9C", "#C6EFCE"
_FILLS: dict[str, str] = dict.fromkeys(LEVELS[:3], _GREEN) | {
    Level.SUSPICIOUS: _YELLOW,
    Level.WRONG: _RED,
    Colour.RED: _RED,
    Colour.YELLOW: _YELLOW,
    Colour.GREEN: _GREEN,
}
_WIDTHS = {"target": 40, "golden": 40, "tensor": 44, "golden_tensor": 44, "reason": 50, "decided_by": 36}
_DEFAULT_WIDTH = 14
# Rows are written to disk at once, and strings never become formulas, links or numbers.
_SAFE_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}
_MAX_CHARACTERS = 32_767
# Numbers of a workbook are 64-bit floats.
_MAX_EXACT_INTEGER = 2**53


def write_workbook(comparison: Comparison, path: str) -> None:
    """Write the summary, then all rows, coloured by level, under a fixed header with filters."""
    parts = iter_flat_tables(comparison)
    first = next(parts)
    rows = (cells for table in chain((first,), parts) for cells in zip(*table.values(), strict=True))
    with _open_book(path) as book:
        book.add_summary(_summary(comparison))
        book.add_rows(tuple(first), ((str(cells[0]), cells) for cells in rows), len(comparison.rows), _WIDTHS)


def write_table_workbook(table: Table, path: str) -> None:
    """Write one table of graph mode, coloured by its documented results."""
    colours = (str(judged.result.colour) if judged.result else "" for judged in table.rows)
    with _open_book(path) as book:
        book.add_rows(table.header(), zip(colours, table.cells(), strict=True))


def _summary(comparison: Comparison) -> Iterator[tuple[str, object]]:
    judgement = comparison.judgement
    yield "scenario", render(comparison.scenario)
    yield "target", comparison.target.path
    yield "golden", comparison.golden.path
    yield "made by", f"opdiff {comparison.environment.opdiff}".strip()
    yield "made at", comparison.environment.time
    counts = Counter(verdict.level for verdict in judgement.verdicts)
    yield from ((str(level), counts[level]) for level in LEVELS)
    yield "first bad operator", first_bad_operator(comparison)
    yield from (("", render(sentence)) for sentence in judgement.advice)
    for finding in judgement.findings:
        yield str(finding.kind), f"{finding.operator} ({finding.op_type}): {render_all(finding.evidence)}"
        yield from (("", render(remedy)) for remedy in finding.remedies)


@contextmanager
def _open_book(path: str) -> Iterator[_Book]:
    """Open a workbook, and write it at the end.

    The package leaves its temporary files after an error, so they have a folder; and it tries once more to write what a
    full disk did not take, so it packs them in memory.
    """
    from tempfile import TemporaryDirectory

    from xlsxwriter.exceptions import FileCreateError

    packed = BytesIO()
    with TemporaryDirectory(prefix="opdiff-", ignore_cleanup_errors=True) as folder, name_in_errors(folder, folder):
        book = _Book(packed, folder)
        yield book
        try:
            book.close()
        except FileCreateError as error:
            raise error.args[0] from None
    with open(path, "wb") as file:
        file.write(packed.getbuffer())


class _Book:
    """A workbook."""

    def __init__(self, packed: BytesIO, folder: str) -> None:
        import xlsxwriter

        self._book: Any = xlsxwriter.Workbook(packed, {**_SAFE_OPTIONS, "tmpdir": folder})
        self._bold = self._book.add_format({"bold": True})
        self._fills = {name: self._book.add_format({"bg_color": fill}) for name, fill in _FILLS.items()}

    def close(self) -> None:
        """Pack all sheets."""
        self._book.close()

    def add_summary(self, lines: Iterable[tuple[str, object]]) -> None:
        sheet = self._book.add_worksheet("Summary")
        sheet.set_column(0, 0, 22)
        sheet.set_column(1, 1, 110)
        for line, (title, value) in enumerate(lines):
            _write_cells(sheet, line, (title, value), self._fills.get(title))

    def add_rows(
        self,
        titles: Sequence[str],
        rows: Iterable[tuple[str, Sequence[object]]],
        count: int = 0,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        """Add rows, each with the name of its fill; `widths` sets column widths and adds a filter over `count` rows."""
        sheet: Any = None
        for number, (fill, cells) in enumerate(rows):
            line = number % (MAX_ROWS - 1) + 1
            if line == 1:
                sheet = self._add_sheet(titles, count - number, widths)
            _write_cells(sheet, line, cells, self._fills.get(fill))
        if sheet is None:
            self._add_sheet(titles, 0, widths)

    def _add_sheet(self, titles: Sequence[str], left: int, widths: Mapping[str, int] | None) -> Any:  # noqa: ANN401  the package is optional and untyped here
        sheet = self._book.add_worksheet()
        sheet.freeze_panes(1, 1)
        if widths is not None:
            sheet.autofilter(0, 0, min(left, MAX_ROWS - 1), len(titles) - 1)
        for column, title in enumerate(titles):
            if widths is not None:
                sheet.set_column(column, column, widths.get(title, _DEFAULT_WIDTH))
            sheet.write_string(0, column, _cell_text(title), self._bold)
        return sheet


def _write_cells(sheet: Any, line: int, cells: Sequence[object], fill: object) -> None:  # noqa: ANN401  as above
    """Write one line: numbers as numbers if they stay exact, everything else as text."""
    for column, cell in enumerate(cells):
        if _is_number(cell):
            sheet.write_number(line, column, cell, fill)
        else:
            sheet.write_string(line, column, _cell_text(cell), fill)


def _cell_text(cell: object) -> str:
    if cell is None:
        return ""
    return escape_controls(str(cell)).encode(errors="backslashreplace").decode()[:_MAX_CHARACTERS]


def _is_number(cell: object) -> bool:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return abs(cell) <= _MAX_EXACT_INTEGER
    return isinstance(cell, float) and isfinite(cell)

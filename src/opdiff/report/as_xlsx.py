"""The table of graph mode as a workbook, its rows coloured. Needs xlsxwriter: `pip install opdiff[xlsx]`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from opdiff.errors import UsageError
from opdiff.graphmode import Colour
from opdiff.report.torchair_table import header, iter_cells

if TYPE_CHECKING:
    from opdiff.graphmode import DataMode
    from opdiff.report.torchair_table import Judged

_FILLS = {Colour.RED: "#FFC7CE", Colour.YELLOW: "#FFEB9C", Colour.GREEN: "#C6EFCE"}
# A sheet ends there; further rows go to a further sheet.
_MAX_ROWS = 1_048_576
_MAX_TEXT = 32_767
# Rows are written through, and nothing in a cell is taken for a formula, a link or a number.
_SAFE = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


def require_xlsx() -> None:
    """Say so early when workbooks cannot be written.

    Raises:
        UsageError: the package is missing.
    """
    try:
        import xlsxwriter  # noqa: F401  only whether it is there
    except ImportError as error:
        raise UsageError("--xlsx needs the package xlsxwriter: pip install 'opdiff[xlsx]'") from error


def write_graph_xlsx(judged: Judged, mode: DataMode, path: str) -> None:
    """Write the table to a workbook: the heading stays in view, rows are red, yellow or green."""
    import xlsxwriter

    with xlsxwriter.Workbook(path, _SAFE) as book:
        formats = {colour: book.add_format({"bg_color": fill}) for colour, fill in _FILLS.items()}
        bold = book.add_format({"bold": True})
        sheet: Any = None
        for number, cells in enumerate(iter_cells(judged, mode)):
            line = number % (_MAX_ROWS - 1) + 1
            if line == 1:
                sheet = _new_sheet(book, mode, bold)
            _write(sheet, line, cells, formats.get(judged[number][1].colour))
        if sheet is None:
            _new_sheet(book, mode, bold)


def _new_sheet(book: Any, mode: DataMode, bold: object) -> Any:  # noqa: ANN401  the package is optional and untyped here
    sheet = book.add_worksheet()
    sheet.freeze_panes(1, 1)
    for column, title in enumerate(header(mode)):
        sheet.write_string(0, column, title, bold)
    return sheet


def _write(sheet: Any, line: int, cells: tuple[object, ...], fill: object) -> None:  # noqa: ANN401  as above
    for column, cell in enumerate(cells):
        if isinstance(cell, int | float) and isfinite(cell):
            sheet.write_number(line, column, cell, fill)
        else:
            shown = "" if cell is None else str(cell).encode(errors="backslashreplace").decode()
            sheet.write_string(line, column, shown[:_MAX_TEXT], fill)

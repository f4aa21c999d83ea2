"""The table of graph mode as a workbook, its rows coloured. Needs xlsxwriter: `pip install opdiff[xlsx]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.graphmode import Colour
from opdiff.report.graph_columns import header, iter_cells
from opdiff.report.workbook import GREEN, MAX_ROWS, RED, YELLOW, new_workbook, write_cells

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.graphmode import DataMode
    from opdiff.report.graph_columns import Judged

_FILLS = {Colour.RED: RED, Colour.YELLOW: YELLOW, Colour.GREEN: GREEN}


def write_graph_xlsx(judged: Judged, mode: DataMode, path: str) -> None:
    """Write the table to a workbook: the heading stays in view, rows are red, yellow or green."""
    with new_workbook(path) as book:
        formats = {colour: book.add_format({"bg_color": fill}) for colour, fill in _FILLS.items()}
        bold = book.add_format({"bold": True})
        sheet: Any = None
        for number, cells in enumerate(iter_cells(judged, mode)):
            line = number % (MAX_ROWS - 1) + 1
            if line == 1:
                sheet = _new_sheet(book, mode, bold)
            write_cells(sheet, line, cells, formats.get(judged[number][1].colour))
        if sheet is None:
            _new_sheet(book, mode, bold)


def _new_sheet(book: Any, mode: DataMode, bold: object) -> Any:  # noqa: ANN401  the package is optional and untyped here
    sheet = book.add_worksheet()
    sheet.freeze_panes(1, 1)
    for column, title in enumerate(header(mode)):
        sheet.write_string(0, column, title, bold)
    return sheet

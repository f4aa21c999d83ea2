"""What all workbooks have in common: colours, limits, and cells that are never formulas."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

RED, YELLOW, GREEN = "#FFC7CE", "#FFEB9C", "#C6EFCE"
MAX_ROWS = 1_048_576
"""A sheet ends there; further rows go to a further sheet."""

# Rows are written through, and nothing in a cell is taken for a formula, a link or a number.
_SAFE = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}

_MAX_TEXT = 32_767
# Numbers of a workbook are floats of 64 bits.
_LARGEST_EXACT = 2**53


def new_workbook(path: str) -> Any:  # noqa: ANN401  the package is optional and untyped here
    """A workbook to write to; to be used in a `with` statement.

    Raises:
        OSError: it cannot be written.
    """
    import xlsxwriter

    # The package tries it in the end only, makes an error of its own of it, and leaves its drafts open.
    with open(path, "wb"):
        pass
    return xlsxwriter.Workbook(path, _SAFE)


def write_cells(sheet: Any, line: int, cells: Sequence[object], fill: object) -> None:  # noqa: ANN401  as above
    """Write one line: numbers as numbers where they stay what they are, whatever else as text."""
    for column, cell in enumerate(cells):
        if _is_number(cell):
            sheet.write_number(line, column, cell, fill)
        else:
            sheet.write_string(line, column, cell_text(cell), fill)


def cell_text(cell: object) -> str:
    """The text of a cell, no longer than one may be; `None` is empty."""
    return "" if cell is None else str(cell).encode(errors="backslashreplace").decode()[:_MAX_TEXT]


def _is_number(cell: object) -> bool:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return abs(cell) <= _LARGEST_EXACT
    return isinstance(cell, float) and isfinite(cell)

"""CSV files: the text of cells, protection against spreadsheet formulas, and writing."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.core.formatting import NOT_A_NUMBER, format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.tensor import Shape

    Cell = str | float | None

NOT_GIVEN = NOT_A_NUMBER
"""Text of an empty cell in a documented column."""

# Characters that begin a formula, and their full-width forms, which some spreadsheets accept as well.
_SIGNS = "=+\\-%@＝＋－％＠"  # noqa: RUF001  the full-width forms are meant
# At the beginning of a cell, blanks before it or not. Some spreadsheets also split at semicolons and line breaks.
_FORMULA = re.compile(rf"(?:^(?=[\t\r\n])|(?:^|[;\r\n])(?=[^\S\r\n]*[{_SIGNS}]))")
# Nearly all cells begin with a letter or digit, or are a path or a list, and have one part.
_PLAIN = re.compile(r"[\w/\[][^;\r\n]*")


def escape_formula(text: str) -> str:
    """Return the text with an apostrophe before everything that a spreadsheet would run as a formula.

    Numbers are returned unchanged.
    """
    if _PLAIN.fullmatch(text) or _is_number(text):
        return text
    return _FORMULA.sub(r"\g<0>'", text)


def shape_text(shape: Shape | None) -> str:
    """Return a shape as `[1,64,56,56]`; `[]` for a scalar."""
    return NOT_GIVEN if shape is None else f"[{','.join(map(str, shape))}]"


def write_rows(path: str, header: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a CSV file: numbers with all their digits, strings unchanged."""
    with open_atomic(path) as file:
        # Names of files need not be valid text; what cannot be encoded becomes an escape sequence.
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        writer = csv.writer(text)
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()


def format_cell(cell: Cell) -> str:
    """Return a cell as people read it: numbers by `format_number`, strings by `escape_formula`."""
    if isinstance(cell, str):
        return escape_formula(cell)
    return "" if cell is None else format_number(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()

"""Cells of a CSV file: what is printed, and what a spreadsheet must not take for a formula."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import whole_file
from opdiff.core.formatting import number_text
from opdiff.core.native import native_twin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opdiff.core.tensor import Shape

    Cell = str | float | None

NOT_GIVEN = "NaN"
"""What stands in a documented column where there is nothing to tell."""

# The signs that begin a formula, and their full-width forms, which some spreadsheets take for the same.
_SIGNS = "=+\\-%@＝＋－％＠"  # noqa: RUF001  the full-width forms are meant
# At the beginning of a cell, blanks before it or not. Some spreadsheets cut at a semicolon or a line break, too.
_FORMULA = rf"(?:^(?=[\t\r\n])|(?:^|[;\r\n])(?=[^\S\r\n]*[{_SIGNS}]))"


def harmless(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet would run as a formula. Numbers stay as they are."""
    # Nearly all cells begin with a letter, or are a path or a list, and are of one piece.
    first = text[:1]
    if (first.isalnum() or first in "/[") and not (";" in text or "\n" in text or "\r" in text):
        return text
    if not re.search(_FORMULA, text) or _is_number(text):
        return text
    return re.sub(_FORMULA, r"\g<0>'", text)


def shape_text(shape: Shape | None) -> str:
    """`[1,64,56,56]`; `[]` for a scalar."""
    return NOT_GIVEN if shape is None else f"[{','.join(map(str, shape))}]"


def write_table(path: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a CSV file, row by row: numbers with all their digits, texts as they are."""
    _write(path, header, map(csv_line, rows))


def write_readable(path: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a CSV file, row by row: numbers as people read them, texts harmless."""
    _write(path, header, (readable_line(row, harmless) for row in rows))


def _write(path: str, header: Sequence[str], lines: Iterable[bytes]) -> None:
    with whole_file(path) as file:
        file.write(csv_line(header))
        file.writelines(lines)


@native_twin
def readable_line(cells: Sequence[Cell], guard: Callable[[str], str]) -> bytes:
    """A line of a CSV file; `guard` is `harmless`, which is asked about all texts that are not plainly so."""
    return csv_line([_text(cell, guard) for cell in cells])


def _text(cell: Cell, guard: Callable[[str], str]) -> str:
    if isinstance(cell, str):
        return guard(cell)
    return "" if cell is None else number_text(cell)


@native_twin
def csv_line(cells: Sequence[Cell]) -> bytes:
    """A line of a CSV file: UTF-8, quotes where they are needed, CRLF."""
    import csv
    import io

    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    # Names of files need not be text; what is not becomes an escape.
    return line.getvalue().encode("utf-8", "backslashreplace")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()

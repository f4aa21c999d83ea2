"""Cells of a CSV file: what is printed, and what a spreadsheet must not take for a formula."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from opdiff.files import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.model import Shape

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


def write_table(path: str, header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> None:
    """Write a CSV file, row by row: UTF-8, CRLF, quotes where they are needed; numbers with all their digits."""
    with whole_file(path) as file:
        # Names of files need not be text; what is not becomes an escape.
        text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="")
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.flush()
        text.detach()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()

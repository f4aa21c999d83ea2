"""CSV files: formatting of cells, protection against spreadsheet formulas, and writing."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import json

from opdiff.core.atomic_file import open_atomic
from opdiff.core.formatting import NOT_A_NUMBER, escape_controls, format_number
from opdiff.report.parts import map_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.core.tensor import Shape

    Cell = str | float | None
    # The cells of each column, of some rows.
    ColumnCells = Sequence[Sequence[Cell]]
    NumberTexts = Callable[[Sequence[float]], Sequence[str]]

_T = TypeVar("_T")

NOT_GIVEN = NOT_A_NUMBER
"""Text of an empty cell in a documented column."""

_CONTROLS = r"\x00-\x1f\x7f-\x9f"
# First characters of formulas, and their full-width forms, which some spreadsheets accept as well.
_SIGNS = "=+\\-%@＝＋－％＠"  # noqa: RUF001  the full-width forms are meant
# Characters that spreadsheets skip before a formula: blanks, and those without width, such as a byte order mark.
_SKIPPED = r"(?:\s|[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff])*"
# At the beginning of a cell. Some spreadsheets also split cells at semicolons.
_FORMULA = rf"(?:^|;)(?={_SKIPPED}[{_SIGNS}])"
# Matches nearly all cells: empty ones, words, numbers, paths and lists; words and numbers behind semicolons.
_PLAIN = re.compile(rf"(?:[\w/\[(][^;{_CONTROLS}]*(?:; ?\w[^;{_CONTROLS}]*)*)?")

# Matches a column of cells that are not escaped, and quoted only for their commas.
_PLAIN_COLUMN = rf'(?:[\w/\[(][^;"{_CONTROLS}]*)?(?:\0(?:[\w/\[(][^;"{_CONTROLS}]*)?)*'
# Characters of cells that are quoted in a CSV file.
_QUOTED = '[",]'
# Rows whose lines are made at once.
_ROWS_PER_PART = 2000


# Most cells of a column are equal: types, levels, conversions.
@lru_cache(maxsize=4096)
def escape_formula(text: str) -> str:
    """Return the text with an apostrophe before each part that a spreadsheet would execute as a formula.

    Control characters, line breaks included, become escape sequences. Numbers are returned unchanged.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = escape_controls(text)
    escaped = re.sub(_FORMULA, r"\g<0>'", text)
    return text if escaped == text or _is_number(text) else escaped


def shape_text(shape: Shape | None) -> str:
    """Return a shape as `[1,64,56,56]`; `[]` for a scalar."""
    return NOT_GIVEN if shape is None else f"[{','.join(map(str, shape))}]"


def short_numbers(numbers: Sequence[float]) -> list[str]:
    """Return numbers for display, by `format_number`."""
    return list(map(format_number, numbers))


def full_numbers(numbers: Sequence[float]) -> list[str]:
    """Return numbers with all their digits, as `str` does."""
    if set(map(type, numbers)) != {float}:
        return list(map(str, numbers))
    # All at once is several times faster, and only very small and very large numbers have another form.
    texts = json.encode(numbers)[1:-1].decode().split(",")
    return [text if 1e-4 <= abs(number) < 1e16 else str(number) for text, number in zip(texts, numbers, strict=True)]


def write_table(
    path: str, titles: Sequence[str], parts: Iterable[ColumnCells], number_texts: NumberTexts = short_numbers
) -> None:
    """Write a CSV file with the lines of `csv_lines`: the titles, then the rows of all parts."""
    with open_atomic(path) as file:
        file.write(title_line(titles))
        file.writelines(csv_lines(columns, number_texts) for columns in parts)


def title_line(titles: Sequence[str]) -> bytes:
    """Return the first line of a CSV file with at least two columns."""
    return csv_lines([[title] for title in titles], short_numbers)


def columns_of_rows(rows: Iterable[Sequence[Cell]]) -> Iterator[ColumnCells]:
    """Yield the columns of rows, some rows at a time."""
    for some in some_at_a_time(rows):
        yield list(zip(*some, strict=True))


def some_at_a_time(rows: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield consecutive rows, as many as writers hold at a time."""
    remaining = iter(rows)
    while some := list(islice(remaining, _ROWS_PER_PART)):
        yield some


def csv_lines(columns: ColumnCells, number_texts: NumberTexts) -> bytes:
    """Return lines of a CSV file with at least two columns: numbers by `number_texts`, strings by `escape_formula`.

    The lines are those that `csv` writes; made column by column, because most strings of a column are equal. Bytes of
    file names that are not UTF-8 become escape sequences.
    """
    texts = [_column_texts(cells, number_texts) for cells in columns]
    lines = map(",".join, zip(*texts, strict=True))
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "backslashreplace")


def _column_texts(cells: Sequence[Any], number_texts: NumberTexts) -> Sequence[str]:
    kinds = set(map(type, cells))
    if kinds <= {float, int}:
        return number_texts(cells)
    column = "\0".join(cells) if kinds == {str} else ""
    if kinds == {str} and column.count("\0") < len(cells) and re.fullmatch(_PLAIN_COLUMN, column):
        return [f'"{cell}"' if "," in cell else cell for cell in cells]
    if not kinds & {float, int}:
        return map_distinct(_cell_text, cells)
    numbers = iter(number_texts([cell for cell in cells if isinstance(cell, (float, int))]))
    return [next(numbers) if isinstance(cell, (float, int)) else _cell_text(cell) for cell in cells]


def _cell_text(cell: str | None) -> str:
    if cell is None:
        return ""
    text = escape_formula(str(cell))
    return '"' + text.replace('"', '""') + '"' if re.search(_QUOTED, text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()

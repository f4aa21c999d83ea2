"""Tables of the documents."""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(?:^ *\|.*\n)+", re.MULTILINE)
# Also in code, a bar separates cells unless it is escaped.
_BAR = re.compile(r"(?<!\\)\|")


class Table(NamedTuple):
    """Headings and rows of a table, cell by cell."""

    headings: list[str]
    rows: list[list[str]]


def tables_of(text: str) -> list[Table]:
    """Return the tables of a page."""
    found = []
    for block in _TABLE.findall(_FENCE.sub("", text)):
        headings, _, *rows = ([cell.strip() for cell in _BAR.split(line)[1:-1]] for line in block.splitlines())
        found.append(Table(headings, rows))
    return found

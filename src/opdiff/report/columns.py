"""Texts in columns of a terminal, where Chinese characters take two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Words, and characters that are words of their own; punctuation stays with what it opens or closes.
_OPENING, _CLOSING = r"\uff08\u300a\u201c", r"\uff0c\u3002\uff1b\uff1a\uff01\uff1f\u3001\uff09\u300b\u201d"
_WORDS = rf" |[{_OPENING}]*(?:[\x21-\x7e]+|[^\x20-\x7e])[{_CLOSING}]* ?"


def columns_of(text: str) -> int:
    """Return the width of a text on a terminal."""
    from unicodedata import east_asian_width

    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def padded(text: str, width: int) -> str:
    """Return a text with blanks behind it, up to a width."""
    return text + " " * max(width - columns_of(text), 0)


def wrapped_lines(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a text in lines of a width; all but the first are indented."""
    line, used = "", 0
    for word in re.findall(_WORDS, text):
        columns = columns_of(word.rstrip())
        if line and used + columns > width:
            yield line.rstrip()
            line, used = indent, len(indent)
        line += word
        used += columns + (word[-1] == " ")
    yield line.rstrip()


def cut_middle(text: str, width: int, end: int) -> str:
    """Return the beginning and the end, of `end` columns, of a text that is too long: names differ at their ends."""
    if columns_of(text) <= width:
        return text
    return f"{_first(text, width - end - 1)}…{_first(text[::-1], end)[::-1]}"


def _first(text: str, width: int) -> str:
    used = 0
    for number, one in enumerate(text):
        used += columns_of(one)
        if used > width:
            return text[:number]
    return text

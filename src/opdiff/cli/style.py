"""Lines of a summary for a terminal: coloured, and no longer than it is wide. What is piped stays as it is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdiff.report.rows import SavedComparison

_RED, _YELLOW, _GREEN, _FAINT = "31", "33", "32", "2"
# How lines begin, and their colours.
_COLOURS = {
    "not finite:": _RED,
    "cosine below": _RED,
    "  [": _RED,
    "scale more": _YELLOW,
    "cosine:": _GREEN,
    "not compared:": _FAINT,
    "worse:": _RED,
    "vanished:": _YELLOW,
    "better:": _GREEN,
}
_TO_BE_COPIED = ("result:", "report:", "next:", "remedy:")
_LEAST_COLUMNS = 20
_USUAL_COLUMNS = 80


def is_coloured() -> bool:
    """Whether standard output is a terminal that shows colours, and nobody objects (`NO_COLOR`)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def dressed(line: str) -> str:
    """A printable line, as the terminal gets it."""
    if not sys.stdout.isatty():
        return line
    line = _cut(line, _columns())
    colour = next((colour for start, colour in _COLOURS.items() if line.startswith(start)), "")
    return f"\x1b[{colour}m{line}\x1b[0m" if colour and is_coloured() else line


def curve_lines(kept: SavedComparison) -> tuple[str, ...]:
    """The accuracy along the execution; nothing where the letters for it cannot be had."""
    from opdiff.report.sparkline import sparkline

    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return ()
    title = "curve: "
    bars = sparkline(kept, min(_columns(), _USUAL_COLUMNS) - len(title), colour=is_coloured())
    return (title + bars,) if bars else ()


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_COLUMNS, _LEAST_COLUMNS)
    except (OSError, ValueError):  # not a terminal, or not even a file
        return _USUAL_COLUMNS


def _cut(line: str, columns: int) -> str:
    """The beginning and the end of a line that is too long: names end with what tells them apart.

    What is meant to be copied stays whole: paths and commands.
    """
    if len(line) <= columns or line.startswith(_TO_BE_COPIED):
        return line
    end = columns // 2
    return f"{line[: columns - end - 1]}…{line[-end:]}"

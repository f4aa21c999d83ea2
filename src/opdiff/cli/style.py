"""Lines of a summary on a terminal, coloured and cut to its width. Piped lines are unchanged."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from opdiff.cli.terminal import printable
from opdiff.core.reasons import Reason, render
from opdiff.report.summary_text import Tone

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Language
    from opdiff.report.summary_text import SummaryLine

_COLOURS = {Tone.BAD: "31", Tone.WARNING: "33", Tone.GOOD: "32", Tone.FAINT: "2"}
_MIN_COLUMNS = 20
_DEFAULT_COLUMNS = 80


def is_coloured() -> bool:
    """Return whether standard output is a terminal with colours, and `NO_COLOR` is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(line: SummaryLine) -> str:
    """Return a line as standard output shows it: printable, and on a terminal coloured and cut to its width."""
    text = printable(line.text)
    if not sys.stdout.isatty():
        return text
    text = text if line.must_be_whole else _cut(text, _columns())
    colour = _COLOURS.get(line.tone)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and is_coloured() else text


def curve_lines(comparison: Comparison, language: Language) -> tuple[str, ...]:
    """Return the accuracy along the execution; nothing where the characters for it cannot be shown."""
    from opdiff.report.sparkline import sparkline

    # A progress bar stands in for standard output, and does not tell the encoding.
    encoding = sys.stdout.encoding or (sys.__stdout__.encoding if sys.__stdout__ else "")
    if encoding.lower().replace("-", "") != "utf8":
        return ()
    title = render(Reason("report.curve"), language)
    bars = sparkline(comparison, min(_columns(), _DEFAULT_COLUMNS) - 2 - len(title), colour=is_coloured())
    return (title + bars,) if bars else ()


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns or _DEFAULT_COLUMNS, _MIN_COLUMNS)
    except (OSError, ValueError):  # not a terminal, or not even a file
        return _DEFAULT_COLUMNS


def _cut(line: str, columns: int) -> str:
    """Return the beginning and the end of a line that is too long: names differ at their ends."""
    if len(line) <= columns:
        return line
    end = columns // 2
    return f"{line[: columns - end - 1]}…{line[-end:]}"

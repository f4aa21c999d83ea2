"""Lines of a summary on a terminal, coloured and cut to its width. Piped lines are unchanged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opdiff.cli.terminal import columns, is_coloured
from opdiff.core.formatting import printable
from opdiff.core.reasons import Reason, render
from opdiff.report.columns import columns_of, cut_middle
from opdiff.report.summary_text import Tone

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Language
    from opdiff.report.summary_text import SummaryLine

_COLOURS = {Tone.BAD: "31", Tone.WARNING: "33", Tone.GOOD: "32", Tone.FAINT: "2"}
_MAX_CURVE_WIDTH = 80


def styled(line: SummaryLine) -> str:
    """Return a line as standard output shows it: printable, coloured, and on a terminal cut to its width."""
    text = printable(line.text)
    text = cut_middle(text, columns(), columns() // 2) if sys.stdout.isatty() and not line.must_be_whole else text
    colour = _COLOURS.get(line.tone)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and is_coloured() else text


def curve_lines(comparison: Comparison, language: Language) -> tuple[str, ...]:
    """Return the accuracy along the execution; nothing where the characters for it cannot be shown."""
    from opdiff.report.curve import sparkline

    # A progress bar stands in for standard output, and does not tell the encoding.
    encoding = sys.stdout.encoding or (sys.__stdout__.encoding if sys.__stdout__ else "")
    if encoding.lower().replace("-", "") != "utf8":
        return ()
    title = render(Reason("report.curve"), language)
    bars = sparkline(comparison, min(columns(), _MAX_CURVE_WIDTH) - 2 - columns_of(title), colour=is_coloured())
    return (title + bars,) if bars else ()

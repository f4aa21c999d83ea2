"""What the terminal shows of a comparison: the verdict, the operators at fault, the curve, files, the next command.

On a terminal, lines are coloured and cut to its width. Piped lines are unchanged.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opdiff.cli.language import in_language, language, said
from opdiff.cli.terminal import columns, is_coloured
from opdiff.core.comparison import Mode
from opdiff.core.formatting import printable
from opdiff.report.columns import columns_of, cut_middle
from opdiff.report.summary_text import SummaryLine, Tone, one_line, summary_lines, warning_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.cli.report_options import MessageOptions
    from opdiff.core.comparison import Comparison
    from opdiff.workflows.compare.outputs import OutputFiles
    from opdiff.workflows.compare.pipeline import ComparisonResult


_COLOURS = {Tone.BAD: "31", Tone.WARNING: "33", Tone.GOOD: "32", Tone.FAINT: "2"}
_MAX_CURVE_WIDTH = 80


def styled(line: SummaryLine) -> str:
    """Return a line as standard output shows it: printable, coloured, and on a terminal cut to its width."""
    text = printable(line.text)
    text = cut_middle(text, columns(), columns() // 2) if sys.stdout.isatty() and not line.must_be_whole else text
    colour = _COLOURS.get(line.tone)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and is_coloured() else text


def result_lines(result: ComparisonResult, files: OutputFiles, messages: MessageOptions) -> Iterator[str]:
    """Yield the lines about one result as the terminal shows them."""
    comparison = result.comparison
    if messages.quiet:
        path = next(iter((*files.tables, *files.reports)), "")
        yield from map(styled, warning_lines(comparison, language()))
        yield styled(one_line(comparison, path, language()))
        yield from map(styled, remedy_lines(comparison, messages.remedies))
        return
    yield from map(styled, _note_lines(comparison))
    yield from map(styled, summary_lines(comparison, language(), has_details=messages.verbose))
    yield from curve_lines(comparison) if comparison.mode is Mode.OFFLINE else ()
    yield from map(styled, _file_lines(files))
    yield from map(styled, next_lines(comparison, messages.remedies))


def _note_lines(comparison: Comparison) -> Iterator[SummaryLine]:
    if comparison.mode is Mode.GRAPH:
        yield SummaryLine(in_language(comparison.scenario))
        yield from (SummaryLine(said("report.note", note=note)) for note in comparison.notes)
    else:
        yield from (SummaryLine(in_language(note)) for note in comparison.notes)


def _file_lines(files: OutputFiles) -> Iterator[SummaryLine]:
    yield from (file_line("result", path) for path in files.tables)
    if files.summary:
        yield file_line("summary", files.summary)
    yield from (file_line("report", path) for path in files.reports)
    yield from (SummaryLine(in_language(note), Tone.WARNING, must_be_whole=True) for note in files.notes)


def file_line(kind: str, path: str) -> SummaryLine:
    """Return the line about a written file."""
    return SummaryLine(said(f"report.{kind}_file", path=path), must_be_whole=True)


def next_lines(comparison: Comparison, remedies: str) -> Iterator[SummaryLine]:
    """Yield the next command, and the files of remedies that are written to a folder, if any is given."""
    from opdiff.workflows.compare.follow_up import next_step

    command = next_step(comparison)
    if command:
        yield SummaryLine(said("report.next_command", command=command), must_be_whole=True)
    yield from remedy_lines(comparison, remedies)


def remedy_lines(comparison: Comparison, remedies: str) -> Iterator[SummaryLine]:
    """Write the remedies to a folder, if one is given, and yield the written files."""
    from opdiff.workflows.compare.follow_up import write_remedies

    if not remedies:
        return
    paths = write_remedies(comparison, remedies)
    yield from (file_line("remedy", path) for path in paths)
    if not paths:
        yield SummaryLine(said("report.no_remedy_files"))


def curve_lines(comparison: Comparison) -> tuple[str, ...]:
    """Return the accuracy along the execution; nothing where the characters for it cannot be shown."""
    from opdiff.report.curve import sparkline

    # A progress bar stands in for standard output, and does not tell the encoding.
    encoding = sys.stdout.encoding or (sys.__stdout__.encoding if sys.__stdout__ else "")
    if encoding.lower().replace("-", "") != "utf8":
        return ()
    title = said("report.curve")
    bars = sparkline(comparison, min(columns(), _MAX_CURVE_WIDTH) - 2 - columns_of(title), colour=is_coloured())
    return (title + bars,) if bars else ()

"""What the terminal shows of a comparison: the verdict, the operators at fault, the curve, files, the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.style import curve_lines, styled
from opdiff.core.comparison import Mode
from opdiff.core.reasons import Language, because, render
from opdiff.report.summary_text import SummaryLine, one_line, summary_lines, warning_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.cli.report_options import MessageOptions
    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason
    from opdiff.workflows.compare.outputs import OutputFiles
    from opdiff.workflows.compare.pipeline import ComparisonResult


def result_lines(result: ComparisonResult, files: OutputFiles, messages: MessageOptions) -> Iterator[str]:
    """Yield the lines about one result as the terminal shows them."""
    comparison, language = result.comparison, Language(messages.language)
    if messages.quiet:
        path = next(iter((*files.tables, *files.reports)), "")
        yield from map(styled, warning_lines(comparison, language))
        yield styled(one_line(comparison, path, language))
        yield from map(styled, remedy_lines(comparison, messages.remedies, language))
        return
    yield from map(styled, _note_lines(comparison, language))
    yield from map(styled, summary_lines(comparison, language, has_details=messages.verbose))
    yield from curve_lines(comparison, language) if comparison.mode is Mode.OFFLINE else ()
    yield from map(styled, _file_lines(files, language))
    yield from map(styled, next_lines(comparison, messages.remedies, language))


def _note_lines(comparison: Comparison, language: Language) -> Iterator[SummaryLine]:
    if comparison.mode is Mode.GRAPH:
        yield SummaryLine(render(comparison.scenario, language))
        yield from (SummaryLine(render(because("report.note", note=note), language)) for note in comparison.notes)
    else:
        yield from (SummaryLine(render(note, language)) for note in comparison.notes)


def _file_lines(files: OutputFiles, language: Language) -> Iterator[SummaryLine]:
    yield from (_whole(because("report.result_file", path=path), language) for path in files.tables)
    if files.summary:
        yield _whole(because("report.summary_file", path=files.summary), language)
    yield from (_whole(because("report.report_file", path=path), language) for path in files.reports)


def next_lines(comparison: Comparison, remedies: str, language: Language) -> Iterator[SummaryLine]:
    """Yield the next command, and the files of remedies that are written to a folder, if any is given."""
    from opdiff.workflows.compare.follow_up import next_step

    command = next_step(comparison)
    if command:
        yield _whole(because("report.next_command", command=command), language)
    yield from remedy_lines(comparison, remedies, language)


def remedy_lines(comparison: Comparison, remedies: str, language: Language) -> Iterator[SummaryLine]:
    """Write the remedies to a folder, if one is given, and yield the written files."""
    from opdiff.workflows.compare.follow_up import write_remedies

    if not remedies:
        return
    paths = write_remedies(comparison, remedies)
    yield from (_whole(because("report.remedy_file", path=path), language) for path in paths)
    if not paths:
        yield SummaryLine(render(because("report.no_remedy_files"), language))


def _whole(reason: Reason, language: Language) -> SummaryLine:
    return SummaryLine(render(reason, language), must_be_whole=True)

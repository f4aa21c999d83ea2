"""`opdiff diff`: show what changed between two saved comparisons."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said, worded
from opdiff.cli.terminal import write_json
from opdiff.core.comparison import Environment
from opdiff.core.errors import UsageError
from opdiff.core.formatting import format_number, printable
from opdiff.core.judgement import changed_limits
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.core.judgement import Level
    from opdiff.report.changes import Change, Changes
    from opdiff.report.summary_text import SummaryLine

DESCRIPTION = """\
Compare two saved comparisons of the same model, for example before and after a new version: tensors that became worse
or better, appeared or vanished. OLD and NEW are the JSON files next to the result files, or their directories."""
EPILOG = """\
examples:
  opdiff diff old/result_20240115103052.json new/result_20240116090000.json
  opdiff diff OLD.json NEW.json --fail-on worse
  opdiff diff OLD.json NEW.json --html report.html
"""
_MAX_CHANGES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("old", metavar="OLD", help="the earlier comparison (JSON), or its directory")
    parser.add_argument("new", metavar="NEW", help="the later comparison (JSON), or its directory")
    add_json(parser)
    parser.add_argument("--html", metavar="FILE", default="", help="write the report of NEW with the changes")
    parser.add_argument(
        "--fail-on", choices=("worse",), default="", metavar="worse",
        help="exit with 1 if a tensor became worse, is new and bad, or is not compared any more",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print what changed, and return the exit code."""
    from opdiff.cli.result_text import styled
    from opdiff.report.changes import find_changes
    from opdiff.report.html_page import write_html
    from opdiff.workflows.compare.saved import load_saved

    for saved in (args.old, args.new):
        if os.path.exists(args.html) and os.path.samefile(args.html, saved):
            raise UsageError(because("cli.html_replaces_saved", path=args.html))
    old, new = (load_saved([path]) for path in (args.old, args.new))
    if old.mode is not new.mode:
        raise UsageError(because("cli.modes_differ"))
    changes = find_changes(old, new)
    for line in _lines(changes) if args.json != "-" else ():
        print(styled(line))
    if args.json:
        write_json(args.json, changes)
    if args.html:
        write_html(new, args.html, changes=changes)
        if args.json != "-":
            print(printable(said("report.report_file", path=args.html)))
    losses = changes.losses() if args.fail_on else {}
    if losses:
        listed = ", ".join(_labelled(description, count) for description, count in losses.items())
        print(f"opdiff: {said('cli.diff_gate', losses=listed)}", file=sys.stderr)
    return ExitCode.GATE if losses else ExitCode.OK


def _lines(changes: Changes) -> Iterator[SummaryLine]:
    from opdiff.report.changes import ChangeKind
    from opdiff.report.summary_text import SummaryLine, Tone

    tones = {ChangeKind.WORSE: Tone.BAD, ChangeKind.VANISHED: Tone.WARNING, ChangeKind.BETTER: Tone.GOOD}
    for name, environment, limits in zip(("old", "new"), (changes.old, changes.new), changes.limits, strict=True):
        if environment != Environment():
            run = {"version": environment.opdiff, "kernel": environment.kernel, "time": environment.time}
            yield SummaryLine(_labelled(name, said("cli.run_of", **run)))
        yield from (SummaryLine(_labelled(name, in_language(note))) for note in changed_limits(limits))
    yield from (SummaryLine(in_language(fault)) for fault in changes.faults)
    for kind in ChangeKind:
        found = changes.of(kind)
        yield SummaryLine(_labelled(kind, len(found)), tones.get(kind, Tone.PLAIN))
        yield from (SummaryLine(f"  {_line(change)}") for change in found[:_MAX_CHANGES])
        if len(found) > _MAX_CHANGES:
            yield SummaryLine(f" {said('core.and_more', count=len(found) - _MAX_CHANGES)}")
    yield SummaryLine(said("cli.as_before", count=changes.same, others=changes.other_numbers))


def _labelled(name: str, value: str | int) -> str:
    return said("cli.labelled", name=worded(name), value=value)


def _line(change: Change) -> str:
    levels = " -> ".join(_level(level) for level in (change.before, change.after))
    cosines = (change.cosine_before, change.cosine_after)
    shown = " -> ".join("-" if cosine is None else format_number(cosine) for cosine in cosines)
    reason = f", {in_language(change.reason)}" if change.reason else ""
    return f"{change.full_name}: {levels}, {said('cli.cosine', values=shown)}{reason}"


def _level(level: Level | None) -> str:
    return said(f"report.level_{level.replace(' ', '_')}") if level else "-"

"""`opdiff judge`: judge a comparison that was saved once more, without the dumps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_judging
from opdiff.cli.exit_codes import ExitCode
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.core.comparison import Finding
    from opdiff.report.rows import SavedComparison

DESCRIPTION = """\
Judge a comparison again: how good every tensor is, which operator is at fault, what kind of error it is, what to do.
The JSON file that compare wrote is enough; limits may be other ones."""
EPILOG = """\
examples:
  opdiff judge result_20240115103052.json
  opdiff judge result_20240115103052.json --limits strict.toml --lang zh
  opdiff judge result_20240115103052.json -o judged.json --remedies fixes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("saved", metavar="JSON", help="a comparison that was saved")
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="save the comparison with its new judgement")
    add_judging(parser)


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code."""
    from opdiff import __version__
    from opdiff.cli.terminal import printable
    from opdiff.report.graph_json import SCHEMA, schema_of
    from opdiff.report.saved_json import load, save
    from opdiff.report.summary_text import summary_lines
    from opdiff.workflows.compare.pipeline import find_limits, judged

    if schema_of(args.saved) == SCHEMA:
        raise UsageError(
            "a result of graph mode is judged when reports are made of it: opdiff report FOLDER --limits FILE"
        )
    kept = judged(load(args.saved), find_limits(args.limits))
    lines = [*summary_lines(kept, lang=args.lang), *finding_lines(kept, args.lang)]
    for line in lines:
        print(printable(line))
    if args.output:
        save(kept, args.output, made_by=f"opdiff {__version__}")
    for line in write_remedies(kept, args.remedies) if args.remedies else ():
        print(printable(line))
    return ExitCode.OK


def finding_lines(kept: SavedComparison, lang: str = "en") -> Iterator[str]:
    """Every finding with its evidence."""
    from opdiff.core.reasons import Language, render
    from opdiff.judge.remedies import next_command

    language = Language(lang)
    findings = kept.judgement.findings if kept.judgement else ()
    for number, finding in enumerate(findings, 1):
        yield f"{number}. {finding.tensor} ({finding.op_type}): {finding.kind}, {finding.level}{_reach(finding)}"
        yield from (f"   {render(reason, language)}" for reason in finding.evidence)
        yield from (f"   try: {render(reason, language)}" for reason in finding.remedies)
        if len(finding.path) > 1:
            yield f"   way: {' > '.join(finding.path)}"
    if findings:
        yield f"next: {next_command(kept.target.path, kept.golden.path, findings[0])} (and --rules, if there were some)"


def _reach(finding: Finding) -> str:
    return "" if finding.share is None else f", {finding.share:.0%} of the outputs' error"


def write_remedies(kept: SavedComparison, folder: str) -> Iterator[str]:
    """Write the files that help, and tell their paths."""
    from opdiff.core.atomic_file import make_folder, whole_file
    from opdiff.judge.remedies import files_of

    make_folder(folder)
    files = files_of(kept.judgement.findings if kept.judgement else ())
    for name, content in files.items():
        path = os.path.join(folder, name)
        with whole_file(path) as file:
            file.write(content.encode(errors="backslashreplace"))
        yield f"remedy: {path}"
    if not files:
        yield "remedies: none that can be written to a file"

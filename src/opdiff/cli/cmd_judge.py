"""`opdiff judge`: judge a saved comparison again, without the dumps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json, add_judging
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, language, said
from opdiff.cli.report_options import write_answer
from opdiff.core.formatting import printable
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Finding
    from opdiff.core.reasons import Reason

DESCRIPTION = """\
Judge a saved comparison again, with the same or other limits: a level for every tensor, the operators at fault, the
kind of each error and its remedies. Only the JSON file that compare wrote is needed."""
EPILOG = """\
examples:
  opdiff judge result_20240115103052.json
  opdiff judge result_20240115103052.json --limits strict.toml --lang zh
  opdiff judge result_20240115103052.json -o judged.json --remedies fixes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("saved", metavar="JSON", help="saved comparison, or its directory")
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="save the comparison with its new judgement")
    add_json(parser, "the answer for machines")
    add_judging(parser)


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code."""
    from opdiff.cli.result_text import next_lines, styled
    from opdiff.report.saved_json import save
    from opdiff.report.summary_text import summary_lines
    from opdiff.workflows.compare.rejudging import judge_again
    from opdiff.workflows.compare.saved import load_saved
    from opdiff.workflows.limits_file import find_limits

    comparison = judge_again(load_saved([args.saved]), find_limits(args.limits))
    # If the answer goes to standard output, nothing else does.
    stream = sys.stderr if args.json == "-" else sys.stdout
    for line in summary_lines(comparison, language()):
        print(printable(line.text), file=stream)
    for text in _finding_lines(comparison):
        print(printable(text), file=stream)
    for line in next_lines(comparison, args.remedies):
        print(styled(line), file=stream)
    if args.json:
        write_answer(comparison, args.json)
    if args.output:
        save(comparison, args.output)
    for defect in dict.fromkeys(comparison.judgement.defects):
        print(defect, file=sys.stderr)
    return ExitCode.DEFECT if comparison.judgement.defects else ExitCode.OK


def _finding_lines(comparison: Comparison) -> Iterator[str]:
    """Yield every finding with its evidence."""
    from opdiff.report.summary_text import kind_text

    for number, finding in enumerate(comparison.judgement.findings, 1):
        level = said(f"report.level_{finding.level.replace(' ', '_')}")
        yield f"{number}. {finding.tensor} ({finding.op_type}): {kind_text(finding, language())}, {level}"
        yield from (f"   {in_language(reason)}" for reason in _details(finding))


def _details(finding: Finding) -> Iterator[Reason]:
    yield from finding.evidence
    if finding.share is not None:
        yield because("judge.finding_share", share=finding.share)
    yield from (because("judge.finding_remedy", remedy=remedy) for remedy in finding.remedies)
    if len(finding.path) > 1:
        yield because("judge.finding_path", path=" > ".join(finding.path))

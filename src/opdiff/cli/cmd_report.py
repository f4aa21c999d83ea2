"""`opdiff report`: write the reports of a saved comparison."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said
from opdiff.cli.report_options import add_gate, add_report_options, chosen_reports, print_refused, write_answer
from opdiff.cli.terminal import open_page
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.report import FORMS, find_forms

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison

DESCRIPTION = """\
Write reports of a saved comparison, the JSON file next to every result file. The HTML report is one file that works
without network and server."""
EPILOG = """\
examples:
  opdiff report result_20240115103052.json
  opdiff report result_20240115103052.json -o report.html
  opdiff report result_20240115103052.json --no-html --junit --fail-on wrong
  opdiff report result_20240115103052.json --no-html --fail-on release.toml
  opdiff report out                                        the comparison in this directory
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("saved", metavar="JSON", nargs="+", help="a saved comparison, or its directory")
    parser.add_argument(
        "-o", "--output", metavar="PATH", default="",
        help="directory of the reports, or file of the HTML report; default: next to the JSON",
    )  # fmt: skip
    parser.add_argument("--limits", metavar="FILE", default="", help="judge again by these limits (TOML)")
    add_json(parser, "the answer for machines")
    add_gate(parser)
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the reports, and return the exit code."""
    from opdiff.workflows.compare.rejudging import judge_again
    from opdiff.workflows.compare.saved import load_saved, saved_files
    from opdiff.workflows.limits_file import find_limits

    files = saved_files(args.saved)
    _check_output(args, files)
    comparison = load_saved(files, args.limits)
    if args.limits:
        comparison = judge_again(comparison, find_limits(args.limits))
    paths = list(_write_reports(args, comparison, files[0]))
    for path in paths:
        print(printable(said("report.report_file", path=path)), file=sys.stderr if args.json == "-" else sys.stdout)
    if args.json:
        write_answer(comparison, args.json)
    if args.open:
        open_page(paths[0])
    return _exit_code(args, comparison)


def _write_reports(args: argparse.Namespace, comparison: Comparison, saved: str) -> Iterator[str]:
    """Write the reports, and yield their paths."""
    from opdiff.report.file_names import write_new
    from opdiff.workflows.compare.saved import report_stem

    is_folder = os.path.isdir(args.output)
    folder, stem = args.output if is_folder else os.path.dirname(saved), report_stem(saved)
    for form in find_forms(chosen_reports(args), comparison.mode):
        if args.output and not is_folder and form is FORMS[0]:
            form.write(comparison, args.output)
            yield args.output
        else:
            yield write_new(folder, form.file_name(stem), partial(form.write, comparison))


def _exit_code(args: argparse.Namespace, comparison: Comparison) -> int:
    if args.fail_on is None:
        return ExitCode.OK
    if all(level is Level.NOT_COMPARABLE for level, _ in comparison.judgement.marks()):
        print(f"opdiff: {said('cli.gate_without_rows')}", file=sys.stderr)
        return ExitCode.UNUSABLE_INPUT
    refused = args.fail_on.refused(comparison)
    if not refused:
        return ExitCode.OK
    print_refused(args.fail_on, refused)
    return ExitCode.GATE


def _check_output(args: argparse.Namespace, files: Sequence[str]) -> None:
    if args.output and args.no_html and not os.path.isdir(args.output):
        raise UsageError(because("cli.output_without_html"))
    if os.path.exists(args.output) and any(os.path.samefile(args.output, file) for file in files):
        raise UsageError(because("cli.report_replaces_saved", output=args.output))

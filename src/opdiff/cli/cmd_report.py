"""`opdiff report`: the reports of a comparison that was saved."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.report_options import add_gate, add_report_options, wanted_reports
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DESCRIPTION = """\
Make reports of a comparison that was saved: the JSON file beside every result file has everything they need. The HTML
report is one file that works without network and server. Graph mode saves a file for each rank and graph: give those of
one run, or their folder."""
EPILOG = """\
examples:
  opdiff report result_20240115103052.json
  opdiff report result_20240115103052.json -o report.html
  opdiff report result_20240115103052.json --no-html --junit --fail-on wrong
  opdiff report result_20240115103052.json --no-html --fail-on release.toml
  opdiff report out/msprobe_cmp_report_*.json              graph mode: all ranks in one report
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "saved", metavar="JSON", nargs="+", help="a comparison that was saved; in graph mode all files of a run"
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="the HTML report; default: beside the JSON")
    parser.add_argument("--limits", metavar="FILE", default="", help="graph mode: limits of your own (TOML)")
    add_gate(parser)
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the reports, and return the exit code."""
    from opdiff.cli.terminal import printable
    from opdiff.report.file_names import write_new
    from opdiff.report.judged import NOT_COMPARABLE, levels_of
    from opdiff.workflows.compare.graph_reports import is_of_graph_mode, load_saved, report_stem, saved_files
    from opdiff.workflows.compare.outputs import report_name, write_page, write_report

    reports = wanted_reports(args)
    files = saved_files(args.saved)
    _refuse(args, files, in_graph_mode=is_of_graph_mode(files))
    kept = load_saved(files, args.limits)
    folder, name = os.path.split(files[0])
    stem = report_stem(name) if kept.graph_mode is not None else os.path.splitext(name)[0]
    for kind in reports.kinds:
        if kind == "html" and args.output:
            write_page(kept, path := args.output)
        else:
            path = write_new(folder, report_name(stem, kind), partial(write_report, kind, kept))
        print(printable(f"report: {path}"))
    if args.fail_on is None:
        return ExitCode.OK
    if all(level == NOT_COMPARABLE for level in levels_of(kept)):
        print("opdiff: nothing was compared, so that no gate can be passed", file=sys.stderr)
        return ExitCode.UNUSABLE_INPUT
    if not args.fail_on.is_hit(kept):
        return ExitCode.OK
    print(printable(f"opdiff: {args.fail_on}"), file=sys.stderr)
    return ExitCode.GATE


def _refuse(args: argparse.Namespace, files: Sequence[str], *, in_graph_mode: bool) -> None:
    if args.output and args.no_html:
        raise UsageError("-o is the name of the HTML report, and --no-html says that there is none")
    if os.path.exists(args.output) and any(os.path.samefile(args.output, file) for file in files):
        raise UsageError(f"-o {args.output} would replace the saved comparison by its report")
    if in_graph_mode and args.model_explorer:
        raise UsageError("--model-explorer has one value for each operator; a result of graph mode has one a token")
    if not in_graph_mode and args.limits:
        raise UsageError("--limits is for results of graph mode; opdiff judge judges other comparisons again")

"""`opdiff report`: the reports of a comparison that was saved."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from opdiff.cli.report_options import EXIT_GATE, add_gate, add_report_options, wanted_reports

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Make reports of a comparison that was saved: the JSON file beside every result file has everything they need. The HTML
report is one file that works without network and server."""
EPILOG = """\
examples:
  opdiff report result_20240115103052.json
  opdiff report result_20240115103052.json -o report.html
  opdiff report result_20240115103052.json --no-html --junit --fail-on wrong
  opdiff report result_20240115103052.json --no-html --fail-on release.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("saved", metavar="JSON", help="a comparison that was saved")
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="the HTML report; default: beside the JSON")
    add_gate(parser)
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the reports, and return the exit code."""
    from opdiff.cli.terminal import printable
    from opdiff.report.as_json import load
    from opdiff.report.names import write_new
    from opdiff.reporting import report_name, write_page, write_report

    reports = wanted_reports(args)
    kept = load(args.saved)
    folder, name = os.path.split(args.saved)
    stem = os.path.splitext(name)[0]
    for kind in reports.kinds:
        if kind == "html" and args.output:
            write_page(kept, path := args.output)
        else:
            path = write_new(folder, report_name(stem, kind), partial(write_report, kind, kept))
        print(printable(f"report: {path}"))
    if args.fail_on is None or not args.fail_on.is_hit(kept):
        return 0
    print(printable(f"opdiff: {args.fail_on}"), file=sys.stderr)
    return EXIT_GATE

"""Options of the commands that write reports, and of those that fail when a result is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from opdiff.reporting import Reports

EXIT_GATE = 1


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Describe which reports can be had."""
    group = parser.add_argument_group("reports", "beside the result file; the HTML report is always written")
    group.add_argument("--no-html", action="store_true", help="no HTML report")
    group.add_argument("--xlsx", action="store_true", help="a workbook, rows coloured by level; needs xlsxwriter")
    group.add_argument("--parquet", action="store_true", help="a Parquet file with all figures; needs pyarrow")
    group.add_argument("--junit", action="store_true", help="a JUnit file: a test case for each operator")
    group.add_argument("--model-explorer", action="store_true", help="node data for Model Explorer, by operator name")


def wanted_reports(args: argparse.Namespace) -> Reports:
    """The reports that were asked for.

    Raises:
        UsageError: a package is missing that one of them needs.
    """
    from opdiff.reporting import Reports, require

    reports = Reports(not args.no_html, args.xlsx, args.parquet, args.junit, args.model_explorer)
    if reports.xlsx or reports.parquet:
        require(reports)
    return reports


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Describe the gate of a comparison."""
    parser.add_argument(
        "--fail-on", choices=("wrong", "suspicious"), default="", metavar="LEVEL",
        help="exit with 1 when a tensor is wrong, or at least suspicious",
    )  # fmt: skip

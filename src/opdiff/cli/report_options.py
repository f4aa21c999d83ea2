"""Options of the commands that write reports, and of those that fail when a result is bad."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

    from opdiff.judge.limits import Limits
    from opdiff.report.rows import SavedComparison
    from opdiff.workflows.compare.outputs import Reports

# The levels that may be refused, in words.
_GATES = {"wrong": "wrong", "suspicious": "suspicious or worse"}


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Describe which reports can be had."""
    group = parser.add_argument_group("reports", "beside the result file; the HTML report is written by default")
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
    from opdiff.workflows.compare.outputs import Reports, require

    reports = Reports(not args.no_html, args.xlsx, args.parquet, args.junit, args.model_explorer)
    if reports.xlsx or reports.parquet:
        require(reports)
    return reports


class Gate(NamedTuple):
    """When a comparison fails: a tensor is at this level, or worse, by the judgement or by limits of the gate's own."""

    level: str
    limits: Limits | None = None

    def is_hit(self, kept: SavedComparison) -> bool:
        """Whether there is such a tensor."""
        from opdiff.report.judged import is_hit, levels_of

        if self.limits is not None and kept.graph_mode is not None:
            from opdiff.workflows.compare.graph_reports import judged_again

            kept = judged_again(kept, self.limits)
        elif self.limits is not None:
            from opdiff.workflows.compare.pipeline import judged

            kept = judged(kept, self.limits)
        return is_hit(self.level, levels_of(kept))

    def __str__(self) -> str:
        """What is said when it is hit."""
        by = f" by {self.limits.path}" if self.limits else ""
        return f"the gate is hit: there are tensors that are {_GATES[self.level]}{by}"


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Describe the gate of a comparison."""
    parser.add_argument(
        "--fail-on", type=_gate, metavar="LEVEL",
        help="exit with 1 when a tensor is wrong, at least suspicious, or wrong by the limits in this file (TOML)",
    )  # fmt: skip


def _gate(text: str) -> Gate:
    from opdiff.core.errors import InputError
    from opdiff.judge.limits import read_limits

    if text in _GATES:
        return Gate(text)
    if not os.path.exists(text):
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(_GATES)}, nor a file of limits that is there")
    try:
        return Gate("wrong", read_limits(text))
    except InputError as error:
        raise ArgumentTypeError(str(error)) from error

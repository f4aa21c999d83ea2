"""Options of commands that write reports, and the gate by which they fail."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import write_document
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.report import FORMS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason

_GATES = (Level.WRONG, Level.SUSPICIOUS)
_MAX_NAMES = 5


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Describe the forms of report."""
    default, *others = FORMS
    title = f"in addition to the result file; {default.help} is written by default"
    group = parser.add_argument_group("reports", title)
    group.add_argument(f"--no-{default.name}", action="store_true", help=f"without {default.help}")
    for form in others:
        group.add_argument(f"--{form.name}", action="store_true", help=form.help)
    group.add_argument("--open", action="store_true", help=f"open {default.help} in the browser")


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """Describe how many tensors the HTML report shows as pictures."""
    parser.add_argument(
        "--pictures", metavar="N", default="",
        help="tensors that the HTML report shows as pictures: all bad ones, none, or the worst N; default: up to 1 MB",
    )  # fmt: skip


def chosen_reports(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the forms that were asked for.

    Raises:
        UsageError: the report that is to be opened is not among them.
    """
    default, *others = FORMS
    names = [] if getattr(args, f"no_{default.name}") else [default.name]
    if args.open and not names:
        raise UsageError(because("cli.nothing_to_open", name=default.name))
    return (*names, *(form.name for form in others if getattr(args, form.name.replace("-", "_"))))


class Gate(Struct, frozen=True):
    """Level from which on a comparison fails, by its judgement or by the limits of another file."""

    level: Level
    limits: str = ""

    def refused(self, comparison: Comparison) -> tuple[str, ...]:
        """Return the operator of each tensor that is at this level, or worse."""
        if self.limits:
            from opdiff.workflows.compare.rejudging import judge_again
            from opdiff.workflows.limits_file import find_limits

            comparison = judge_again(comparison, find_limits(self.limits))
        levels = (self.level, Level.WRONG)
        numbers = [number for number, (level, _) in enumerate(comparison.judgement.marks()) if level in levels]
        return tuple(comparison.rows[number].label.target for number in numbers)

    def message(self, refused: Sequence[str]) -> Reason:
        """Return how many tensors the gate refused, and of which operators."""
        operators = list(dict.fromkeys(refused))
        names, more = ", ".join(operators[:_MAX_NAMES]), len(operators) - _MAX_NAMES
        tensors = because("report.gate_tensors", count=len(refused), names=names)
        if more > 0:
            tensors = because("report.gate_tensors_more", count=len(refused), names=names, more=more)
        if self.limits:
            return because("report.gate_limits", limits=self.limits, tensors=tensors)
        code = "report.gate_wrong" if self.level is Level.WRONG else "report.gate_suspicious"
        return because(code, tensors=tensors)


def print_refused(gate: Gate, refused: Sequence[str]) -> None:
    """Print the message of a violated gate to standard error."""
    print(f"opdiff: {printable(in_language(gate.message(refused)))}", file=sys.stderr)


class MessageOptions(Struct, frozen=True):
    """How a comparison is reported.

    Attributes:
        quiet: warnings and one line for each result, and no progress.
        verbose: with the reasons why tensors were not compared, and the worst tensors.
        remedies: folder of the files that apply remedies; empty for none.
        gate: condition that the results must meet.
        answer: file of the answer for machines; empty for none.
        opens: whether the browser shows the report.
    """

    quiet: bool = False
    verbose: bool = False
    remedies: str = ""
    gate: Gate | None = None
    answer: str = ""
    opens: bool = False


def message_options(args: argparse.Namespace) -> MessageOptions:
    """Return how a comparison is reported."""
    return MessageOptions(
        quiet=args.quiet > 0,
        verbose=args.verbose > 0,
        remedies=args.remedies,
        gate=args.fail_on,
        answer=args.json,
        opens=args.open,
    )


def write_answer(comparison: Comparison, path: str) -> None:
    """Write the answer for machines to a file, or to standard output if the path is `-`."""
    from opdiff.report.answer_json import encode_answer, make_answer

    write_document(path, encode_answer(make_answer(comparison)))


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Describe the gate of a comparison."""
    parser.add_argument(
        "--fail-on", type=_gate, metavar="LEVEL",
        help="exit with 1 if a tensor is wrong, at least suspicious, or wrong by the limits in a file (TOML)",
    )  # fmt: skip


def _gate(text: str) -> Gate:
    from opdiff.core.errors import InputError
    from opdiff.workflows.limits_file import find_limits

    if text in _GATES:
        return Gate(Level(text))
    if not os.path.exists(text):
        raise ArgumentTypeError(said("cli.not_gate", text=text, choices=_GATES))
    try:
        find_limits(text)
    except InputError as error:
        raise ArgumentTypeError(in_language(error.reason)) from error
    return Gate(Level.WRONG, text)

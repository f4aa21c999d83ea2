"""`opdiff overflow`: which operator overflowed first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.arguments import integer
from opdiff.cli.exit_codes import ExitCode
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.workflows.overflow import OperatorState, OverflowReport, TensorState

DESCRIPTION = """\
Find the operators of a dump that overflowed: by the debug records that the device wrote, matched to the operators'
dumps, and by the data itself, where NaN, infinities and the largest number of a type first appear."""
EPILOG = """\
examples:
  opdiff overflow DUMP_DIR
  opdiff overflow DUMP_DIR -n 5 -out OUT --json overflow.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", nargs="?", metavar="DIR", default="", help="directory of dumps")
    parser.add_argument("-d", "--dump_path", metavar="DIR", default="", help="the same as DIR")
    parser.add_argument("-out", "--output", metavar="DIR", default="", help="write the summary and tensors here")
    parser.add_argument(
        "-n", "--topn", type=integer(1, 10_000), metavar="N", default=1, help="how many to show; default: 1"
    )
    parser.add_argument("--json", metavar="FILE", default="", help="write everything that was found as JSON")


def run(args: argparse.Namespace) -> int:
    """Look for overflows and return the exit code."""
    from opdiff.cli.terminal import Progress, json_text, printable
    from opdiff.core.atomic_file import make_folder, whole_file
    from opdiff.workflows.overflow import find_overflows, write_overflows

    if bool(args.path) == bool(args.dump_path):
        raise UsageError("give one directory of dumps: overflow DIR, or -d DIR")
    with Progress("looking at operators", quiet=args.quiet > 0) as progress:
        report = find_overflows(args.path or args.dump_path, args.topn, progress.reach)
    for line in _lines(report):
        print(printable(line))
    if args.output:
        make_folder(args.output)
        for path in write_overflows(report, args.output)[:1]:
            print(printable(f"result: {path}"))
    if args.json:
        with whole_file(args.json) as file:
            file.write((json_text(report) + "\n").encode())
        print(printable(f"result: {args.json}"))
    return ExitCode.OK


def _lines(report: OverflowReport) -> Iterator[str]:
    from opdiff.cli.terminal import counted

    yield f"{counted(report.operators, 'operator')} looked at"
    records = counted(report.all_records, "debug record")
    yield f"the device told of overflows in {records}" if report.all_records else "no debug record tells of an overflow"
    for finding in report.records:
        task = finding.task
        where = f"{finding.operator.op_type} {finding.operator.name}" if finding.operator else "no dump has its ids"
        yield f"  {where}"
        status = " ".join(map(hex, task.status))
        yield f"    {task.unit}, task {task.task_id}, stream {task.stream_id}, status {status}"
        if finding.operator is not None:
            yield from _tensor_lines(finding.operator)
    if not report.all_affected:
        yield "no output has NaN, infinities or the largest number of its type"
    else:
        outputs = counted(report.all_affected, "operator")
        yield f"the outputs of {outputs} have NaN, infinities or the largest number of their type; first:"
    for state in report.affected:
        yield f"  {state.op_type} {state.name}: {state.origin}"
        yield from _tensor_lines(state)
    for path, what in report.problems:
        yield f"not read: {path}: {what}"


def _tensor_lines(state: OperatorState) -> Iterator[str]:
    for tensor in state.tensors:
        yield f"    {f'{tensor.slot}:{tensor.index}':10} {tensor.dtype:10} {_state(tensor)}"


def _state(tensor: TensorState) -> str:
    found = tensor.extremes
    if found is None:
        return f"not read: {tensor.problem}"
    if not found.any:
        return f"none in {found.count}"
    parts = (("NaN", found.nans), ("infinite", found.infs), ("largest of the type", found.saturated))
    listed = ", ".join(f"{count} {name}" for name, count in parts if count)
    return f"{listed} in {found.count}, first at {found.first}"

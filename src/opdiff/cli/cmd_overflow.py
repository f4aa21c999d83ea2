"""`opdiff overflow`: the first operators that overflowed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json, add_output, integer
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import Progress, make_output_folder, write_json
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.workflows.overflow import OperatorState, OverflowReport, TensorState

DESCRIPTION = """\
Find the operators of a dump that overflowed: by the debug records of the device, matched to the dumps of operators,
and by the data itself, in which NaN, infinities and the largest value of a type are searched for."""
EPILOG = """\
examples:
  opdiff overflow DUMP_DIR
  opdiff overflow DUMP_DIR -n 5 -o OUT --json overflow.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", nargs="?", metavar="DIR", default="", help="dump directory")
    parser.add_argument("-d", "--dump-path", metavar="DIR", default="", help="the same as DIR")
    add_output(parser, "-out", help="output directory for the summary and tensors", default="")
    parser.add_argument(
        "-n",
        "--topn",
        type=integer(1, 10_000),
        metavar="N",
        default=1,
        help="number of records and operators to show; default: 1",
    )
    add_json(parser, "the complete result")


def run(args: argparse.Namespace) -> int:
    """Find overflows, print them, and return the exit code."""
    from opdiff.workflows.overflow import find_overflows, write_overflows

    if bool(args.path) == bool(args.dump_path):
        raise UsageError(because("cli.one_dump_directory"))
    with Progress(said("cli.examining"), quiet=args.quiet > 0) as progress:
        report = find_overflows(args.path or args.dump_path, args.topn, progress.reach)
    for line in _lines(report) if args.json != "-" else ():
        print(printable(line))
    if args.output:
        make_output_folder(args.output)
        for path in write_overflows(report, args.output)[:1]:
            print(printable(said("report.result_file", path=path)), file=sys.stderr if args.json == "-" else sys.stdout)
    if args.json:
        write_json(args.json, report)
    return ExitCode.OK


def _lines(report: OverflowReport) -> Iterator[str]:
    yield said("cli.operators_examined", count=report.operators)
    yield said("cli.overflow_records", count=report.all_records)
    for finding in report.records:
        task = finding.task
        where = f"{finding.operator.op_type} {finding.operator.name}" if finding.operator else said("cli.no_such_dump")
        yield f"  {where}"
        status = " ".join(map(hex, task.status))
        ids = {"task": task.task_id, "stream": task.stream_id}
        yield said("cli.overflow_task", unit=task.unit, **ids, status=status)
        if finding.operator is not None:
            yield from _tensor_lines(finding.operator)
    yield said("cli.operators_affected", count=report.all_affected)
    for state in report.affected:
        yield f"  {state.op_type} {state.name}: {in_language(state.origin)}"
        yield from _tensor_lines(state)
    for path, problem in report.problems:
        yield said("cli.file_not_read", path=path, problem=problem)


def _tensor_lines(state: OperatorState) -> Iterator[str]:
    for tensor in state.tensors:
        yield f"    {f'{tensor.slot}:{tensor.index}':10} {tensor.dtype:10} {_state(tensor)}"


def _state(tensor: TensorState) -> str:
    found = tensor.extremes
    if found is None:
        return said("cli.tensor_not_read", problem=tensor.problem)
    if not found.any:
        return said("cli.none_in", count=found.count)
    parts = (
        ("cli.count_nans", found.nans),
        ("cli.count_infinite", found.infs),
        ("cli.count_saturated", found.saturated),
    )
    listed = ", ".join(said(code, count=count) for code, count in parts if count)
    sentence = "cli.specials" if tensor.is_logical else "cli.stored_specials"
    return said(sentence, listed=listed, count=found.count, position=tensor.first or ())

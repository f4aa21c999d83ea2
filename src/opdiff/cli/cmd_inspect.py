"""`opdiff inspect`: what a dump file or a directory of dumps holds, and what is wrong with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.cli.arguments import require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.core.errors import InputError

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.inspect.checks import Finding
    from opdiff.workflows.inspect.report import FileReport, StatisticsReport, TensorReport, TreeReport

DESCRIPTION = """\
Show what a dump holds, without vendor toolkit or device. For a file: its header and tensors. For a directory: how many
operators, steps, ranks and bytes, what kind of dump it is, and the findings of the dump doctor."""
EPILOG = """\
examples:
  opdiff inspect DUMP_DIR
  opdiff inspect DUMP_DIR --all              every place of every finding
  opdiff inspect DUMP_DIR --stats            read every value: where are NaN and infinities?
  opdiff inspect FILE --stats                min, max, mean, NaN and infinities of each tensor
  opdiff inspect FILE --json
"""
_MAX_PLACES = 5
_MAX_RUNS = 20
_MAX_AXES = 16
_MAX_KINDS = 12
# Microseconds since the epoch: the years 2001 to 2096.
_EARLIEST, _LATEST = 1_000_000_000_000_000, 4_000_000_000_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="dump file or directory")
    how_far = parser.add_mutually_exclusive_group()
    how_far.add_argument(
        "--stats", action="store_true", help="read all values: describe a file's, examine a directory's"
    )
    how_far.add_argument("--no-data", action="store_true", help="look at headers only, not at tensors")
    parser.add_argument("--all", action="store_true", help="for a directory: list every place of every finding")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Inspect, print, and return the exit code."""
    from opdiff.cli.terminal import json_text
    from opdiff.workflows.inspect.report import FileReport, inspect_file

    require_paths(args.path)
    if os.path.isdir(args.path):
        return _run_tree(args)
    report = inspect_file(args.path, statistics=args.stats)
    if args.json:
        print(json_text(report))
    elif isinstance(report, FileReport):
        _print_file(report)
    else:
        _print_statistics(report)
    return ExitCode.OK


def _run_tree(args: argparse.Namespace) -> int:
    from opdiff.cli.terminal import Progress, json_text
    from opdiff.workflows.inspect.checks import Depth
    from opdiff.workflows.inspect.report import inspect_tree

    depth = Depth.HEADERS if args.no_data else Depth.VALUES if args.stats else Depth.SAMPLES
    with Progress("reading", quiet=args.quiet > 0) as progress:
        report = inspect_tree(args.path, depth=depth, progress=progress.reach)
    if args.json:
        print(json_text(report))
    else:
        print_tree(report, all_places=args.all)
    if not report.files:
        raise InputError(args.path, "no dump files here")
    return ExitCode.OK


def print_tree(report: TreeReport, *, all_places: bool = False) -> None:
    """Print what a directory holds and what the doctor found."""
    from opdiff.cli.terminal import counted, printable, size, table

    print(f"{printable(report.path)}: {report.kind}")
    counts = (counted(report.operators, "operator"), counted(report.tensors, "tensor"))
    print(f"  {counted(report.files, 'file')}, {size(report.nbytes)}, {', '.join(counts)}")
    facts = (
        ("steps", _numbers(report.steps)),
        ("ranks", _numbers(report.ranks)),
        ("devices", _numbers(report.devices)),
        ("models", ", ".join(printable(model) for model in report.models)),
        ("graphs", _numbers(report.graphs)),
        ("graph texts", str(report.graph_texts or "")),
        ("types", _counts(report.dtypes)),
        ("layouts", _counts(report.layouts)),
        ("operators by type", _counts(report.op_types)),
    )
    for name, value in facts:
        if value:
            print(f"  {name}: {value}")
    if len(report.runs) > 1 or report.steps:
        rows = [
            (run.place, _numbers(run.steps), run.operators, run.files, size(run.nbytes))
            for run in report.runs[:_MAX_RUNS]
        ]
        right = ("operators", "files", "bytes")
        table("runs", ("folder", "steps", "operators", "files", "bytes"), rows, right)
    if len(report.runs) > _MAX_RUNS:
        print(f"… and {len(report.runs) - _MAX_RUNS} more folders; --json lists them all")
    _print_findings(report.findings, all_places=all_places)


def _print_findings(findings: tuple[Finding, ...], *, all_places: bool) -> None:
    from opdiff.cli.terminal import counted, printable

    print("doctor: " + (counted(len(findings), "finding") if findings else "nothing to complain of"))
    for finding in findings:
        shown = finding.where if all_places else finding.where[:_MAX_PLACES]
        print(f"  {finding.severity}: {finding.what} ({len(finding.where)})  [{finding.code}]")
        for place in shown:
            print(f"      {printable(place)}")
        if len(shown) < len(finding.where):
            print(f"      … and {len(finding.where) - len(shown)} more; --all lists them")


def _print_file(report: FileReport) -> None:
    from opdiff.cli.terminal import json_text, printable, size

    print(f"{printable(report.path)}: {report.container} dump, {size(report.nbytes)}")
    facts = (("operator", report.op_name), ("type", report.op_type), ("version", report.version))
    for name, value in (*facts, ("time", _time(report.dump_time))):
        if value:
            print(f"  {name}: {printable(value)}")
    for name, sizes in (("buffers", report.buffers), ("spaces", report.spaces)):
        if sizes:
            print(f"  {name}: {', '.join(size(nbytes) for nbytes in sizes)}")
    if report.tensors:
        _print_tensors(report.tensors)
    for record in report.records:
        print(json_text(record))


def _print_tensors(tensors: tuple[TensorReport, ...]) -> None:
    from opdiff.cli.terminal import printable, table

    columns = ["tensor", "type", "layout", "shape", "origin shape", "offset", "bytes", "address"]
    rows: list[list[object]] = [
        [
            f"{tensor.slot}:{tensor.index}" + (f" {tensor.name}" if tensor.name else ""),
            tensor.dtype,
            tensor.layout + (f" groups={tensor.groups}" if tensor.groups > 1 else ""),
            _shape(tensor.shape),
            _shape(tensor.origin_shape) if tensor.origin_shape else "",
            "" if tensor.offset is None else tensor.offset,
            tensor.nbytes,
            "" if tensor.address is None else hex(tensor.address),
        ]
        for tensor in tensors
    ]
    if any(tensor.statistics for tensor in tensors):
        columns += ["min", "max", "mean", "zeros", "NaN", "inf"]
        rows = [[*row, *_figures(tensor)] for row, tensor in zip(rows, tensors, strict=True)]
    table("", columns, rows, right=("offset", "bytes", "min", "max", "mean", "zeros", "NaN", "inf"))
    for tensor in tensors:
        for note in (*tensor.notes, *([tensor.problem] if tensor.problem else [])):
            print(f"  {tensor.slot}:{tensor.index}: {printable(note)}")


def _figures(tensor: TensorReport) -> list[object]:
    found = tensor.statistics
    if found is None:
        return [""] * 6
    numbers = [_number(value) for value in (found.minimum, found.maximum, found.mean)]
    return [*numbers, found.zeros, found.nans, found.infs]


def _print_statistics(report: StatisticsReport) -> None:
    from opdiff.cli.terminal import printable, table

    print(f"{printable(report.path)}: statistics instead of data")
    names = [name for name, _ in report.tensors[0].values] if report.tensors else []
    rows = [
        [
            f"{line.slot}:{line.index}",
            line.dtype,
            line.layout,
            _shape(line.shape),
            *(_number(v) for _, v in line.values),
        ]
        for line in report.tensors
    ]
    table("", ["tensor", "type", "layout", "shape", *names], rows, right=names)


def _time(timestamp: int | None) -> str:
    """Microseconds since the epoch, with the date that they mean if they can mean one."""
    from datetime import UTC, datetime

    if timestamp is None or not _EARLIEST <= timestamp < _LATEST:
        return str(timestamp or "")
    return f"{timestamp} ({datetime.fromtimestamp(timestamp // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC)"


def _number(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.7g}"


def _shape(shape: tuple[int, ...]) -> str:
    listed = ",".join(map(str, shape[:_MAX_AXES]))
    return f"[{listed}]" if len(shape) <= _MAX_AXES else f"[{listed},… {len(shape)} axes]"


def _counts(counts: tuple[tuple[str, int], ...]) -> str:
    from opdiff.cli.terminal import printable

    listed = ", ".join(f"{printable(name)} {count}" for name, count in counts[:_MAX_KINDS])
    return listed if len(counts) <= _MAX_KINDS else f"{listed} and {len(counts) - _MAX_KINDS} more"


def _numbers(numbers: tuple[int, ...]) -> str:
    """Numbers with runs written as ranges: 0-3, 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)

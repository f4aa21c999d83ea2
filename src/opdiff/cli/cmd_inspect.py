"""`opdiff inspect`: contents of a dump file, a directory of dumps or a compiled model, and problems of a directory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_cache, add_cluster, add_json, check_cluster, require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said, worded
from opdiff.cli.terminal import (
    Progress,
    json_text,
    shown_counts,
    shown_shape,
    table,
    wrapped,
    write_json,
)
from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.workflows.inspect.checks import CheckResult
    from opdiff.workflows.inspect.model_report import GraphReport, ModelReport, ModelTensor
    from opdiff.workflows.inspect.report import FileReport, Report, StatisticsReport, TensorReport, TreeReport

DESCRIPTION = """\
Show the contents of a dump, without vendor toolkit or device. For a file: its header and tensors. For a directory: the
kind of dump, the numbers of operators, steps, ranks and bytes, and the findings of checks for common problems. For an
offline model or a graph text: graphs, operators, versions, command line, fusion passes, inputs and outputs."""
EPILOG = """\
examples:
  opdiff inspect DUMP_DIR
  opdiff inspect DUMP_DIR --all              every location of every finding
  opdiff inspect DUMP_DIR --stats            read all values: find NaN and infinities
  opdiff inspect FILE --stats                min, max, mean, NaN and infinities of each tensor
  opdiff inspect FILE --json
  opdiff inspect sftp://HOST/DIR             a dump on another machine, by ssh
  opdiff inspect model.om                    operators, versions, fusion passes of a compiled model
"""
_MAX_LOCATIONS = 5
_MAX_RUNS = 20
_MAX_TENSORS = 1000
_MAX_GRAPHS = 20
_MAX_MODEL_TENSORS = 20
# Microseconds since the epoch, in the years 2001 to 2096.
_EARLIEST_US, _LATEST_US = 1_000_000_000_000_000, 4_000_000_000_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="dump file or directory, offline model, graph text or rule file")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--stats", action="store_true", help="read all values: statistics of a file, NaN and infinities in a directory"
    )
    depth.add_argument("--no-data", action="store_true", help="read headers only, no tensor data")
    parser.add_argument("--all", action="store_true", help="for a directory: list every location of every finding")
    add_json(parser)
    add_cache(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Inspect, print, and return the exit code."""
    from opdiff.workflows.cluster import find_cluster, path_for_workers
    from opdiff.workflows.inspect.contents import Depth
    from opdiff.workflows.inspect.report import TreeReport, inspect_path

    check_cluster(args, "cache")
    filesystem.start_run([args.path], args.cache)
    require_paths(args.path)
    path = path_for_workers(args.path) if args.cluster else args.path
    depth = Depth.HEADERS if args.no_data else Depth.VALUES if args.stats else Depth.SAMPLES
    with (
        Progress(said("cli.reading"), quiet=args.quiet > 0) as progress,
        find_cluster(args.cluster, args.cluster_config, progress.show_workers) as cluster,
    ):
        report = inspect_path(path, depth, (progress.reach, progress.reach_bytes), cluster)
    if args.json != "-":
        _print(args, report)
    if args.json:
        write_json(args.json, report)
    if isinstance(report, TreeReport) and not report.files:
        raise InputError(args.path, because("core.no_dumps"))
    return ExitCode.OK


def _print(args: argparse.Namespace, report: Report) -> None:
    from opdiff.workflows.inspect.report import FileReport, StatisticsReport, TreeReport

    if isinstance(report, TreeReport):
        print_tree(report, all_locations=args.all)
    elif isinstance(report, FileReport):
        _print_file(report, verbose=args.verbose > 0)
    elif isinstance(report, StatisticsReport):
        _print_statistics(report)
    else:
        _print_model(report)


def print_size(report: TreeReport) -> None:
    """Print the kind and the size of a directory."""
    print(said("cli.labelled", name=printable(report.path), value=in_language(report.kind)))
    counts = {"files": report.files, "operators": report.operators, "tensors": report.tensors}
    print(said("cli.tree_size", **counts, size=size(report.nbytes)))


def print_tree(report: TreeReport, *, all_locations: bool = False) -> None:
    """Print the contents of a directory and the findings."""
    print_size(report)
    facts = (
        ("steps", _numbers(report.steps)),
        ("ranks", _numbers(report.ranks)),
        ("devices", _numbers(report.devices)),
        ("models", ", ".join(printable(model) for model in report.models)),
        ("graphs", _numbers(report.graphs)),
        ("graph texts", str(report.graph_texts or "")),
        ("types", shown_counts(report.dtypes)),
        ("layouts", shown_counts(report.layouts)),
        ("operators by type", shown_counts(report.op_types)),
    )
    for name, value in facts:
        if value:
            print(wrapped(f"  {said('cli.labelled', name=worded(name), value=value)}"))
    if len(report.runs) > 1 or report.steps:
        rows = [
            (run.place, _numbers(run.steps), run.operators, run.files, size(run.nbytes))
            for run in report.runs[:_MAX_RUNS]
        ]
        right = ("operators", "files", "bytes")
        table(worded("runs"), ("folder", "steps", "operators", "files", "bytes"), rows, right)
    if len(report.runs) > _MAX_RUNS:
        print(said("cli.more_folders", count=len(report.runs) - _MAX_RUNS))
    _print_findings(report.findings, all_locations=all_locations)


def _print_findings(findings: tuple[CheckResult, ...], *, all_locations: bool) -> None:
    from opdiff.cli.result_text import styled
    from opdiff.report.summary_text import SummaryLine

    print(said("cli.findings", count=len(findings)) if findings else said("cli.no_findings"))
    for finding in findings:
        shown = finding.where if all_locations else finding.where[:_MAX_LOCATIONS]
        counted = f"{in_language(finding.what)} ({len(finding.where)})"
        what = said("cli.labelled", name=worded(finding.severity), value=counted)
        print(wrapped(f"  {what}  [{finding.code}]"))
        for location in shown:
            print(styled(SummaryLine(f"      {in_language(location)}", must_be_whole=all_locations)))
        if len(shown) < len(finding.where):
            print(said("cli.more_locations", count=len(finding.where) - len(shown)))


def _print_file(report: FileReport, *, verbose: bool) -> None:
    facts_of_file = {"path": report.path, "container": report.container, "size": size(report.nbytes)}
    print(printable(said("cli.dump_file", **facts_of_file)))
    for tensor in report.tensors:
        for doubt in tensor.doubts:
            print(wrapped(printable(f"  {said('cli.doubtful_tensor', tensor=_name(tensor), doubt=doubt)}")))
    facts = (("operator", report.op_name), ("type", report.op_type), ("version", report.version))
    for name, value in (*facts, ("time", _time(report.dump_time))):
        if value:
            print(f"  {said('cli.labelled', name=worded(name), value=printable(value))}")
    for name, sizes in (("buffers", report.buffers), ("spaces", report.spaces)):
        if sizes:
            print(f"  {worded(name)}: {', '.join(size(nbytes) for nbytes in sizes)}")
    if report.tensors:
        _print_tensors(report.tensors[:_MAX_TENSORS], verbose=verbose)
    if len(report.tensors) > _MAX_TENSORS:
        print(said("cli.more_tensors", count=len(report.tensors) - _MAX_TENSORS))
    for record in report.records:
        print(json_text(record))


def _print_tensors(tensors: tuple[TensorReport, ...], *, verbose: bool) -> None:
    """Print tables of at most 80 columns, apart from long shapes: descriptions, statistics and locations."""
    columns = ("tensor", "type", "layout", "shape", "origin shape", "bytes")
    table("", columns, [_description(tensor) for tensor in tensors], right=("bytes",))
    if any(tensor.statistics for tensor in tensors):
        numbers = ("min", "max", "mean", "zeros", "NaN", "inf")
        rows = [(_name(tensor), *_statistics(tensor)) for tensor in tensors]
        table("", ("tensor", *numbers), rows, right=numbers)
    if verbose:
        locations = ("offset", "address")
        table("", ("tensor", *locations), [(_name(tensor), *_location(tensor)) for tensor in tensors], right=locations)
    for tensor in tensors:
        for note in (*tensor.notes, *([tensor.problem] if tensor.problem else [])):
            print(f"  {tensor.slot}:{tensor.index}: {printable(in_language(note))}")


def _name(tensor: TensorReport) -> str:
    return f"{tensor.slot}:{tensor.index}" + (f" {tensor.name}" if tensor.name else "")


def _description(tensor: TensorReport) -> tuple[object, ...]:
    layout = tensor.layout + (f" groups={tensor.groups}" if tensor.groups > 1 else "")
    origin_shape = shown_shape(tensor.origin_shape) if tensor.origin_shape else ""
    return _name(tensor), tensor.dtype, layout, shown_shape(tensor.shape), origin_shape, tensor.nbytes


def _location(tensor: TensorReport) -> tuple[object, ...]:
    offset = "" if tensor.offset is None else tensor.offset
    return offset, "" if tensor.address is None else hex(tensor.address)


def _statistics(tensor: TensorReport) -> list[object]:
    found = tensor.statistics
    if found is None:
        return [""] * 6
    numbers = [_number(value) for value in (found.minimum, found.maximum, found.mean)]
    return [*numbers, found.zeros, found.nans, found.infs]


def _print_statistics(report: StatisticsReport) -> None:
    print(printable(said("cli.statistics_file", path=report.path)))
    names = [name for name, _ in report.tensors[0].values] if report.tensors else []
    rows = [
        [
            f"{line.slot}:{line.index}",
            line.dtype,
            line.layout,
            shown_shape(line.shape),
            *(_number(v) for _, v in line.values),
        ]
        for line in report.tensors
    ]
    table("", ["tensor", "type", "layout", "shape", *names], rows, right=names)


def _time(timestamp: int | None) -> str:
    """Format microseconds since the epoch, or the digits of a date, with the date if it is plausible."""
    if timestamp is None or not _EARLIEST_US <= timestamp < _LATEST_US:
        return _date(str(timestamp or ""))
    return f"{timestamp} ({datetime.fromtimestamp(timestamp // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC)"


def _date(digits: str) -> str:
    """Format the digits of a date, from year to second and perhaps milliseconds."""
    if len(digits) not in (14, 17):
        return digits
    try:
        return f"{digits} ({datetime.strptime(digits[:14], '%Y%m%d%H%M%S').replace(tzinfo=UTC):%Y-%m-%d %H:%M:%S})"
    except ValueError:
        return digits


def _number(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.7g}"


def _numbers(numbers: tuple[int, ...]) -> str:
    """Format numbers with ranges: 0-3, 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _print_model(report: ModelReport) -> None:
    """Print the facts about a model, its graphs, and inputs and outputs of the first."""
    print(f"{printable(report.path)}: {worded(report.kind)}, {size(report.nbytes)}")
    for name, value in _model_facts(report):
        if value:
            print(f"  {said('cli.labelled', name=worded(name), value=printable(value))}")
    for note in report.notes:
        print(f"  {said('cli.labelled', name=worded('note'), value=printable(in_language(note)))}")
    if len(report.graphs) > 1:
        _print_graphs(report.graphs)
    for graph in report.graphs[:1]:
        _print_model_tensors("inputs", graph.inputs)
        _print_model_tensors("outputs", graph.outputs)


def _model_facts(report: ModelReport) -> Iterator[tuple[str, str]]:
    import shlex

    origin, header, graphs = report.origin, report.header, report.graphs
    yield "model", origin.name
    yield "processor", origin.processor
    yield "framework", origin.framework
    yield "versions", _versions(report)
    yield "shapes", worded("dynamic") if header and header.is_dynamic else ""
    yield "command line", shlex.join(origin.command_line)
    operators, fused, inserted = (
        sum(counts) for counts in zip(*((g.operators, g.fused, g.inserted) for g in graphs), strict=True)
    )
    yield "graphs", str(len(graphs))
    yield "operators", said("cli.operators_of_model", count=operators, fused=fused, inserted=inserted)
    types: dict[str, int] = {}
    for graph in graphs:
        for name, count in graph.op_types:
            types[name] = types.get(name, 0) + count
    yield "operators by type", shown_counts(tuple(sorted(types.items(), key=lambda pair: (-pair[1], pair[0]))))
    yield "fusion passes", shown_counts(report.passes)


def _versions(report: ModelReport) -> str:
    origin, header = report.origin, report.header
    facts = (("ATC", origin.compiler), ("operators", origin.operators), ("platform", header.platform if header else ""))
    known = [f"{name} {version}" for name, version in facts if version]
    if header:
        known.append(f"file {header.version}" + (f" with {header.models} models" if header.models > 1 else ""))
    return ", ".join(known)


def _print_graphs(graphs: tuple[GraphReport, ...]) -> None:
    columns = ("graph", "operators", "fused", "without original", "inputs", "outputs")
    rows = [(g.name, g.operators, g.fused, g.inserted, len(g.inputs), len(g.outputs)) for g in graphs[:_MAX_GRAPHS]]
    table(worded("graphs"), columns, rows, right=columns[1:])
    if len(graphs) > _MAX_GRAPHS:
        print(said("cli.more_graphs", count=len(graphs) - _MAX_GRAPHS))


def _print_model_tensors(title: str, tensors: tuple[ModelTensor, ...]) -> None:
    if not tensors:
        return
    rows = [(each.name, each.dtype, each.layout, shown_shape(each.shape)) for each in tensors[:_MAX_MODEL_TENSORS]]
    table(worded(title), ("tensor", "type", "layout", "shape"), rows)
    if len(tensors) > _MAX_MODEL_TENSORS:
        print(said("cli.more_tensors", count=len(tensors) - _MAX_MODEL_TENSORS))

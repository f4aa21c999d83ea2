"""`opdiff op`: one operator, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.cli.arguments import (
    add_custom,
    add_element_options,
    add_jobs,
    add_json,
    add_mode,
    add_output,
    add_rules,
    add_sides,
    add_units,
    chosen_mode,
    compare_options,
)
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said, worded
from opdiff.cli.terminal import Progress, make_output_folder, write_json
from opdiff.core.formatting import printable
from opdiff.core.reasons import because
from opdiff.report.columns import columns_of, padded, wrapped_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.core.metrics import Metrics
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.element_diff.examine import (
        AxisErrors,
        Element,
        ElementDiffOptions,
        ElementReport,
        SliceErrors,
        TensorSummary,
    )

DESCRIPTION = """\
Examine one operator of a comparison, element by element: the worst elements with their coordinates, the slices of each
axis that carry the error, and explanations. Tables of all elements and both tensors are written to files."""
EPILOG = """\
examples:
  opdiff op conv1 NPU_DIR GOLDEN_DIR --rules network.json
  opdiff op conv1:input:0 NPU_DIR OTHER_NPU_DIR -o OUT -n 50
  opdiff op conv1 NPU_DIR GOLDEN_DIR --rules network.json --no-tables --json conv1.json
  opdiff op conv1 NPU_DIR GOLDEN_DIR --rules network.json --no-tables --html conv1.html
  opdiff op MatMul_1 GE_DIR FX_DIR --mode torchair --rank 0 --token 1
"""
_MAX_ELEMENTS_SHOWN = 8
_MAX_SLICES_SHOWN = 3
_MAX_FILES_SHOWN = 6
_AXIS_NAMES = {"N": "batch", "C": "channel", "D": "depth", "H": "row", "W": "column"}
_BAR_WIDTH = 32
_LINE_WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="operator, or one of its tensors, such as conv1:output:0")
    add_sides(parser)
    add_mode(parser)
    add_rules(parser)
    add_custom(parser)
    parser.add_argument(
        "--pairs", metavar="FILE", default="", help="manual pairings (TOML); they take precedence over the rules"
    )
    add_output(parser, "--output-dir", help="output directory; default: current directory")
    add_json(parser, "the complete result")
    parser.add_argument(
        "--html", metavar="FILE", default="", help="write an HTML report with pictures of all channels of the tensor"
    )
    add_element_options(parser)
    parser.add_argument(
        "--tables", action="store_true", help="write tables of all elements, even of very large tensors"
    )
    add_units(parser.add_argument_group("graph mode (--mode torchair)"))
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    """Examine the operator and return the exit code."""
    options = replace(
        compare_options(args),
        output=args.output,
        pairs=args.pairs,
        custom=args.custom,
        workers=args.jobs,
        mode=chosen_mode(args),
        rank=args.rank,
        token=args.token,
        graph=args.graph,
    )
    element_options = replace(element_diff_options(args, args.name), html=args.html)
    if args.tables:
        element_options = replace(element_options, tables=True)
    return examine_and_report(options, element_options, json_path=args.json, quiet=args.quiet > 0)


def element_diff_options(args: argparse.Namespace, name: str) -> ElementDiffOptions:
    """Return the options that the arguments of `add_element_options` describe."""
    from opdiff.workflows.element_diff.examine import ElementDiffOptions

    options = ElementDiffOptions(name, tables=False if args.ignore_single_op_result else None)
    return replace(options, top_n=args.topn or options.top_n, max_rows=args.max_line or options.max_rows)


def examine_and_report(
    options: CompareOptions, element_options: ElementDiffOptions, *, json_path: str = "", quiet: bool
) -> int:
    """Examine one tensor, write its files and print the result."""
    from opdiff.workflows.element_diff.examine import examine_operator

    make_output_folder(options.output)
    with Progress(said("cli.comparing_elements"), quiet=quiet) as progress:
        report = examine_operator(options, element_options, progress.reach)
    for line in _report_lines(report) if json_path != "-" else ():
        print(printable(line))
    if json_path:
        write_json(json_path, report)
    return ExitCode.OK


def _report_lines(report: ElementReport) -> Iterator[str]:
    """Yield the lines for the terminal, of 80 columns apart from names and paths."""
    detail = report.detail
    unit = f", {report.unit}" if report.unit else ""
    yield f"{report.key} ({report.op_type or worded('unknown type')}){unit}"
    yield said("op.golden", key=str(report.golden_key))
    if report.evidence:
        yield from _wrapped(said("op.paired_by", evidence=report.evidence))
    types = {"target": report.target_dtype, "golden": report.golden_dtype}
    yield said("op.types", **types, shape=_listed(detail.shape))
    for step in report.steps:
        yield from _wrapped(said("op.converted", step=step))
    if report.warning:
        yield from _wrapped(said("op.caution", warning=report.warning))
    for note in report.notes:
        yield from _wrapped(said("report.note", note=note))
    yield ""
    yield from _tensor_lines(report)
    yield ""
    not_finite = because("op.not_finite", count=detail.not_finite) if detail.not_finite else None
    yield said("op.unequal", unequal=detail.unequal, count=detail.count, not_finite=not_finite)
    if detail.unequal:
        yield from _slice_lines(report)
        yield from _element_lines("absolute", detail.worst_absolute)
        yield from _element_lines("relative", detail.worst_relative)
        yield from _histogram_lines(report)
    yield ""
    yield from _explanation_lines(report)
    yield from _file_lines(report)


def _file_lines(report: ElementReport) -> Iterator[str]:
    yield said("op.files")
    yield from (f"  {path}" for path in report.files[:_MAX_FILES_SHOWN])
    if len(report.files) > _MAX_FILES_SHOWN:
        yield said("op.more_tables", count=len(report.files) - _MAX_FILES_SHOWN)
    if report.are_tables_omitted:
        yield said("op.tables_omitted", count=report.detail.count)


def _tensor_lines(report: ElementReport) -> Iterator[str]:
    yield _row(25, "tensors of the operator", (10, "cosine"), (13, "max error"), (15, "rel. distance"))
    for line in report.tensors:
        mark = "*" if line.key == report.key else " "
        name = f"{line.key.slot}:{line.key.index}"
        yield f"{mark} {name:10} {line.dtype:12}" + _metrics(line)
        if line.metrics is not None and line.metrics.finite_count < line.metrics.count:
            yield _finite_metrics(line.metrics)


def _metrics(line: TensorSummary) -> str:
    found = line.metrics
    if found is None:
        return f" {said('op.not_compared', reason=line.reason)}"
    distance = found.relative_euclidean_distance
    return f"{_short(found.cosine):>10}{_short(found.max_absolute_error):>13}{_short(distance):>15}"


def _finite_metrics(found: Metrics) -> str:
    """The same metrics of the elements that are finite on both sides."""
    target, golden = found.worst_target, found.worst_golden
    error = None if target is None or golden is None else abs(target - golden)
    distance = None if found.snr_db is None else 10 ** (-found.snr_db / 20)
    numbers = f"{_short(found.finite_cosine):>10}{_short(error):>13}{_short(distance):>15}"
    return f"  {padded(said('op.finite_elements', count=found.finite_count), 23)}{numbers}"


def _slice_lines(report: ElementReport) -> Iterator[str]:
    yield ""
    yield said("op.location")
    carried = [axis for axis in report.detail.axes if axis.carriers]
    for axis in carried:
        yield f"  {_carriers(axis, _axis_name(report, axis.axis))}"
    if not carried:
        yield said("op.spread")
    for axis in report.detail.axes:
        parts = ", ".join(f"{_span(part)}: {_weight(part)}" for part in axis.worst[:_MAX_SLICES_SHOWN])
        slices: dict[str, str | int] = {"axis": axis.axis, "extent": axis.extent, "noun": _axis_name(report, axis.axis)}
        yield said("op.axis_slices", **slices, parts=parts)


def _weight(part: SliceErrors) -> str:
    return said("op.non_finite", count=part.not_finite) if part.not_finite else f"{part.share:.1%}"


def _carriers(axis: AxisErrors, word: str) -> str:
    spans = ", ".join(_span(part) for part in axis.carriers)
    number = "slice" if len(axis.carriers) == 1 else "slices"
    slices: dict[str, str | int] = {"noun": word, "spans": spans, "axis": axis.axis}
    bad = sum(part.not_finite for part in axis.carriers)
    if bad:
        return said(f"op.{number}_with_non_finite", **slices, count=bad)
    return said(f"op.{number}_with_share", **slices, share=sum(part.share for part in axis.carriers))


def _axis_name(report: ElementReport, axis: int) -> str:
    return _AXIS_NAMES.get(report.axis_labels[axis], "slice") if axis < len(report.axis_labels) else "slice"


def _span(part: SliceErrors) -> str:
    return str(part.first) if part.first == part.last else f"{part.first}-{part.last}"


def _element_lines(kind: str, found: tuple[Element, ...]) -> Iterator[str]:
    yield ""
    yield _row(28, f"largest {kind} errors, at", (13, "target"), (13, "golden"), (12, "absolute"), (12, "relative"))
    for item in found[:_MAX_ELEMENTS_SHOWN]:
        errors = f"{_short(item.absolute):>12}{_short(item.relative):>12}"
        yield f"  {_listed(item.at):26}{_short(item.target):>13}{_short(item.golden):>13}{errors}"
    if len(found) > _MAX_ELEMENTS_SHOWN:
        yield said("op.more_in_file", count=len(found) - _MAX_ELEMENTS_SHOWN)


def _histogram_lines(report: ElementReport) -> Iterator[str]:
    from opdiff.core.metrics import RELATIVE_EDGES

    counts = report.metrics.relative_histogram if report.metrics else ()
    if not counts:
        return
    yield ""
    yield said("op.relative_errors")
    names = [said("op.equal"), said("op.below", edge=RELATIVE_EDGES[0])]
    names += [said("op.from_edge", edge=edge) for edge in RELATIVE_EDGES]
    filled = [number for number, count in enumerate(counts) if count]
    for number in range(filled[0], filled[-1] + 1):
        bar = "#" * -(-counts[number] * _BAR_WIDTH // max(counts))
        yield f"  {padded(names[number], 15)}{counts[number]:>12}  {bar}".rstrip()


def _explanation_lines(report: ElementReport) -> Iterator[str]:
    for item in report.explanations:
        yield from _wrapped(said("op.explanation", reason=item.reason))
        sampled = because("op.examined", count=item.examined, total=item.total) if item.is_sampled else None
        numbers = {"before": _short(item.before), "after": _short(item.after)}
        yield said("op.distances", **numbers, kind=item.kind, examined=sampled)
    if report.overflow:
        yield said("op.overflow")


def _row(width: int, first: str, *columns: tuple[int, str]) -> str:
    """Return the titles of a table: the first of a width, the others right-aligned in columns."""
    titles = ((width, worded(name)) for width, name in columns)
    return padded(worded(first), width) + "".join(" " * (width - columns_of(title)) + title for width, title in titles)


def _wrapped(text: str) -> Iterator[str]:
    return wrapped_lines(text, _LINE_WIDTH, "    ")


def _listed(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) and abs(value) < 10**11 else f"{float(value):.6g}"

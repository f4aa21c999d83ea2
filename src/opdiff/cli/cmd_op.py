"""`opdiff op`: one operator, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_element_options, add_jobs, add_rules, add_sides, compare_options
from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from opdiff.measure.detail import AxisErrors, Element, SliceErrors
    from opdiff.workflows.compare.inputs import CompareOptions
    from opdiff.workflows.element_diff.element_diff import SingleOptions, SingleReport, TensorLine

DESCRIPTION = """\
Look at one operator of a comparison, element by element: the worst elements with their coordinates, the slices of each
axis that carry the error, and what explains it. Tables of all elements and both tensors are written to files."""
EPILOG = """\
examples:
  opdiff op conv1 NPU_DIR GOLDEN_DIR --rules network.json
  opdiff op conv1:input:0 NPU_DIR OTHER_NPU_DIR -o OUT -n 50
  opdiff op conv1 NPU_DIR GOLDEN_DIR --rules network.json --no-tables --json conv1.json
"""
_SHOWN = 8
_SHOWN_SLICES = 3
_WORDS = {"N": "batch", "C": "channel", "D": "depth", "H": "row", "W": "column"}
_BAR = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="operator, or one of its tensors as conv1:output:0")
    add_sides(parser)
    add_rules(parser)
    parser.add_argument(
        "--pairs", metavar="FILE", default="", help="manual pairings (TOML); they take precedence over the rules"
    )
    parser.add_argument("-o", "--output-dir", metavar="DIR", default=".", help="where files go; default: this folder")
    parser.add_argument("--json", metavar="FILE", default="", help="write everything that is shown, and more, as JSON")
    add_element_options(parser)
    parser.add_argument("--tables", action="store_true", help="write the tables of all elements, however many")
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    """Look at the operator and return the exit code."""
    from opdiff.workflows.element_diff.element_diff import SingleOptions

    options = compare_options(args)._replace(output=args.output_dir, pairs=args.pairs, workers=args.jobs)
    tables = True if args.tables else False if args.ignore_single_op_result else None
    wanted = with_wishes(SingleOptions(args.name, tables=tables), args)
    return examine_and_report(options, wanted, json_path=args.json, quiet=args.quiet > 0)


def with_wishes(wanted: SingleOptions, args: argparse.Namespace) -> SingleOptions:
    """The options with what the user wants otherwise."""
    return wanted._replace(most=args.topn or wanted.most, max_rows=args.max_line or wanted.max_rows)


def examine_and_report(options: CompareOptions, wanted: SingleOptions, *, json_path: str = "", quiet: bool) -> int:
    """Look at one tensor, write its files and print what was found."""
    from opdiff.cli.terminal import Progress, json_text, printable
    from opdiff.core.atomic_file import make_folder, whole_file
    from opdiff.workflows.element_diff.element_diff import examine_operator

    make_folder(options.output)
    with Progress("looking at elements", quiet=quiet) as progress:
        report = examine_operator(options, wanted, progress.reach)
    for line in report_lines(report):
        print(printable(line))
    if json_path:
        with whole_file(json_path) as file:
            file.write((json_text(report) + "\n").encode())
        print(printable(f"  {json_path}"))
    return ExitCode.OK


def report_lines(report: SingleReport) -> Iterator[str]:
    """What the terminal shows, in 80 columns but for names and paths."""
    detail = report.detail
    yield f"{report.key} ({report.op_type or 'type not known'})"
    yield f"  golden: {report.golden_key}"
    yield from _wrapped(f"  because: {report.rule}")
    yield f"  {report.target_dtype} against {report.golden_dtype}, shape {_listed(detail.shape)}"
    for step in (*report.steps, *([report.doubt] if report.doubt else [])):
        yield from _wrapped(f"  done: {step}")
    yield ""
    yield from _tensor_lines(report)
    yield ""
    yield f"{detail.unequal} of {detail.count} elements differ{_special(detail.not_finite)}"
    if detail.unequal:
        yield from _slice_lines(report)
        yield from _element_lines("absolute", detail.worst_absolute)
        yield from _element_lines("relative", detail.worst_relative)
        yield from _histogram_lines(report)
    yield ""
    yield from _explanation_lines(report)
    yield "files:"
    yield from (f"  {path}" for path in report.files[:5])
    if len(report.files) > 5:
        yield f"  {report.files[5]}" + (f" … {len(report.files) - 5} tables of elements" if report.files[6:] else "")
    yield from report.notes


def _special(not_finite: int) -> str:
    return f", {not_finite} of them by an infinite or NaN error" if not_finite else ""


def _tensor_lines(report: SingleReport) -> Iterator[str]:
    yield f"{'tensors of the operator':25}{'cosine':>10}{'max error':>13}{'rel. distance':>15}"
    for line in report.tensors:
        mark = "*" if line.key == report.key else " "
        name = f"{line.key.slot}:{line.key.index}"
        yield f"{mark} {name:10} {line.dtype:12}" + _figures(line)


def _figures(line: TensorLine) -> str:
    found = line.metrics
    if found is None:
        return f" not compared: {line.reason}"
    cosine = found.finite_cosine if found.finite_cosine is not None else found.cosine
    distance = found.relative_euclidean_distance
    return f"{_short(cosine):>10}{_short(found.max_absolute_error):>13}{_short(distance):>15}"


def _slice_lines(report: SingleReport) -> Iterator[str]:
    yield ""
    yield "where the error is:"
    carried = [axis for axis in report.detail.axes if axis.carriers]
    for axis in carried:
        yield f"  {_carriers(axis, _axis_word(report, axis.axis))}"
    if not carried:
        yield "  it is spread over all axes"
    for axis in report.detail.axes:
        parts = ", ".join(f"{_span(part)}: {_weight(part)}" for part in axis.worst[:_SHOWN_SLICES])
        yield f"  axis {axis.axis} ({axis.extent} {_axis_word(report, axis.axis)}s): {parts}"


def _weight(part: SliceErrors) -> str:
    return f"{part.not_finite} not finite" if part.not_finite else f"{part.share:.1%}"


def _carriers(axis: AxisErrors, word: str) -> str:
    spans = ", ".join(_span(part) for part in axis.carriers)
    noun = word if len(axis.carriers) == 1 else f"{word}s"
    verb = "has" if len(axis.carriers) == 1 else "have"
    bad = sum(part.not_finite for part in axis.carriers)
    if bad:
        return f"{noun} {spans} of axis {axis.axis} {verb} {bad} of the errors that are not finite"
    share = sum(part.share for part in axis.carriers)
    return f"{noun} {spans} of axis {axis.axis} {verb} {share:.0%} of the squared error"


def _axis_word(report: SingleReport, axis: int) -> str:
    return _WORDS.get(report.letters[axis], "slice") if axis < len(report.letters) else "slice"


def _span(part: SliceErrors) -> str:
    return str(part.first) if part.first == part.last else f"{part.first}-{part.last}"


def _element_lines(what: str, found: tuple[Element, ...]) -> Iterator[str]:
    yield ""
    yield f"{f'largest {what} errors, at':28}{'target':>13}{'golden':>13}{'absolute':>12}{'relative':>12}"
    for item in found[:_SHOWN]:
        errors = f"{_short(item.absolute):>12}{_short(item.relative):>12}"
        yield f"  {_listed(item.at):26}{_short(item.target):>13}{_short(item.golden):>13}{errors}"
    if len(found) > _SHOWN:
        yield f"  … and {len(found) - _SHOWN} more in the file"


def _histogram_lines(report: SingleReport) -> Iterator[str]:
    from opdiff.measure.sums import RELATIVE_EDGES

    counts = report.metrics.relative_histogram if report.metrics else ()
    if not counts:
        return
    yield ""
    yield "relative errors:"
    names = ["equal", f"below {RELATIVE_EDGES[0]:.1e}", *(f"from {edge:.1e}" for edge in RELATIVE_EDGES)]
    places = [place for place, number in enumerate(counts) if number]
    for place in range(places[0], places[-1] + 1):
        bar = "#" * -(-counts[place] * _BAR // max(counts))
        yield f"  {names[place]:15}{counts[place]:>12}  {bar}".rstrip()


def _explanation_lines(report: SingleReport) -> Iterator[str]:
    for item in report.explanations:
        yield from _wrapped(f"explanation: {item.text}")
        looked = f", {item.looked_at} of {item.count} elements looked at" if item.is_sampled else ""
        yield f"  distance {_short(item.before)} before, {_short(item.after)} after ({item.kind}{looked})"
    if report.overflow:
        yield "the target has infinities, or reaches the end of its type's range"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _listed(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) and abs(value) < 10**11 else f"{float(value):.6g}"

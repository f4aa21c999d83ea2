"""`opdiff golden`: run the original model on the CPU and write the outputs of its operators as golden data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said
from opdiff.cli.model_options import add_input_data, given_inputs, run_model
from opdiff.cli.terminal import write_json
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.golden.options import GoldenOptions
    from opdiff.workflows.golden.original import Omitted
    from opdiff.workflows.golden.pipeline import GoldenResult

DESCRIPTION = """\
Run an original model on the CPU, without optimizations, and write every output of every operator as a golden file,
named as ATC names the operators. The directory is what `opdiff compare` takes as golden data."""
EPILOG = """\
examples:
  opdiff golden model.onnx --input x=x.npy -o golden
  opdiff golden model.onnx --input x.bin --shape 1,3,224,224 --for model.om -o golden
  opdiff golden net.prototxt net.caffemodel --input data=x.bin -o golden
  opdiff golden frozen.pb --input input:0=x.npy -o golden
  opdiff golden model.onnx --random 1 --shape x:1,3,224,224 -o golden
"""
_MAX_EXAMPLES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="original model: ONNX file, prototxt of a Caffe net, or frozen TensorFlow graph (.pb)",
    )
    parser.add_argument("weights", metavar="CAFFEMODEL", nargs="?", default="", help="weights of a Caffe net")
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="output directory; it must be new or empty"
    )
    add_input_data(parser)
    parser.add_argument(
        "--input-from-dump", metavar="DIR", default="",
        help="take inputs without a file from an NPU dump: the output of its Aipp operator",
    )  # fmt: skip
    parser.add_argument(
        "--for", metavar="FILE", default="", dest="rules",
        help="offline model or rule file: check the names that it asks for, and take input shapes from it",
    )  # fmt: skip
    parser.add_argument(
        "--only-needed", action="store_true",
        help="with --for: write only operators whose outputs a comparison with this file looks up",
    )  # fmt: skip
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="write only operators whose names fit, such as conv*",
    )
    parser.add_argument("--until", metavar="NAME", default="", help="write only the operators up to this one")
    parser.add_argument("--constants", action="store_true", help="write the outputs of Constant nodes, too")
    parser.add_argument(
        "--library", action="append", default=[], metavar="FILE.so",
        help="library with operators for ONNX Runtime; its code is executed",
    )  # fmt: skip
    parser.add_argument(
        "--force", action="store_true", help="run the model even if it lacks most operators that --for asks for"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the model, report, and return the exit code."""
    started = time.monotonic()
    result = run_model(_options(args), quiet=args.quiet > 0)
    if args.json != "-":
        _print_summary(result, time.monotonic() - started)
    if args.json:
        write_json(args.json, _values(result))
    return ExitCode.OK


def _options(args: argparse.Namespace) -> GoldenOptions:
    from opdiff.workflows.golden.options import GoldenOptions

    if args.only_needed and not args.rules:
        raise UsageError(because("cli.only_needed_alone"))
    inputs, shapes = given_inputs(args)
    return GoldenOptions(
        args.model,
        args.weights,
        output=args.output,
        inputs=inputs,
        shapes=shapes,
        seed=args.seed,
        rules=args.rules,
        input_dump=args.input_from_dump,
        only_needed=args.only_needed,
        only=tuple(args.only),
        until=args.until,
        constants=args.constants,
        libraries=tuple(args.library),
        force=args.force,
    )


def _print_summary(result: GoldenResult, seconds: float) -> None:
    amounts: dict[str, int | str] = {"files": result.files, "size": size(result.nbytes), "path": result.folder}
    print(printable(said("cli.golden_files", **amounts, seconds=seconds)))
    for path in result.input_files:
        print(printable(said("cli.random_input", path=path)))
    groups: dict[str, list[Omitted]] = {}
    for item in result.omitted:
        groups.setdefault(item.reason.code, []).append(item)
    for items in groups.values():
        names = list(dict.fromkeys(item.name for item in items))
        examples = ", ".join(names[:_MAX_EXAMPLES]) + (", …" if len(names) > _MAX_EXAMPLES else "")
        told = said("cli.without_file", count=len(names), names=examples, reason=items[0].reason)
        print(printable(told))


def _values(result: GoldenResult) -> dict[str, object]:
    omitted = [{"name": item.name, "code": item.reason.code, "reason": item.reason} for item in result.omitted]
    values = {"folder": result.folder, "files": result.files, "nbytes": result.nbytes, "without_file": omitted}
    return {**values, "input_files": result.input_files}

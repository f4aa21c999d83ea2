"""`opdiff golden`: run the original model on the CPU and write the outputs of its operators as golden data."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from opdiff.cli.arguments import integer
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.terminal import Progress, counted, json_text, printable
from opdiff.core.errors import UsageError
from opdiff.core.formatting import size

if TYPE_CHECKING:
    import argparse

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
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
_MAX_SEED = (1 << 32) - 1
_MAX_EXAMPLES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="original model: ONNX file, prototxt of a Caffe net, or frozen TensorFlow graph (.pb)",
    )
    parser.add_argument("weights", metavar="CAFFEMODEL", nargs="?", default="", help="weights of a Caffe net")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="new or empty directory for the results")
    parser.add_argument(
        "--input", type=_named_file, action="append", default=[], metavar="[NAME=]FILE", dest="inputs",
        help="data of an input: .npy, or raw bytes; the name may be left out if there is one input",
    )  # fmt: skip
    parser.add_argument(
        "--shape", type=_named_shapes, action="append", default=[], metavar="[NAME:]N,C,H,W", dest="shapes",
        help="shape of an input whose shape the model leaves open; several are separated by ;",
    )  # fmt: skip
    parser.add_argument(
        "--random", type=integer(0, _MAX_SEED, "seed"), metavar="SEED", dest="seed",
        help="use random data for inputs without a file, and write it as .bin for the NPU, too",
    )  # fmt: skip
    parser.add_argument(
        "--input-from-dump", metavar="DIR", default="",
        help="take inputs without a file from an NPU dump: the output of its Aipp operator",
    )  # fmt: skip
    parser.add_argument(
        "--for", metavar="FILE", default="", dest="rules",
        help="offline model or rule file: check the names that it asks for, and take input shapes from it",
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
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the model, report, and return the exit code."""
    from opdiff.workflows.golden.pipeline import make_golden

    options = _options(args)
    started = time.monotonic()
    with Progress("computing", quiet=args.quiet > 0, in_bytes=True) as progress:

        def notify(note: Reason) -> None:
            progress.say(f"opdiff: {printable(str(note))}", sys.stderr)

        result = make_golden(options, notify, progress.reach)
    if args.json:
        _print_json(result)
    else:
        _print_summary(result, time.monotonic() - started)
    return ExitCode.OK


def _options(args: argparse.Namespace) -> GoldenOptions:
    from opdiff.workflows.golden.options import GoldenOptions

    shapes = [pair for pairs in args.shapes for pair in pairs]
    for option, pairs in (("--input", args.inputs), ("--shape", shapes)):
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{option} names {twice or 'the only input'} twice")
    return GoldenOptions(
        args.model,
        args.weights,
        output=args.output,
        inputs=dict(args.inputs),
        shapes=dict(shapes),
        seed=args.seed,
        rules=args.rules,
        input_dump=args.input_from_dump,
        only=tuple(args.only),
        until=args.until,
        constants=args.constants,
        libraries=tuple(args.library),
    )


def _print_summary(result: GoldenResult, seconds: float) -> None:
    print(
        printable(f"{counted(result.files, 'golden file')}, {size(result.nbytes)}, in {seconds:.1f} s: {result.folder}")
    )
    for path in result.input_files:
        print(printable(f"random input: {path}"))
    groups: dict[str, list[Omitted]] = {}
    for item in result.omitted:
        groups.setdefault(item.reason.code, []).append(item)
    for items in groups.values():
        names = list(dict.fromkeys(item.name for item in items))
        examples = ", ".join(names[:_MAX_EXAMPLES]) + (", …" if len(names) > _MAX_EXAMPLES else "")
        print(printable(f"without a file: {counted(len(names), 'operator')} ({examples}): {items[0].reason}"))


def _print_json(result: GoldenResult) -> None:
    omitted = [{"name": item.name, "code": item.reason.code, "reason": item.reason} for item in result.omitted]
    values = {"folder": result.folder, "files": result.files, "nbytes": result.nbytes, "without_file": omitted}
    print(json_text({**values, "input_files": result.input_files}))


def _named_file(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text):
        return "", text
    if not name or not path:
        raise ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name, path


def _named_shapes(text: str) -> list[tuple[str, Shape]]:
    return [_named_shape(item) for item in text.split(";") if item]


def _named_shape(text: str) -> tuple[str, Shape]:
    name, _, extents = text.rpartition(":")
    parts = extents.split(",") if extents else []
    if not all(part.strip().isdecimal() for part in parts):
        raise ArgumentTypeError(f"{text!r} is not a shape such as data:1,3,224,224")
    return name, tuple(int(part) for part in parts)

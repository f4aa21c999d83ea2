"""Options about original models and their inputs, for commands that run models."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.cli.arguments import integer
from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import Progress
from opdiff.core import filesystem
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because, quoted

if TYPE_CHECKING:
    import argparse

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.golden.options import GoldenOptions
    from opdiff.workflows.golden.pipeline import GoldenResult

_MAX_SEED = (1 << 32) - 1
_MAX_REPLAYED = 9999
_DEFAULT_REPLAYED = 5
# Not given, which is something else than `None` for all operators.
_NOT_GIVEN = -1


def add_input_data(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the data and shapes of a model's inputs."""
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


def add_replayed_model(parser: argparse.ArgumentParser, model_help: str) -> None:
    """Add the rules and the original model of operators that are computed again; `given_shapes` returns the shapes."""
    parser.add_argument(
        "-fr", "-f", "--fusion-rule-file", "--rules", metavar="FILE", default="",
        help="rules of the target's model: offline model, JSON of ATC or graph text",
    )  # fmt: skip
    parser.add_argument("--model", metavar="FILE", default="", help=model_help)
    parser.add_argument("--weights", metavar="FILE", default="", help="caffemodel of a prototxt")
    parser.add_argument(
        "--shape", type=_named_shapes, action="append", default=[], metavar="[NAME:]N,C,H,W", dest="shapes",
        help="shape of an input whose shape the model leaves open",
    )  # fmt: skip


def given_shapes(args: argparse.Namespace) -> dict[str, Shape]:
    """Return the shapes of `--shape` by input."""
    return dict(pair for pairs in args.shapes for pair in pairs)


def given_inputs(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, Shape]]:
    """Return files and shapes by input.

    Raises:
        UsageError: an input is named twice.
    """
    shapes = [pair for pairs in args.shapes for pair in pairs]
    for option, pairs in (("--input", args.inputs), ("--shape", shapes)):
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            name = quoted(twice) if twice else because("cli.only_input")
            raise UsageError(because("cli.input_twice", option=option, name=name))
    return dict(args.inputs), given_shapes(args)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the original model that golden data is made from."""
    group = parser.add_argument_group("golden data from the original model, in place of the golden directory")
    group.add_argument("--model", metavar="FILE", default="", help="ONNX file, prototxt, or frozen TensorFlow graph")
    group.add_argument("--weights", metavar="FILE", default="", help="caffemodel of a prototxt")
    add_input_data(group)
    group.add_argument(
        "--replay", type=_replay_count, metavar="N|all|none", default=_NOT_GIVEN,
        help="compute this many suspects again from their dumped inputs, to prove or refute them, by the model or by "
        "types and attributes; needs ONNX Runtime; default: 5 with -fr and in graph mode, there of every rank, token "
        "and graph",
    )  # fmt: skip


def _replay_count(text: str) -> int | None:
    if text in ("all", "none"):
        return None if text == "all" else 0
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_REPLAYED:
        raise ArgumentTypeError(said("cli.not_replayed", text=text, limit=_MAX_REPLAYED))
    return int(text)


def require_model(args: argparse.Namespace) -> None:
    """Check that options of a model are given together with one.

    Raises:
        UsageError: there is no model.
    """
    given = {
        "--weights": args.weights,
        "--input": args.inputs,
        "--shape": args.shapes,
        "--random": args.seed is not None,
    }
    alone = next((option for option, value in given.items() if value), None)
    if alone and not args.model:
        raise UsageError(because("cli.requires_model", option=alone))


def run_model(options: GoldenOptions, *, quiet: bool) -> GoldenResult:
    """Make golden data, with progress and remarks on standard error."""
    from opdiff.workflows.golden.pipeline import make_golden

    with Progress(said("cli.running_model"), quiet=quiet, in_bytes=True) as progress:

        def notify(note: Reason) -> None:
            progress.say(f"opdiff: {printable(in_language(note))}", sys.stderr)

        return make_golden(options, notify, progress.reach)


def with_model(args: argparse.Namespace, options: CompareOptions) -> CompareOptions:
    """Return the options with golden data of the model, if there is one, and with the number of suspects to replay.

    Raises:
        UsageError: suspects are to be computed again without a rule file.
    """
    from opdiff.core.comparison import Mode

    has_rules = filesystem.isfile(options.target_rules)
    in_graph_mode = options.mode is Mode.GRAPH
    if args.replay not in (_NOT_GIVEN, 0) and not has_rules and not in_graph_mode:
        raise UsageError(because("cli.replay_needs_rules"))
    count = args.replay
    if count == _NOT_GIVEN:
        count = _DEFAULT_REPLAYED if has_rules or in_graph_mode else 0
    if not args.model:
        return replace(options, replay=count)
    golden = _golden_of_model(args, options)
    model = {"model": args.model, "model_weights": args.weights, "model_shapes": given_shapes(args)}
    return replace(options, golden=golden, **model, replay=count)


def _golden_of_model(args: argparse.Namespace, options: CompareOptions) -> str:
    """Make golden data from the model, or find it from an earlier run, in the output folder; return its directory."""
    from opdiff.workflows.golden.options import GoldenOptions

    inputs, shapes = given_inputs(args)
    wanted = GoldenOptions(
        args.model,
        args.weights,
        output=options.output,
        inputs=inputs,
        shapes=shapes,
        seed=args.seed,
        rules=options.target_rules if filesystem.isfile(options.target_rules) else "",
        # The dump may have the output of AIPP, which is the input of the original model.
        input_dump="" if args.inputs or args.seed is not None else options.target,
        force=options.force,
        reuse=True,
    )
    result = run_model(wanted, quiet=args.quiet > 0)
    if not args.quiet:
        code = "cli.golden_found" if result.is_reused else "cli.golden_made"
        print(printable(f"opdiff: {said(code, count=result.files, path=result.folder)}"), file=sys.stderr)
    return result.folder


def _named_file(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text):
        return "", text
    if not name or not path:
        raise ArgumentTypeError(said("cli.not_named_file", text=text))
    return name, path


def _named_shapes(text: str) -> list[tuple[str, Shape]]:
    """Parse the shapes of inputs: `x:1,3,224,224;y:1,8`."""
    return [_named_shape(item) for item in text.split(";") if item]


def _named_shape(text: str) -> tuple[str, Shape]:
    name, _, extents = text.rpartition(":")
    parts = extents.split(",") if extents else []
    if not all(part.strip().isdecimal() for part in parts):
        raise ArgumentTypeError(said("cli.not_named_shape", text=text))
    return name, tuple(int(part) for part in parts)

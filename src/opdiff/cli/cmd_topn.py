"""`opdiff topn`: compare the results of classification models over a batch of samples."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from opdiff.cli.arguments import add_json, add_output, integer, require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import Progress, make_output_folder, table, write_json
from opdiff.core.formatting import printable
from opdiff.core.reasons import Reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import TextIO

    from opdiff.workflows.topn.options import TopnOptions
    from opdiff.workflows.topn.result import SampleResult, Share, SideResult, TopK, TopnResult

DESCRIPTION = """\
Compare the outputs of a classification model over a batch of samples: agreement of the best classes, accuracy of both
runs if labels are given, the difference beside the documented limits (1 % is normal, 3 % is not), and the samples whose
result changed. TARGET and GOLDEN are arrays with a batch axis (.npy), archives (.npz), directories with a file for each
sample (.npy, .npz, .bin), or directories with the dumps of several runs."""
EPILOG = """\
examples:
  opdiff topn npu.npy golden.npy --labels val_label.txt
  opdiff topn npu_outputs golden_outputs --files '*_0.bin' --dtype float16
  opdiff topn NPU_DUMPS GOLDEN_DUMPS --operator prob --k 1,3,10
  opdiff topn npu.npz golden.npz --labels labels.csv --json topn.json -o OUT --fail-on suspicious
"""
_COLUMNS = ("agreement", "target_accuracy", "golden_accuracy", "loss", "interval", "result")
_FLIP_COLUMNS = ("sample", "label", "target", "golden", "target_margin", "golden_margin")
_GATES = ("wrong", "suspicious", "unsure")
_MAX_FLIPS = 10
_MAX_CLASSES = 3
_RAW_TYPES = ("float16", "float32", "float64", "int8", "uint8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("target", metavar="TARGET", help="outputs of the run under test: a file or a directory")
    parser.add_argument("golden", metavar="GOLDEN", help="outputs of the reference run")
    parser.add_argument(
        "--labels", metavar="FILE", default="",
        help="right classes: lines of LABEL, or NAME,LABEL, in a text or CSV file, or a .npy array",
    )  # fmt: skip
    parser.add_argument(
        "--label-offset", type=int, metavar="N", default=0, help="add this number to each label; -1 if they start at 1"
    )
    parser.add_argument(
        "--k", type=_numbers, metavar="K,…", default=(1, 5), help="numbers of best classes; default: 1,5"
    )
    _add_files(parser)
    add_output(parser, help="output directory for a CSV file of all samples", default="")
    add_json(parser)
    parser.add_argument(
        "--fail-on", type=_gate, metavar="LEVEL",
        help="exit with 1 if the result is wrong, at least suspicious, at least unsure, or above a limit such as 0.5%%",
    )  # fmt: skip


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operator", metavar="NAME[:K]", default="", help="operator of dumps that has the result, and its output"
    )
    parser.add_argument(
        "--golden-operator", metavar="NAME[:K]", default="", help="the same of the golden side; default: the same name"
    )
    parser.add_argument("--files", metavar="PATTERN", default="", help="names of the files that are samples")
    parser.add_argument(
        "--dtype", choices=_RAW_TYPES, default="float32", help="element type of .bin files; default: float32"
    )
    parser.add_argument(
        "--classes", type=integer(2, 1 << 30, "number of classes"), metavar="N", default=0,
        help="classes in .bin files with several samples",
    )  # fmt: skip


class Gate(Struct, frozen=True):
    """Outcome from which on a check fails, or the largest difference that it may have."""

    outcome: str = ""
    limit: float = 0.0

    def is_hit(self, result: TopnResult) -> bool:
        """Return whether the result is not accepted."""
        if self.outcome:
            return result.outcome in _GATES[: _GATES.index(self.outcome) + 1]
        return any(abs(top.loss.value) > self.limit for top in result.top)

    def sentence(self) -> str:
        """Return why it was hit."""
        if not self.outcome:
            return said("topn.gate_difference", limit=self.limit)
        code = "topn.gate_worst" if self.outcome == _GATES[0] else "topn.gate_outcome"
        return said(code, outcome=Reason(f"topn.outcome_{self.outcome}"))


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= 10_000 for part in parts):
        raise ArgumentTypeError(said("cli.not_numbers", text=text))
    return tuple(sorted({int(part) for part in parts}))


def _gate(text: str) -> Gate:
    if text in _GATES:
        return Gate(text)
    try:
        limit = float(text.removesuffix("%")) / 100
    except ValueError:
        limit = -1.0
    if not text.endswith("%") or not 0 <= limit <= 1:
        raise ArgumentTypeError(said("cli.not_topn_gate", text=text, choices=tuple(_GATES)))
    return Gate(limit=limit)


def run(args: argparse.Namespace) -> int:
    """Check, print the result, and return the exit code."""
    from opdiff.workflows.topn.pipeline import check_topn
    from opdiff.workflows.topn.result import write_samples

    require_paths(args.target, args.golden, *([args.labels] if args.labels else ()))
    if args.output:
        make_output_folder(args.output)
    with Progress(said("topn.ranking"), quiet=args.quiet > 0) as progress:
        result = check_topn(_options(args), progress.reach)
    # If the JSON goes to standard output, nothing else does.
    stream = sys.stderr if args.json == "-" else sys.stdout
    _print_result(result, stream)
    if args.output:
        print(printable(said("cli.samples_file", path=write_samples(result, args.output))), file=stream)
    if args.json:
        write_json(args.json, _json(result))
    is_hit = args.fail_on is not None and args.fail_on.is_hit(result)
    if is_hit:
        print(f"opdiff: {args.fail_on.sentence()}", file=sys.stderr)
    return ExitCode.GATE if is_hit else ExitCode.OK


def _options(args: argparse.Namespace) -> TopnOptions:
    from opdiff.workflows.topn.options import TopnOptions

    return TopnOptions(
        args.target,
        args.golden,
        labels=args.labels,
        label_offset=args.label_offset,
        ks=args.k,
        operator=args.operator,
        golden_operator=args.golden_operator,
        files=args.files,
        dtype=args.dtype,
        classes=args.classes,
    )


def _print_result(result: TopnResult, stream: TextIO) -> None:
    for sentence in result.sentences:
        print(printable(in_language(sentence)), file=stream)
    print(said("topn.size", samples=result.samples, classes=result.classes), file=stream)
    columns = ("", *_titles(_COLUMNS))
    table("", columns, [_cells(top) for top in result.top], right=columns[1:6], stream=stream)
    _print_flips(result.flips, stream)
    for note in result.notes:
        print(printable(said("topn.note", note=note)), file=stream)


def _titles(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(said(f"topn.column_{name}") for name in names)


def _cells(top: TopK) -> tuple[str, ...]:
    loss = top.loss
    shares = (top.agreement, top.target_accuracy, top.golden_accuracy)
    interval = said("topn.interval_cell", low=f"{loss.low:.2%}", high=f"{loss.high:.2%}")
    outcome = said(f"topn.outcome_{top.outcome}")
    return (f"top-{top.k}", *map(_share, shares), f"{loss.value:.2%}", interval, outcome)


def _share(share: Share | None) -> str:
    return "-" if share is None else f"{share.value:.2%}"


def _print_flips(flips: tuple[SampleResult, ...], stream: TextIO) -> None:
    if not flips:
        return
    title = said("topn.changed", count=len(flips))
    if len(flips) > _MAX_FLIPS:
        title = said("topn.changed_clearest", count=len(flips), shown=_MAX_FLIPS)
    columns = _titles(_FLIP_COLUMNS)
    rows = (_flip(sample) for sample in flips[:_MAX_FLIPS])
    table(title, columns, rows, right=columns[4:], stream=stream)


def _flip(sample: SampleResult) -> tuple[str, ...]:
    names = sample.name if sample.name == sample.golden_name else f"{sample.name} / {sample.golden_name}"
    sides = sample.target, sample.golden
    margins = ("-" if side.margin is None else f"{side.margin:.4g}" for side in sides)
    return (names, "-" if sample.label is None else str(sample.label), *map(_classes, sides), *margins)


def _classes(side: SideResult) -> str:
    return ", ".join(map(str, side.classes[:_MAX_CLASSES])) or "NaN"


def _json(result: TopnResult) -> dict[str, object]:
    values = asdict(result)
    del values["scored"]
    return values | {"schema": "opdiff-topn", "version": 1}

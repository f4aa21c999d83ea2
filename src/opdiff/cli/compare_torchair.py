"""`opdiff compare --mode torchair`: dumps of graph mode."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from opdiff.errors import UsageError

if TYPE_CHECKING:
    from opdiff.torchair import GraphOptions

MODES = ("auto", "real", "statistics", "md5")
_GRAPH_TEXT = re.compile(r"dynamo_(?:original|optimized)_graph_.*\.txt")
# What belongs to the comparison of offline models, by the name of its attribute.
_OFFLINE = {
    "fusion_rule_file": "-fr", "close_fusion_rule_file": "-cfr", "quant_fusion_rule_file": "-qfr", "custom": "-c",
    "range": "-r", "select": "-s", "pairs": "--pairs", "mapping": "-map", "overflow": "-overflow_detection",
}  # fmt: skip
_OWN = {"rank": "--rank", "token": "--token", "graph": "--graph"}
# What graph mode does not have.
_NOT_HERE = {"parquet": "--parquet", "junit": "--junit", "model_explorer": "--model-explorer", "fail_on": "--fail-on"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of graph mode."""
    group = parser.add_argument_group("graph mode (--mode torchair)")
    group.add_argument("--rank", type=_number, metavar="N", help="compare this rank only")
    group.add_argument("--token", type=_number, metavar="N", help="compare this token only")
    group.add_argument("--graph", type=_number, metavar="N", help="compare this graph only")
    group.add_argument(
        "--data_mode", choices=MODES, default="auto",
        help="by what: the data, its statistics, or its CRC-32; default: the data where it is there, else statistics",
    )  # fmt: skip


def is_graph_mode(args: argparse.Namespace, target: str) -> bool:
    """Whether this is a comparison of graph mode: because it says so, or because graph texts lie in the target.

    Raises:
        UsageError: options of the one are mixed with the other.
    """
    given = {name: getattr(args, name) for name in _OWN}
    # A rank of 0 is given, too.
    own = [_OWN[name] for name, value in given.items() if value is not None and value is not False]
    own += ["--data_mode"] if args.data_mode != "auto" else []
    offline = [option for name, option in _OFFLINE.items() if getattr(args, name)]
    offline += ["-alg"] if args.algorithm != ["all"] else []
    wanted = args.mode == "torchair" or (args.mode == "auto" and not offline and _has_graph_text(target))
    if wanted:
        offline += [option for name, option in _NOT_HERE.items() if getattr(args, name)]
    if wanted and offline:
        raise UsageError(f"{', '.join(offline)} does not go with --mode torchair")
    if own and not wanted:
        raise UsageError(f"{', '.join(own)} goes with --mode torchair only")
    return wanted


def _has_graph_text(path: str) -> bool:
    return os.path.isdir(path) and any(_GRAPH_TEXT.fullmatch(name) for name in os.listdir(path))


def run_graph_mode(args: argparse.Namespace, target: str, golden: str) -> int:
    """Compare, report, and return the exit code."""
    from opdiff.graphmode import DataMode
    from opdiff.torchair import GraphOptions

    if args.xlsx:
        from opdiff.report.as_xlsx import require_xlsx

        require_xlsx()
    options = GraphOptions(
        target,
        golden,
        args.output_path,
        args.rank,
        args.token,
        args.graph,
        DataMode(args.data_mode),
        args.xlsx,
        args.jobs or 0,
        args.memory or 0,
    )
    return compare_and_report(options, quiet=args.quiet > 0)


def compare_and_report(options: GraphOptions, *, quiet: bool) -> int:
    """Compare, write every table, summarise, and return the exit code."""
    from opdiff.cli.terminal import Progress, printable
    from opdiff.files import make_folder
    from opdiff.report.torchair_text import Tally, tally_lines
    from opdiff.torchair import compare_graphs, plan_graphs, write_graph_result, write_summary

    plan = plan_graphs(options)
    make_folder(options.output)
    tally = Tally()
    written: list[str] = []
    defects = 0
    with Progress("comparing", quiet=quiet, in_bytes=True) as progress:
        progress.say(plan.scenario)
        for note in plan.notes:
            progress.say(printable(f"note: {note}"))
        for result in compare_graphs(plan, options, progress.reach):
            tally.add(result.rank, result.graph, list(zip(result.rows, result.verdicts, strict=True)))
            where = "" if result.rank is None else f"rank {result.rank}: "
            for note in result.notes:
                progress.say(printable(f"note: {where}{note}"))
            written += write_graph_result(result, plan, options)
            defects += len(result.defects)
            # Of a defect that many rows have, one is enough to be reported.
            for defect in dict.fromkeys(result.defects):
                print(defect, file=sys.stderr)
    summary = write_summary(tally, plan, options)
    for line in (*tally_lines(tally), *(f"result: {path}" for path in written), f"summary: {summary}"):
        print(printable(line))
    return 70 if defects else 0 if tally.compared else 3


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)

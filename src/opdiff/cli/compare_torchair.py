"""`opdiff compare --mode torchair`: dumps of graph mode."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from opdiff.cli.arguments import integer
from opdiff.cli.exit_codes import comparison_exit_code
from opdiff.cli.report_options import wanted_reports
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from opdiff.cli.report_options import Gate
    from opdiff.report.graph_json import SavedGraph
    from opdiff.workflows.compare.graph_pipeline import GraphOptions
    from opdiff.workflows.compare.outputs import Reports

MODES = ("auto", "real", "statistics", "md5")
_GRAPH_TEXTS = ("dynamo_original_graph_", "dynamo_optimized_graph_")
# What belongs to the comparison of offline models, by the name of its attribute.
_OFFLINE = {
    "fusion_rule_file": "-fr", "close_fusion_rule_file": "-cfr", "quant_fusion_rule_file": "-qfr", "custom": "-c",
    "range": "-r", "select": "-s", "pairs": "--pairs", "mapping": "-map", "overflow": "-overflow_detection",
}  # fmt: skip
_UNIT_NUMBER = integer(0, 999_999_999)
_OWN = {"rank": "--rank", "token": "--token", "graph": "--graph"}
# What graph mode does not have, and why.
_NOT_HERE = {
    "model_explorer": ("--model-explorer", "Model Explorer shows one value for each operator, not one a token"),
    "op_name": ("-op", "it looks at one operator of an offline comparison"),
    "third": ("--third", "compare with the dump with fusion off in place of the golden one"),
}


class GraphWishes(NamedTuple):
    """Which reports are wanted beside the tables, by which limits, in which language, and when it fails."""

    quiet: bool = False
    reports: Reports | None = None
    limits: str = ""
    lang: str = "en"
    remedies: str = ""
    gate: Gate | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of graph mode."""
    group = parser.add_argument_group("graph mode (--mode torchair)")
    group.add_argument("--rank", type=_UNIT_NUMBER, metavar="N", help="compare this rank only")
    group.add_argument("--token", type=_UNIT_NUMBER, metavar="N", help="compare this token only")
    group.add_argument("--graph", type=_UNIT_NUMBER, metavar="N", help="compare this graph only")
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
    if wanted and offline:
        raise UsageError(f"{', '.join(offline)} does not go with --mode torchair")
    if wanted:
        _refuse_what_is_not_here(args)
    if own and not wanted:
        raise UsageError(f"{', '.join(own)} goes with --mode torchair only")
    return wanted


def _refuse_what_is_not_here(args: argparse.Namespace) -> None:
    for name, (option, why) in _NOT_HERE.items():
        if getattr(args, name):
            raise UsageError(f"{option} does not go with --mode torchair: {why}")


def _has_graph_text(path: str) -> bool:
    names = os.listdir(path) if os.path.isdir(path) else []
    return any(name.startswith(_GRAPH_TEXTS) and name.endswith(".txt") for name in names)


def run_graph_mode(args: argparse.Namespace, target: str, golden: str) -> int:
    """Compare, report, and return the exit code."""
    from opdiff.core.graphmode import DataMode
    from opdiff.workflows.compare.graph_pipeline import GraphOptions

    wishes = GraphWishes(args.quiet > 0, wanted_reports(args), args.limits, args.lang, args.remedies, args.fail_on)
    options = GraphOptions(
        target,
        golden,
        args.output_path,
        args.rank,
        args.token,
        args.graph,
        DataMode(args.data_mode),
        args.xlsx,
        args.jobs,
        args.memory or 0,
    )
    return compare_and_report(options, wishes)


def compare_and_report(options: GraphOptions, wishes: GraphWishes) -> int:
    """Compare, write every table and report, summarise, and return the exit code."""
    from opdiff.cli.cmd_judge import write_remedies
    from opdiff.cli.terminal import Progress, printable
    from opdiff.core.atomic_file import make_folder
    from opdiff.report.graph_summary import Tally, tally_lines
    from opdiff.report.summary_text import advice_lines
    from opdiff.workflows.compare.graph_outputs import GraphTables, saved_parts, write_summary
    from opdiff.workflows.compare.graph_pipeline import compare_graphs, plan_graphs
    from opdiff.workflows.compare.graph_reports import judged_graphs, report_stem, write_graph_reports
    from opdiff.workflows.compare.outputs import Reports, environment
    from opdiff.workflows.compare.pipeline import find_limits

    limits = find_limits(wishes.limits)
    plan = plan_graphs(options)
    make_folder(options.output)
    tally, made = Tally(), environment()
    parts: list[SavedGraph] = []
    defects = 0
    with GraphTables(options) as tables:
        with Progress("comparing", quiet=wishes.quiet, in_bytes=True) as progress:
            progress.say(str(plan.scenario))
            for note in plan.notes:
                progress.say(printable(f"note: {note}"))
            for result in compare_graphs(plan, options, progress.reach):
                tally.add(result.rank, result.graph, list(zip(result.rows, result.verdicts, strict=True)))
                for note in result.notes:
                    progress.say(printable(f"note: {note}"))
                for part in saved_parts(result, plan, made):
                    tables.add(part)
                    parts.append(part)
                defects += len(result.defects)
                # Of a defect that many rows have, one is enough to be reported.
                for defect in dict.fromkeys(result.defects):
                    print(defect, file=sys.stderr)
        tables.start()
        summary = write_summary(tally, plan, options)
        kept = judged_graphs(parts, limits)
        reports = wishes.reports or Reports()
        drawn = list(write_graph_reports(kept, reports, os.path.dirname(summary), report_stem(summary)))
        written = tables.finish()
    lines = [*tally_lines(tally), *advice_lines(kept, wishes.lang), *(f"result: {path}" for path in written)]
    lines += [f"summary: {summary}", *(f"report: {path}" for path in drawn)]
    if wishes.remedies:
        lines += write_remedies(kept, wishes.remedies)
    for line in lines:
        print(printable(line))
    hit = wishes.gate is not None and wishes.gate.is_hit(kept)
    if hit:
        print(printable(f"opdiff: {wishes.gate}"), file=sys.stderr)
    return comparison_exit_code(defects=defects, compared=tally.compared, gate_hit=hit)

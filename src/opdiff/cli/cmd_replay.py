"""`opdiff replay`: compute operators again on the CPU, from the inputs that they had on the NPU."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_cluster, add_json, check_cluster, integer, require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, language, said
from opdiff.cli.model_options import add_replayed_model, given_shapes
from opdiff.cli.terminal import Progress, table, write_json
from opdiff.core.errors import InputError, UsageError
from opdiff.core.formatting import printable
from opdiff.core.judgement import changed_limits
from opdiff.core.reasons import because, render_all

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import Replay, ReplayedOutput
    from opdiff.workflows.replay.options import ReplayOptions

    RunReplay = Callable[..., Iterable[Replay]]

DESCRIPTION = """\
Compute operators again on the CPU, from the inputs that they had on the NPU, and compare the results with their
outputs. Inputs that are already wrong do not count: the own error of an operator shows whether it is at fault itself.
Without golden data all operators are computed, otherwise the suspects of the comparison. Without the original model,
operators of common types are computed by their attributes in the rules, with dumped weights."""
EPILOG = """\
examples:
  opdiff replay NPU_DIR --model net.onnx --rules net.om              every operator, without golden data
  opdiff replay NPU_DIR GOLDEN_DIR --model net.onnx --rules net.om   the suspects of the comparison
  opdiff replay --saved result_20240115103052.json --model net.onnx
  opdiff replay NPU_DIR --model net.onnx --rules net.om --op conv1 --op conv2
  opdiff replay NPU_DIR --rules net.om                               without the original model
  opdiff replay NPU_DIR --model net.prototxt --weights net.caffemodel --rules net.om
  opdiff replay GE_DIR --rank 0 --token 1                            graph mode: graph texts are found by themselves
  opdiff replay GE_DIR FX_DIR                                        graph mode: the suspects of every unit
"""
_NUMBER = integer(0, 999_999_999)
_MAX_ALL_SHOWN = 20
_COLUMNS = ("operator", "type", "verdict", "error", "allowed", "remark")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("target", metavar="TARGET", nargs="?", default="", help="dump directory of the run on the NPU")
    parser.add_argument("golden", metavar="GOLDEN", nargs="?", default="", help="golden directory, to find suspects")
    parser.add_argument(
        "--saved", metavar="JSON", default="", help="saved comparison whose suspects, target and rules are taken"
    )
    add_replayed_model(parser, "original model: ONNX file, or prototxt; without it, types and attributes decide")
    group = parser.add_argument_group("graph mode (dumps of TorchAir, without -fr)")
    for name in ("rank", "token", "graph"):
        group.add_argument(f"--{name}", type=_NUMBER, metavar="N", help=f"operators of this {name} only")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", dest="operators", help="this operator")
    parser.add_argument("--all", action="store_true", help="every operator, not the suspects only")
    parser.add_argument(
        "--limits", metavar="FILE", default="", help="limits (TOML); default: opdiff.toml in this directory, if present"
    )
    add_json(parser, "the results")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Replay, print, and return the exit code."""
    from opdiff.core.replay import ReplayVerdict
    from opdiff.workflows.cluster import find_cluster
    from opdiff.workflows.limits_file import find_limits

    check_cluster(args)
    comparison = _comparison(args)
    replay = _graph_mode(args, comparison) if _is_graph_mode(args, comparison) else _offline(args, comparison)
    if replay is None:
        print(said("report.nothing_to_replay"))
        return ExitCode.OK
    with (
        Progress(said("report.replaying"), quiet=args.quiet > 0) as progress,
        find_cluster(args.cluster, args.cluster_config, progress.show_workers) as cluster,
    ):
        replays = list(replay(progress.reach, cluster))
    if args.json != "-":
        _print(replays)
    for note in changed_limits(find_limits(args.limits).path):
        print(printable(in_language(note)), file=sys.stderr if args.json == "-" else sys.stdout)
    if args.json:
        write_json(args.json, replays)
    replayed = [item for item in replays if item.verdict is not ReplayVerdict.NOT_REPLAYABLE]
    return ExitCode.OK if replayed else ExitCode.UNUSABLE_INPUT


def _is_graph_mode(args: argparse.Namespace, comparison: Comparison | None) -> bool:
    """Return whether operators are described by the graph texts in the dump itself.

    Raises:
        UsageError: units are chosen of a dump with one rule file.
    """
    from opdiff.core.comparison import Mode
    from opdiff.workflows.replay.graph_units import is_graph_dump

    described = bool(args.fusion_rule_file or args.model)
    units = [f"--{name}" for name in ("rank", "token", "graph") if getattr(args, name) is not None]
    if described and units:
        raise UsageError(because("cli.units_of_graph_mode", option=units[0]))
    if comparison is not None:
        return comparison.mode is Mode.GRAPH
    if described or not args.target:
        return False
    return bool(units) or is_graph_dump(args.target)


def _graph_mode(args: argparse.Namespace, comparison: Comparison | None) -> RunReplay | None:
    """Return the replay of operators of graph mode; `None` if the comparison suspects none."""
    from opdiff.workflows.replay.graph_proof import replay_suspects
    from opdiff.workflows.replay.graph_replay import replay_graph_dump
    from opdiff.workflows.replay.options import ReplayOptions

    target = args.target or (comparison.target.path if comparison else "")
    require_paths(target)
    options = ReplayOptions(
        target,
        operators=tuple(args.operators),
        limits=args.limits,
        rank=args.rank,
        token=args.token,
        graph=args.graph,
    )
    if comparison is None or args.all or args.operators:
        return partial(replay_graph_dump, options)
    if not comparison.judgement.findings:
        return None
    return partial(replay_suspects, comparison, options)


def _offline(args: argparse.Namespace, comparison: Comparison | None) -> RunReplay | None:
    """Return the replay of operators with one rule file; `None` if the comparison suspects none."""
    from opdiff.workflows.replay.pipeline import replay

    options = _options(args, comparison)
    is_empty = comparison is not None and not options.operators and not args.all
    return None if is_empty else partial(replay, options)


def _comparison(args: argparse.Namespace) -> Comparison | None:
    """Return the comparison whose suspects are replayed; `None` if there is none."""
    from opdiff.workflows.compare.inputs import ComparisonProblem
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.pipeline import compare
    from opdiff.workflows.compare.saved import load_saved

    if args.saved:
        if args.golden:
            raise UsageError(because("cli.saved_is_golden"))
        return load_saved([args.saved])
    if not args.golden:
        return None
    require_paths(args.target, args.golden)
    options = CompareOptions(
        args.target,
        args.golden,
        args.fusion_rule_file,
        limits=args.limits,
        cluster=args.cluster,
        cluster_config=args.cluster_config,
        rank=args.rank,
        token=args.token,
        graph=args.graph,
    )
    with Progress(said("report.comparing"), quiet=args.quiet > 0, in_bytes=True) as progress:
        results = list(compare(options, progress.reach, progress.show_workers))
    if len(results) != 1:
        raise UsageError(because("replay.one_rule_file"))
    (result,) = results
    if isinstance(result, ComparisonProblem):
        raise InputError(result.path, result.reason)
    return result.comparison


def _options(args: argparse.Namespace, comparison: Comparison | None) -> ReplayOptions:
    from opdiff.workflows.replay.options import ReplayOptions

    target = args.target or (comparison.target.path if comparison else "")
    rules = args.fusion_rule_file or (comparison.extra_inputs.fusion_rules if comparison else "")
    if not target:
        raise UsageError(because("cli.replay_needs_target"))
    if not rules:
        raise UsageError(because("cli.replay_needs_fr"))
    require_paths(*(path for path in (target, rules, args.model, args.weights) if path))
    operators = tuple(args.operators)
    if not operators and comparison is not None and not args.all:
        from opdiff.workflows.replay.proof import suspects_of

        operators = suspects_of(comparison.judgement)
    model = (args.model, args.weights, given_shapes(args))
    return ReplayOptions(target, rules, *model, operators, args.limits)


def _print(replays: Sequence[Replay]) -> None:
    """Print a table of the operators that are not innocent, and a summary; all operators if they are few."""
    from opdiff.core.replay import ReplayVerdict

    verdicts = [item.verdict for item in replays]
    shown = [item for item in replays if item.verdict is not ReplayVerdict.INNOCENT or len(replays) <= _MAX_ALL_SHOWN]
    if shown:
        titles = [_word(name) for name in _COLUMNS]
        table("", titles, [_cells(item) for item in shown], right=titles[3:5])
    counts = {
        "innocent": verdicts.count(ReplayVerdict.INNOCENT),
        "guilty": verdicts.count(ReplayVerdict.GUILTY),
        "unknown": verdicts.count(ReplayVerdict.NOT_REPLAYABLE),
    }
    print(said("report.replay_summary", count=len(replays), **counts))


def _word(name: str) -> str:
    return said(f"report.replay_{name.replace(' ', '_')}")


def _cells(item: Replay) -> tuple[str, ...]:
    remark = render_all(_remarks_of(item), language())
    error, allowed = (f"{item.outputs[0].error:.2e}", f"{item.outputs[0].limit:.2e}") if item.outputs else ("", "")
    name = item.operator if item.unit is None else f"{item.operator} ({item.unit})"
    return name, item.op_type, _word(item.verdict), error, allowed, remark


def _remarks_of(item: Replay) -> Iterator[Reason]:
    """Yield why an operator cannot be replayed, or what is wrong with its output."""
    from opdiff.core.replay import ReplayVerdict

    if item.reason is not None:
        yield item.reason
    if item.cause is not None:
        yield item.cause.evidence
        if item.cause.runner_up is not None:
            yield because("replay.runner_up", cause=item.cause.runner_up)
    if item.verdict is ReplayVerdict.GUILTY:
        yield from _remarks_about(item.outputs[0])


def _remarks_about(output: ReplayedOutput) -> Iterator[Reason]:
    if output.unequal > output.unequal_limit:
        yield because("replay.unequal", share=output.unequal)
    elif output.error <= output.limit:
        yield because("replay.few_elements", peak=output.peak, allowed=output.peak_limit)
    yield because("replay.worst", index=output.worst, target=output.worst_target, replayed=output.worst_replayed)

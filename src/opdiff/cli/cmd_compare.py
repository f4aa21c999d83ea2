"""`opdiff compare`: compare the dumps of two runs, operator by operator."""

from __future__ import annotations

import os
import sys
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.cli.arguments import (
    add_cache,
    add_cluster,
    add_custom,
    add_element_options,
    add_jobs,
    add_json,
    add_judging,
    add_mode,
    add_rules,
    add_units,
    byte_count,
    check_cluster,
    chosen_mode,
    require_paths,
)
from opdiff.cli.exit_codes import ExitCode, comparison_exit_code
from opdiff.cli.language import in_language, said
from opdiff.cli.model_options import add_model, require_model, with_model
from opdiff.cli.report_options import (
    add_gate,
    add_pictures,
    add_report_options,
    chosen_reports,
    message_options,
    print_refused,
    write_answer,
)
from opdiff.cli.terminal import Progress, note_owner, open_page, write_document
from opdiff.core import filesystem
from opdiff.core.atomic_file import make_folder, require_writable
from opdiff.core.comparison import DataMode, Mode
from opdiff.core.errors import InputError, UsageError
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import Reason, because
from opdiff.report import find_forms

if TYPE_CHECKING:
    import argparse

    from opdiff.cli.report_options import MessageOptions
    from opdiff.workflows.compare.options import CompareOptions

DESCRIPTION = """\
Compare the dumps of two runs of one model. The target ran on the NPU; the golden ran elsewhere, or on another NPU.
Every target tensor is paired with the golden tensor it must equal, converted to its layout and measured. Results are
result_{timestamp}.csv and report_{timestamp}.html. Rule files describe fused, renamed and quantized operators."""
EPILOG = """\
examples:
  msprobe compare -m offline_data -tp NPU_DIR -gp GOLDEN_DIR -fr network.json -o OUT
  opdiff compare NPU_DIR GOLDEN_DIR --rules network.json
  opdiff compare NPU_DIR --model net.onnx --input x=x.npy --rules net.om      golden data from the original model
  opdiff compare NPU_DIR --model net.onnx --input x=x.npy --rules net.om --replay all   every operator computed again
  opdiff compare NPU_DIR OTHER_NPU_DIR                            two versions or two processors
  opdiff compare ON_DIR OFF_DIR --rules on.json --fusion-off-rules off.json   fusion on against fusion off
  opdiff compare DUMP_PATH/TIME GOLDEN_DIR --rules RULES_DIR      training: every device, model and step
  msprobe compare --target_path GE_DIR --golden_path FX_DIR --mode torchair
  opdiff compare sftp://HOST/DIR s3://BUCKET/DIR --rules net.om   remote files, by ssh and in an object store
  opdiff compare GE_DIR GE_OFF_DIR --mode torchair --xlsx         graph mode, fusion on against off, with workbooks
"""
_DATA_MODES = ("auto", "real", "statistics", "md5")
# Options that graph mode does not have, by argument, and the code of the reason.
_NOT_IN_GRAPH_MODE = {
    "op_name": ("-op", "cli.op_of_offline"),
    "third": ("--third", "cli.third_in_graph_mode"),
    "mapping": ("-map", "cli.tables_have_pairings"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    _add_documented(parser)
    _add_choices(parser)
    _add_graph_mode(parser)
    _add_single(parser)
    add_model(parser)
    add_judging(parser)
    parser.add_argument(
        "--third", metavar="DIR", default="",
        help="dump of the target with fusion off, to find the step that causes the error",
    )  # fmt: skip
    add_gate(parser)
    parser.add_argument("--force", action="store_true", help="compare and judge even if inputs seem to be mixed up")
    add_report_options(parser)
    add_pictures(parser)
    add_json(parser, "the answer for machines")
    _add_work(parser)


def _add_documented(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="target and golden directory, in this order")
    add_mode(parser)
    parser.add_argument("-tp", "--target-path", metavar="DIR", default="", help="the same as the first PATH")
    parser.add_argument("-gp", "--golden-path", metavar="DIR", default="", help="the same as the second PATH")
    add_rules(parser)
    parser.add_argument(
        "-o", "--output", "--output-path", "--output-dir", metavar="DIR", nargs="?", const=".", default=".",
        help="output directory; default: current directory",
    )  # fmt: skip


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-alg", "--algorithm", "--metrics", metavar="LIST", nargs="+", default=["all"],
        help="documented metrics to write, by name or number; default: all",
    )  # fmt: skip
    add_custom(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-r", "--range", metavar="START,END,STEP", default="", help="only operators with these ids in the rules"
    )
    which.add_argument("-s", "--select", metavar="I,J,…", default="", help="only operators with these ids in the rules")
    parser.add_argument(
        "--pairs", metavar="FILE", default="", help="manual pairings (TOML); they take precedence over the rules"
    )
    parser.add_argument(
        "-map", "--mapping", action="store_true", help="write the table of pairings only, without measuring"
    )
    parser.add_argument(
        "-overflow_detection", "--overflow", action="store_true", help="add the column OverFlow to the result"
    )


def _add_graph_mode(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("graph mode (--mode torchair)")
    add_units(group)
    group.add_argument(
        "--ranks", metavar="FILE", default="",
        help="directories of the ranks (TOML), instead of target and golden directory",
    )  # fmt: skip
    group.add_argument(
        "--shards", metavar="FILE", default="",
        help="the target's ranks hold parts of the golden tensors: how (TOML), or auto to find it by shapes",
    )  # fmt: skip
    group.add_argument(
        "--data-mode", choices=_DATA_MODES, default="auto",
        help="compare data, statistics or CRC-32; default: data if both sides have it, else statistics",
    )  # fmt: skip


def _add_single(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-op", "--op-name", metavar="NAME", help="examine one operator only, element by element")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-i", "--input-tensor", type=int, metavar="N", help="with -op: this input")
    which.add_argument("--output-tensor", type=int, metavar="N", help="with -op: this output; default: 0")
    add_element_options(parser)


def _add_work(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    parser.add_argument(
        "--memory", type=byte_count, metavar="SIZE", help="memory limit of all workers together, such as 4G"
    )
    add_cache(parser)
    add_cluster(parser)
    parser.add_argument(
        "--resume", action="store_true",
        help="save finished results, and continue an interrupted run with its output directory",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Compare, report, and return the exit code."""
    from opdiff.workflows.compare.options import choose_mode

    options = _options(args, *_sides(args))
    options = replace(options, mode=choose_mode(options))
    _check_mode(args, options)
    _check_single(args)
    check_cluster(args, "jobs", "memory", "op_name")
    options = with_model(args, options)
    if args.op_name is not None:
        return _run_single(args, options)
    # A comparison in graph mode that fails leaves no folder.
    prepare = make_folder if options.mode is Mode.OFFLINE else require_writable
    prepare(options.output)
    note_owner(options.output)
    if args.mapping:
        return _run_mapping(options)
    code = compare_and_report(options, message_options(args))
    return _run_third(args, options, code) if args.third and code in (ExitCode.OK, ExitCode.GATE) else code


def _check_mode(args: argparse.Namespace, options: CompareOptions) -> None:
    from opdiff.workflows.compare.options import has_steps

    find_forms(options.reports, options.mode)
    if args.json and options.mode is Mode.OFFLINE and has_steps(options):
        raise UsageError(because("cli.json_of_one_comparison"))
    for name, (option, why) in _NOT_IN_GRAPH_MODE.items():
        if options.mode is Mode.GRAPH and getattr(args, name):
            raise UsageError(because("cli.not_in_graph_mode", option=option, why=Reason(why)))


def _check_single(args: argparse.Namespace) -> None:
    only = {
        "-i": args.input_tensor,
        "--output-tensor": args.output_tensor,
        "-n": args.topn,
        "-ml": args.max_line,
        "--ignore-single-op-result": args.ignore_single_op_result or None,
    }
    given = [option for option, value in only.items() if value is not None]
    if args.op_name is None and given:
        raise UsageError(because("cli.requires_op", option=given[0]))
    if args.op_name is not None and (args.range or args.select or args.mapping):
        raise UsageError(because("cli.op_alone"))
    if args.op_name is not None and args.output.isdecimal() and not os.path.isdir(args.output):
        raise UsageError(because("cli.output_is_directory", output=args.output))


def _run_single(args: argparse.Namespace, options: CompareOptions) -> int:
    from opdiff.cli.cmd_op import element_diff_options, examine_and_report
    from opdiff.core.tensor import Slot

    slot = Slot.OUTPUT if args.input_tensor is None else Slot.INPUT
    index = args.output_tensor if args.input_tensor is None else args.input_tensor
    element_options = element_diff_options(args, args.op_name)
    element_options = replace(element_options, slot=slot, index=index or 0, tables=not args.ignore_single_op_result)
    return examine_and_report(options, element_options, quiet=args.quiet > 0)


def _run_mapping(options: CompareOptions) -> int:
    from opdiff.core.pairing import Pairing
    from opdiff.workflows.compare.inputs import ComparisonProblem
    from opdiff.workflows.compare.outputs import write_pairs
    from opdiff.workflows.compare.pipeline import pair_only

    for pairs in pair_only(options):
        if isinstance(pairs, ComparisonProblem):
            print(printable(said("cli.not_paired", path=pairs.path, reason=pairs.reason)), file=sys.stderr)
            continue
        found = sum(isinstance(row, Pairing) for row in pairs)
        print(said("cli.rows_paired", count=found, total=len(pairs)))
        print(printable(said("report.result_file", path=write_pairs(pairs, options))))
    return ExitCode.OK


def compare_and_report(options: CompareOptions, messages: MessageOptions) -> int:
    """Compare, write and summarise every result, and return the exit code."""
    try:
        return _compare_and_report(options, messages)
    except InputError as error:
        if messages.answer:
            from opdiff.report.answer_json import encode_answer, make_failure

            failure = make_failure(options.mode or Mode.OFFLINE, str(error))
            write_document(messages.answer, encode_answer(failure))
        raise


def _compare_and_report(options: CompareOptions, messages: MessageOptions) -> int:
    from opdiff.workflows.compare.inputs import ComparisonProblem
    from opdiff.workflows.compare.pipeline import compare_and_write

    if not options.cluster:
        _note_kernel()
    compared, defects = 0, list[str]()
    is_hit = is_misfit = is_incomplete = False
    pages: list[str] = []
    # If the answer goes to standard output, nothing else does.
    stream = sys.stderr if messages.answer == "-" else sys.stdout
    with Progress(said("report.comparing"), quiet=messages.quiet, in_bytes=True) as progress:

        def on_replay_progress(done: int, total: int, left: float) -> None:
            time = None if left == inf else because("report.seconds_left", seconds=left)
            progress.describe(said("report.replaying_suspects", done=done, total=total, left=time))

        for result in compare_and_write(options, progress.reach, progress.show_workers, on_replay_progress):
            if isinstance(result, ComparisonProblem):
                told = said("report.run_not_compared", path=result.path, reason=result.reason)
                progress.say(printable(told), stream)
                continue
            outcome, files = result
            # Needs modules of reports, which are imported while the kernel measures.
            from opdiff.cli.result_text import result_lines
            from opdiff.workflows.compare.optional_steps import OptionalSteps

            steps, lines = OptionalSteps(), list[str]()
            if messages.answer:
                write = partial(write_answer, outcome.comparison, messages.answer)
                steps.attempt(because("compare.step_answer"), write, None)
            # Lines before one that fails are kept.
            made = result_lines(outcome, files, messages)
            steps.attempt(because("compare.step_messages"), partial(lines.extend, made), None)
            lines += [printable(in_language(note)) for note in steps.notes]
            progress.say("\n".join(lines), stream)
            is_incomplete = is_incomplete or files.is_incomplete or steps.has_lost_file
            pages += files.reports[:1]
            refused = messages.gate.refused(outcome.comparison) if messages.gate else ()
            if messages.gate and refused:
                is_hit = True
                print_refused(messages.gate, refused)
            is_misfit = is_misfit or outcome.comparison.judgement.misfit is not None
            compared += any(row.is_compared for row in outcome.comparison.rows)
            defects += (*outcome.defects, *files.defects, *steps.defects)
    # One traceback is enough for an error that many rows have.
    for defect in dict.fromkeys(defects):
        print(defect, file=sys.stderr)
    for page in pages[:1] if messages.opens else ():
        open_page(page)
    unusable = is_misfit or is_incomplete
    return comparison_exit_code(defects=len(defects), compared=compared, gate_hit=is_hit, misfit=unusable)


def _note_kernel() -> None:
    """Say on standard error if NumPy measures because the native kernel is missing, and how fast that is."""
    from opdiff.workflows.kernel import find_fallback_speed

    speed = find_fallback_speed()
    if speed is not None:
        print(f"opdiff: {said('cli.kernel_missing', speed=size(round(speed)))}", file=sys.stderr)


def _run_third(args: argparse.Namespace, options: CompareOptions, code: int) -> int:
    """Say which step broke the model, by a run with fusion off."""
    from opdiff.cli.cmd_stages import print_chain
    from opdiff.workflows.stages.pipeline import find_step

    chain = find_step(options, args.third, args.close_fusion_rule_file)
    print_chain(chain, message_options(args), sys.stderr if args.json == "-" else sys.stdout)
    return code


def _options(args: argparse.Namespace, target: str, golden: str) -> CompareOptions:
    from opdiff.workflows.compare.options import CompareOptions

    return CompareOptions(
        target=target,
        golden=golden,
        fusion_rules=args.fusion_rule_file,
        # With a third run these are its rules, not those of the golden side.
        fusion_off_rules="" if args.third else args.close_fusion_rule_file,
        quant_rules=args.quant_fusion_rule_file,
        output=args.output,
        metrics=" ".join(args.algorithm),
        custom=args.custom,
        number_range=args.range,
        selected=args.select,
        pairs=args.pairs,
        overflow=args.overflow,
        workers=args.jobs,
        memory=args.memory or 0,
        cluster=args.cluster,
        cluster_config=args.cluster_config,
        resume=args.resume,
        cache=args.cache,
        limits=args.limits,
        reports=chosen_reports(args),
        mode=chosen_mode(args),
        ranks=args.ranks,
        rank=args.rank,
        token=args.token,
        graph=args.graph,
        shards=args.shards,
        data_mode=DataMode(args.data_mode),
        force=args.force,
        pictures=args.pictures,
    )


def _sides(args: argparse.Namespace) -> tuple[str, str]:
    given = [path for path in (args.target_path, args.golden_path) if path]
    require_model(args)
    sides = [*args.paths, *given]
    if args.model:
        if len(sides) != 1 or args.golden_path:
            raise UsageError(because("cli.model_is_golden"))
        require_paths(*sides)
        return sides[0], ""
    if args.ranks:
        if sides:
            raise UsageError(because("cli.ranks_have_sides"))
        require_paths(args.ranks)
        return args.ranks, args.ranks
    if len(sides) != 2 or (args.paths and given):
        listed = because("cli.paths_given", count=len(sides), paths=tuple(sides)) if sides else because("cli.no_path")
        rules = because("cli.rules_by_fr") if any(map(filesystem.isfile, sides)) else None
        raise UsageError(because("cli.two_sides", given=listed, rules=rules))
    require_paths(*sides)
    return sides[0], sides[1]

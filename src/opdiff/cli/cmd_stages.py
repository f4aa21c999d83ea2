"""`opdiff stages`: find the step from the original model to the device that lost the accuracy."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_custom, add_jobs, add_json, add_judging, add_output, add_rules, require_paths
from opdiff.cli.exit_codes import comparison_exit_code
from opdiff.cli.language import language, said
from opdiff.cli.report_options import add_gate, add_report_options, chosen_reports, message_options, print_refused
from opdiff.cli.terminal import Progress, make_output_folder, open_page, write_document
from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import TextIO

    from opdiff.cli.report_options import MessageOptions
    from opdiff.core.stages import Chain
    from opdiff.workflows.stages.options import StageName, StagesOptions
    from opdiff.workflows.stages.pipeline import ComparedStages

DESCRIPTION = """\
Find the step that lost the accuracy: quantization, conversion, fusion, another version or another processor. Give the
data of two to four runs of one model, from the original one on. Neighbours are compared, and every stage with the
first one. What a directory holds is recognized from its files and the rule files."""
EPILOG = """\
examples:
  opdiff stages ORIGINAL FAKE_QUANT OFF_DIR ON_DIR --quant-rules quant.json --fusion-off-rules off.om --rules on.om
  opdiff stages ORIGINAL OFF_DIR ON_DIR --fusion-off-rules off.json --rules on.json
  opdiff stages ORIGINAL OFFLINE NEXT_VERSION --rules net.om --stage version=NEXT_VERSION
"""
_NAMES = ("original", "quantized", "fusion-off", "offline", "version", "processor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("directories", nargs="+", metavar="DIR", help="data of a run, in the order of the steps")
    parser.add_argument(
        "--stage", type=_stage, action="append", metavar="KIND=DIR", default=[],
        help=f"what one of the directories holds: {', '.join(_NAMES)}; default: recognized",
    )  # fmt: skip
    add_rules(parser)
    parser.add_argument(
        "--version-rules", metavar="FILE", default="", help="rules of the model of the other version or processor"
    )
    add_output(parser, help="output directory; default: current directory")
    add_json(parser, "the answer for machines")
    add_custom(parser)
    add_judging(parser)
    add_gate(parser)
    parser.add_argument("--force", action="store_true", help="compare and judge even if inputs seem to be mixed up")
    add_report_options(parser)
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    """Compare the stages, report, and return the exit code."""
    options = _options(args)
    make_output_folder(options.compare.output)
    return run_stages(options, message_options(args))


def run_stages(options: StagesOptions, messages: MessageOptions) -> int:
    """Compare the stages, write and print the results, and return the exit code."""
    from opdiff.report.answer_json import encode_answer
    from opdiff.report.stages_report import make_stages_answer
    from opdiff.workflows.stages.pipeline import compare_stages

    with Progress(said("report.comparing"), quiet=messages.quiet, in_bytes=True) as progress:
        done = compare_stages(options, progress.reach, write=True)
    # If the answer goes to standard output, nothing else does.
    stream = sys.stderr if messages.answer == "-" else sys.stdout
    print_chain(done.chain, messages, stream)
    for line in _file_lines(done, options.compare.output, messages):
        print(line, file=stream)
    if messages.answer:
        write_document(messages.answer, encode_answer(make_stages_answer(done.chain)))
    if messages.opens:
        open_page(_page(done))
    for defect in dict.fromkeys(done.defects):
        print(defect, file=sys.stderr)
    gate = messages.gate
    refused = [name for each in done.chain.comparisons for name in gate.refused(each)] if gate else []
    if gate and refused:
        print_refused(gate, refused)
    return _exit_code(done, gate_hit=bool(refused))


def _page(done: ComparedStages) -> str:
    """Return the report of the step that lost most, or of the first one."""
    before = done.chain.steps[: done.chain.verdict.culprit or 0]
    return done.files[sum(step.comparison is not None for step in before)].reports[0]


def _exit_code(done: ComparedStages, *, gate_hit: bool) -> int:
    comparisons = done.chain.comparisons
    compared = sum(row.is_compared for comparison in comparisons for row in comparison.rows)
    is_misfit = all(comparison.judgement.misfit for comparison in comparisons)
    return comparison_exit_code(defects=len(done.defects), compared=compared, gate_hit=gate_hit, misfit=is_misfit)


def print_chain(chain: Chain, messages: MessageOptions, stream: TextIO) -> None:
    """Print the stages, the steps and the verdict; if quiet, only remarks and the first sentence."""
    from opdiff.cli.result_text import styled
    from opdiff.report.stages_report import chain_lines, note_lines, verdict_lines

    for lines in (note_lines, verdict_lines) if messages.quiet else (chain_lines,):
        for line in lines(chain, language()):
            print(styled(line), file=stream)


def _file_lines(done: ComparedStages, output: str, messages: MessageOptions) -> Iterator[str]:
    """Write the files that apply the advice, and yield the lines about all files."""
    from opdiff.cli.result_text import file_line, styled
    from opdiff.workflows.stages.pipeline import write_fusion_switches, write_stage_remedies

    reports = [path for files in done.files for path in (files.reports or files.tables)[:1]]
    remedies = write_fusion_switches(done.chain, output)
    remedies += write_stage_remedies(done.chain, messages.remedies) if messages.remedies else []
    yield from (styled(file_line("report", path)) for path in reports if not messages.quiet)
    yield from (styled(file_line("remedy", path)) for path in remedies)


def _options(args: argparse.Namespace) -> StagesOptions:
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.stages.options import StagesOptions

    rules = (args.fusion_rule_file, args.close_fusion_rule_file, args.quant_fusion_rule_file, args.version_rules)
    require_paths(*args.directories, *filter(None, rules))
    compare = CompareOptions(
        output=args.output,
        custom=args.custom,
        workers=args.jobs,
        limits=args.limits,
        reports=chosen_reports(args),
        mode=Mode.OFFLINE,
        force=args.force,
    )
    return StagesOptions(tuple(args.directories), _names(args), *rules, compare)


def _names(args: argparse.Namespace) -> tuple[StageName | None, ...]:
    """Return what each directory holds, as far as it was said."""
    from opdiff.workflows.stages.options import StageName

    said = {os.path.abspath(path): StageName(name) for name, path in args.stage}
    given = [os.path.abspath(path) for path in args.directories]
    for name, path in args.stage:
        if os.path.abspath(path) not in given:
            raise UsageError(because("cli.stage_elsewhere", name=name, path=path, directories=tuple(args.directories)))
    return tuple(said.get(path) for path in given)


def _stage(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or name not in _NAMES:
        raise ArgumentTypeError(said("cli.not_stage", text=text, choices=_NAMES))
    return name, path

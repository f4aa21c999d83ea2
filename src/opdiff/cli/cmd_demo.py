"""`opdiff demo`: write sample dumps with known faults, and compare them."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from opdiff.cli.language import in_language, said
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.compare.options import CompareOptions

DESCRIPTION = """\
Write sample dumps of a small convolutional network: a golden run in fp32 and a simulated NPU run (fp16, private
layouts, fused operators) with known faults; then compare both."""
EPILOG = """\
examples:
  opdiff demo
  opdiff demo /tmp/sample --force
  opdiff demo /tmp/graphs --torchair
  opdiff demo /tmp/stages --stages fusion
"""
_STAGE_FAULTS = ("quantization", "conversion", "fusion", "version")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("directory", nargs="?", metavar="DIR", default="opdiff-demo", help="default: opdiff-demo")
    parser.add_argument("--force", action="store_true", help="write to a directory that has other files")
    parser.add_argument("--torchair", action="store_true", help="write a sample of graph mode: two ranks, two tokens")
    parser.add_argument(
        "--stages", choices=_STAGE_FAULTS, nargs="?", const=_STAGE_FAULTS[1],
        help="write a quantized model in all stages, with a fault in this step; default: conversion",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Write the sample, compare it, and return the exit code."""
    if args.torchair:
        return _run_torchair(args.directory, force=args.force)
    if args.stages:
        return _run_stages(args.directory, args.stages, force=args.force)
    from opdiff.sample import write_sample
    from opdiff.workflows.compare.options import CompareOptions

    sample = write_sample(args.directory, overwrite=args.force)
    print(printable(said("cli.sample", path=os.path.abspath(args.directory))))
    code = _compare(CompareOptions(sample.target, sample.golden, sample.rules, output=_result(args.directory)))
    print(f"\n{said('cli.injected_faults')}")
    for fault in sample.faults:
        print(f"  {fault.operator}: {in_language(fault.description)}")
    _print_next("compare", sample.target, sample.golden, "--rules", sample.rules)
    print(f"     opdiff inspect {shlex.quote(sample.target)}")
    return code


def _run_torchair(directory: str, *, force: bool) -> int:
    from opdiff.core.comparison import Mode
    from opdiff.sample.graph_mode import FAULTY_OPERATOR, FAULTY_TOKEN, write_graph_sample
    from opdiff.workflows.compare.options import CompareOptions

    _require_empty(directory, force=force)
    sample = write_graph_sample(directory)
    print(printable(said("cli.graph_sample", path=os.path.abspath(directory))))
    code = _compare(CompareOptions(sample.target, sample.golden, output=_result(directory), mode=Mode.GRAPH))
    print(f"\n{said('cli.graph_fault', token=FAULTY_TOKEN, name=FAULTY_OPERATOR)}")
    _print_next("compare", sample.target, sample.fusion_off, "--mode", "torchair")
    return code


def _run_stages(directory: str, fault: str, *, force: bool) -> int:
    from opdiff.cli.cmd_stages import run_stages
    from opdiff.cli.report_options import MessageOptions
    from opdiff.sample.stages import STAGE_FAULTS, write_stage_sample
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.stages.options import StagesOptions

    _require_empty(directory, force=force)
    sample = write_stage_sample(directory, [fault])
    print(printable(said("cli.stage_sample", path=os.path.abspath(directory))) + "\n")
    folders = [sample.original, sample.quantized, sample.fusion_off, sample.fusion_on]
    rules = {
        "--quant-rules": sample.quant_rules,
        "--fusion-off-rules": sample.fusion_off_rules,
        "--rules": sample.fusion_on_rules,
    }
    if fault == "version":
        folders, rules = [sample.original, sample.fusion_on, sample.next_version], {"--rules": sample.fusion_on_rules}
    given = (rules["--rules"], rules.get("--fusion-off-rules", ""), rules.get("--quant-rules", ""))
    options = StagesOptions(tuple(folders), (), *given, compare=CompareOptions(output=_result(directory)))
    code = run_stages(options, MessageOptions())
    injected = STAGE_FAULTS[fault]
    print(f"\n{said('cli.injected_fault', name=injected.operator, fault=injected.description)}")
    _print_next("stages", *folders, *(word for item in rules.items() for word in item))
    return code


def _require_empty(directory: str, *, force: bool) -> None:
    if os.path.isdir(directory) and os.listdir(directory) and not force:
        raise UsageError(because("cli.not_empty", directory=directory))


def _result(directory: str) -> str:
    return os.path.join(directory, "result")


def _compare(options: CompareOptions) -> int:
    """Print the sizes of both sides, compare them, and return the exit code."""
    from opdiff.cli.cmd_compare import compare_and_report
    from opdiff.cli.cmd_inspect import print_size
    from opdiff.cli.report_options import MessageOptions
    from opdiff.workflows.inspect.report import inspect_tree

    for path in (options.target, options.golden):
        print_size(inspect_tree(path))
    print(f"\n== {said('cli.comparison')} ==")
    return compare_and_report(options, MessageOptions())


def _print_next(*words: str) -> None:
    print(f"\n{said('cli.try_next', command=shlex.join(['opdiff', *words]))}")

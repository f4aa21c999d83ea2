"""`opdiff demo`: write sample dumps with known faults, and compare them."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from opdiff.cli.language import in_language, said
from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse

    from opdiff.sample import Sample

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
    from opdiff.core.formatting import printable
    from opdiff.sample import write_sample

    sample = write_sample(args.directory, overwrite=args.force)
    print(printable(said("cli.sample", path=os.path.abspath(args.directory))))
    _print_sizes(sample.target, sample.golden)
    print(f"\n== {said('cli.comparison')} ==")
    code = _compare(sample, os.path.join(args.directory, "result"))
    print(f"\n{said('cli.injected_faults')}")
    for fault in sample.faults:
        print(f"  {fault.operator}: {in_language(fault.description)}")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.golden)} --rules {shlex.quote(sample.rules)}"
    print(f"\n{said('cli.try_next', command=f'opdiff compare {sides}')}")
    print(f"     opdiff inspect {shlex.quote(sample.target)}")
    return code


def _print_sizes(*paths: str) -> None:
    from opdiff.cli.cmd_inspect import print_size
    from opdiff.workflows.inspect.report import inspect_tree

    for path in paths:
        print_size(inspect_tree(path))


def _run_torchair(directory: str, *, force: bool) -> int:
    from opdiff.cli.cmd_compare import compare_and_report
    from opdiff.cli.report_options import MessageOptions
    from opdiff.core.comparison import Mode
    from opdiff.core.formatting import printable
    from opdiff.sample.graph_mode import FAULTY_OPERATOR, FAULTY_TOKEN, write_graph_sample
    from opdiff.workflows.compare.options import CompareOptions

    _require_empty(directory, force=force)
    sample = write_graph_sample(directory)
    print(printable(said("cli.graph_sample", path=os.path.abspath(directory))))
    _print_sizes(sample.target, sample.golden)
    print(f"\n== {said('cli.comparison')} ==")
    result = os.path.join(directory, "result")
    options = CompareOptions(sample.target, sample.golden, output=result, mode=Mode.GRAPH)
    code = compare_and_report(options, MessageOptions())
    print(f"\n{said('cli.graph_fault', token=FAULTY_TOKEN, name=FAULTY_OPERATOR)}")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.fusion_off)}"
    print(f"\n{said('cli.try_next', command=f'opdiff compare {sides} --mode torchair')}")
    return code


def _run_stages(directory: str, fault: str, *, force: bool) -> int:
    from opdiff.cli.cmd_stages import run_stages
    from opdiff.cli.report_options import MessageOptions
    from opdiff.core.formatting import printable
    from opdiff.sample.stages import STAGE_FAULTS, write_stage_sample
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.stages.options import StagesOptions

    _require_empty(directory, force=force)
    sample = write_stage_sample(directory, [fault])
    print(printable(said("cli.stage_sample", path=os.path.abspath(directory))) + "\n")
    folders = [sample.original, sample.quantized, sample.fusion_off, sample.fusion_on]
    rules = {"-qfr": sample.quant_rules, "-cfr": sample.fusion_off_rules, "-fr": sample.fusion_on_rules}
    if fault == "version":
        folders, rules = [sample.original, sample.fusion_on, sample.next_version], {"-fr": sample.fusion_on_rules}
    compare = CompareOptions(output=os.path.join(directory, "result"))
    given = (rules["-fr"], rules.get("-cfr", ""), rules.get("-qfr", ""))
    code = run_stages(StagesOptions(tuple(folders), (), *given, compare=compare), MessageOptions())
    injected = STAGE_FAULTS[fault]
    told = said("cli.injected_fault", name=injected.operator, fault=injected.description)
    print(f"\n{told}")
    words = [*folders, *(word for item in rules.items() for word in item)]
    print(f"\n{said('cli.try_next', command=f'opdiff stages {shlex.join(words)}')}")
    return code


def _require_empty(directory: str, *, force: bool) -> None:
    if os.path.isdir(directory) and os.listdir(directory) and not force:
        raise UsageError(because("cli.not_empty", directory=directory))


def _compare(sample: Sample, output: str) -> int:
    from opdiff.cli.cmd_compare import compare_and_report
    from opdiff.cli.report_options import MessageOptions
    from opdiff.workflows.compare.options import CompareOptions

    options = CompareOptions(sample.target, sample.golden, sample.rules, output=output)
    return compare_and_report(options, MessageOptions())

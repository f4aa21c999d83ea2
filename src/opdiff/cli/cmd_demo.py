"""`opdiff demo`: write sample dumps with known faults, and compare them."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from opdiff.core.errors import UsageError

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
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("directory", nargs="?", metavar="DIR", default="opdiff-demo", help="default: opdiff-demo")
    parser.add_argument("--force", action="store_true", help="write to a directory that has other files")
    parser.add_argument("--torchair", action="store_true", help="write a sample of graph mode: two ranks, two tokens")


def run(args: argparse.Namespace) -> int:
    """Write the sample, compare it, and return the exit code."""
    if args.torchair:
        return _run_torchair(args.directory, force=args.force)
    from opdiff.cli.terminal import printable
    from opdiff.sample import write_sample

    sample = write_sample(args.directory, overwrite=args.force)
    print(f"Sample written to {printable(os.path.abspath(args.directory))}:")
    _print_sizes(sample.target, sample.golden)
    print("\n== comparison ==")
    code = _compare(sample, os.path.join(args.directory, "result"))
    print("\nInjected faults:")
    for fault in sample.faults:
        print(f"  {fault.operator}: {fault.description}")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.golden)} --rules {shlex.quote(sample.rules)}"
    print(f"\nTry: opdiff compare {sides}")
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
    from opdiff.cli.terminal import printable
    from opdiff.core.comparison import Mode
    from opdiff.sample.graph_mode import FAULTY_OPERATOR, FAULTY_TOKEN, write_graph_sample
    from opdiff.workflows.compare.options import CompareOptions

    if os.path.isdir(directory) and os.listdir(directory) and not force:
        raise UsageError(f"{directory} is not empty; choose another directory, or add --force")
    sample = write_graph_sample(directory)
    print(f"Sample of graph mode written to {printable(os.path.abspath(directory))}:")
    _print_sizes(sample.target, sample.golden)
    print("\n== comparison ==")
    result = os.path.join(directory, "result")
    options = CompareOptions(sample.target, sample.golden, output=result, mode=Mode.GRAPH)
    code = compare_and_report(options, MessageOptions())
    print(f"\nInjected fault: from token {FAULTY_TOKEN} on, the outputs of {FAULTY_OPERATOR} are 5 % too large.")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.fusion_off)}"
    print(f"\nTry: opdiff compare {sides} --mode torchair")
    return code


def _compare(sample: Sample, output: str) -> int:
    from opdiff.cli.cmd_compare import compare_and_report
    from opdiff.cli.report_options import MessageOptions
    from opdiff.workflows.compare.options import CompareOptions

    options = CompareOptions(sample.target, sample.golden, sample.rules, output=output)
    return compare_and_report(options, MessageOptions())

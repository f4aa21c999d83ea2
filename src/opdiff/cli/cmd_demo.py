"""`opdiff demo`: make a sample of dumps with known faults and look at it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from opdiff.sample import Sample

DESCRIPTION = """\
Make a sample: a small convolutional network, run once in fp32 (golden) and once as an NPU would (fp16, private layouts,
fused operators), with known faults planted; then inspect both sides and compare them."""
EPILOG = """\
examples:
  opdiff demo
  opdiff demo /tmp/sample --force
  opdiff demo /tmp/graphs --torchair
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("directory", nargs="?", metavar="DIR", default="opdiff-demo", help="default: opdiff-demo")
    parser.add_argument("--force", action="store_true", help="write over an older sample in that directory")
    parser.add_argument("--torchair", action="store_true", help="a sample of graph mode: two ranks, two tokens")


def run(args: argparse.Namespace) -> int:
    """Write the sample, inspect and compare it, and return the exit code."""
    if args.torchair:
        return _run_torchair(args.directory, force=args.force)
    from opdiff.cli.cmd_inspect import print_tree
    from opdiff.cli.terminal import printable
    from opdiff.sample import write_sample
    from opdiff.workflows.inspect.checks import Depth
    from opdiff.workflows.inspect.report import inspect_tree

    sample = write_sample(args.directory, overwrite=args.force)
    print(f"A sample was written to {printable(os.path.abspath(args.directory))}.")
    for title, path in (("the target, as an NPU dumped it", sample.target), ("the golden", sample.golden)):
        print(f"\n== {title} ==")
        print_tree(inspect_tree(path, depth=Depth.VALUES))
    print("\n== the comparison ==")
    code = _compare(sample, os.path.join(args.directory, "result"))
    print("\nThe faults that were planted:")
    for fault in sample.faults:
        print(f"  {fault.operator}: {fault.what}")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.golden)} --rules {shlex.quote(sample.rules)}"
    print(f"\nTry: opdiff compare {sides}")
    return code


def _run_torchair(directory: str, *, force: bool) -> int:
    from opdiff.cli.cmd_inspect import print_tree
    from opdiff.cli.compare_torchair import GraphWishes, compare_and_report
    from opdiff.cli.terminal import printable
    from opdiff.sample.torchair import FAULTY, FAULTY_TOKEN, write_graph_sample
    from opdiff.workflows.compare.graph_pipeline import GraphOptions
    from opdiff.workflows.inspect.report import inspect_tree

    if os.path.isdir(directory) and os.listdir(directory) and not force:
        raise UsageError(f"{directory} is not empty; name another directory, or allow overwriting with --force")
    sample = write_graph_sample(directory)
    print(f"A sample of graph mode was written to {printable(os.path.abspath(directory))}.")
    for title, path in (("the target: GE with fusion on", sample.target), ("the golden: FX", sample.golden)):
        print(f"\n== {title} ==")
        print_tree(inspect_tree(path))
    print("\n== the comparison ==")
    result = os.path.join(directory, "result")
    code = compare_and_report(GraphOptions(sample.target, sample.golden, result), GraphWishes(quiet=True))
    print(f"\nThe fault that was planted: from token {FAULTY_TOKEN} on, the results of {FAULTY} are 5 % too large.")
    sides = f"{shlex.quote(sample.target)} {shlex.quote(sample.fusion_off)}"
    print(f"\nTry: opdiff compare {sides} --mode torchair")
    return code


def _compare(sample: Sample, output: str) -> int:
    from opdiff.cli.cmd_compare import Wishes, compare_and_report
    from opdiff.core.atomic_file import make_folder
    from opdiff.workflows.compare.inputs import CompareOptions

    make_folder(output)
    options = CompareOptions(sample.target, sample.golden, sample.rules, output=output)
    return compare_and_report(options, Wishes(quiet=True))

"""`opdiff demo`: write sample dumps with known faults; without a model file, compare them, too."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.compare.options import CompareOptions

DESCRIPTION = """\
Write sample dumps of a small convolutional network: a golden run in fp32 and a simulated NPU run (fp16, private
layouts, fused operators) with known faults; then compare both. With --onnx, --caffe or --tensorflow, write what a
case begins with instead: the model file, its input, the offline model and its dump."""
EPILOG = """\
examples:
  opdiff demo
  opdiff demo /tmp/sample --force
  opdiff demo net --onnx
  opdiff demo /tmp/graphs --torchair
  opdiff demo /tmp/stages --stages fusion
"""
_DIRECTORY = "opdiff-demo"
_KINDS = ("onnx", "caffe", "tensorflow", "torchair", "stages")
_NAMES_WIDTH = 30
_STAGE_FAULTS = ("quantization", "conversion", "fusion", "version")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", default="",
        help="default: opdiff-demo; with an option that chooses the sample, opdiff-demo-onnx and so on",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write to a directory that has other files")
    parser.add_argument("--onnx", action="store_true", help="write an ONNX model, its offline model and a dump")
    parser.add_argument("--caffe", action="store_true", help="write a Caffe model, its offline model and a dump")
    parser.add_argument(
        "--tensorflow", action="store_true", help="write a frozen TensorFlow graph, its offline model and a dump"
    )
    parser.add_argument("--torchair", action="store_true", help="write a sample of graph mode: two ranks, two tokens")
    parser.add_argument(
        "--stages", choices=_STAGE_FAULTS, nargs="?", const=_STAGE_FAULTS[1],
        help="write a quantized model in all stages, with a fault in this step; default: conversion",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Write the sample, compare it unless it begins with a model file, and return the exit code."""
    chosen = [name for name in _KINDS if getattr(args, name)]
    if len(chosen) > 1:
        raise UsageError(because("cli.one_sample", options=", ".join(f"--{name}" for name in chosen)))
    kind = chosen[0] if chosen else ""
    directory = args.directory or "-".join((_DIRECTORY, *chosen))
    if not kind:
        return _run_network(directory, force=args.force)
    if not args.force and os.path.isdir(directory) and os.listdir(directory):
        raise UsageError(because("cli.not_empty", directory=directory))
    if kind == "stages":
        return _run_stages(directory, args.stages)
    return _run_torchair(directory) if kind == "torchair" else _write_model(directory, kind)


def _run_network(directory: str, *, force: bool) -> int:
    from opdiff.sample import write_sample
    from opdiff.workflows.compare.options import CompareOptions

    sample = write_sample(directory, overwrite=force)
    print(printable(said("cli.sample", path=os.path.abspath(directory))))
    code = _compare(CompareOptions(sample.target, sample.golden, sample.rules, output=_result(directory)))
    print(f"\n{said('cli.injected_faults')}")
    for fault in sample.faults:
        print(f"  {said('cli.labelled', name=fault.operator, value=in_language(fault.description))}")
    print()
    _print_next("compare", sample.target, sample.golden, "--rules", sample.rules)
    _print_next("inspect", sample.target)
    return code


def _write_model(directory: str, framework: str) -> int:
    """Write the sample of a framework, and print its files and the commands that find the fault."""
    from opdiff.sample.models import write_model_sample

    sample = write_model_sample(directory, framework)
    print(printable(said("cli.sample", path=os.path.abspath(directory))))
    parts = {
        "cli.part_model": sample.model,
        "cli.part_input": (sample.image,),
        "cli.part_compiled": (sample.rules, sample.target),
        "cli.part_fixed": (sample.fixed_rules, sample.fixed_target),
    }
    for code, paths in parts.items():
        names = ", ".join(map(os.path.basename, paths))
        print(f"  {names:<{_NAMES_WIDTH}}{said(code)}")
    golden = os.path.join(directory, "golden")
    print()
    _print_next("golden", *sample.model, "--input", sample.image, "--for", sample.rules, "--output", golden)
    _print_next("compare", sample.target, golden, "--rules", sample.rules, "--output", _result(directory))
    return ExitCode.OK


def _run_torchair(directory: str) -> int:
    from opdiff.core.comparison import Mode
    from opdiff.sample.graph_mode import FAULTY_OPERATOR, FAULTY_TOKEN, write_graph_sample
    from opdiff.workflows.compare.options import CompareOptions

    sample = write_graph_sample(directory)
    print(printable(said("cli.graph_sample", path=os.path.abspath(directory))))
    code = _compare(CompareOptions(sample.target, sample.golden, output=_result(directory), mode=Mode.GRAPH))
    print(f"\n{said('cli.graph_fault', token=FAULTY_TOKEN, name=FAULTY_OPERATOR)}\n")
    _print_next("compare", sample.target, sample.fusion_off, "--mode", "torchair")
    return code


def _run_stages(directory: str, fault: str) -> int:
    from opdiff.cli.cmd_stages import run_stages
    from opdiff.cli.report_options import MessageOptions
    from opdiff.sample.stages import STAGE_FAULTS, write_stage_sample
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.stages.options import StagesOptions

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
    print(f"\n{said('cli.injected_fault', name=injected.operator, fault=injected.description)}\n")
    _print_next("stages", *folders, *(word for item in rules.items() for word in item))
    return code


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
    print(printable(said("report.next_command", command=shlex.join(["opdiff", *words]))))

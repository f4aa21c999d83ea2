"""`opdiff convert`: convert dump files to NumPy, raw or PyTorch files."""

from __future__ import annotations

import os
import re
import sys
import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_cache, add_cluster, add_custom, add_jobs, add_json, check_cluster
from opdiff.cli.exit_codes import ExitCode, interrupt_exit_code
from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import Progress, make_output_folder, write_json
from opdiff.core import filesystem
from opdiff.core.errors import InputError, UsageError
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from opdiff.core.tensor import Shape
    from opdiff.workflows.convert.plan import ConvertJob, ConvertOptions, ConvertPlan
    from opdiff.workflows.convert.work import ConvertResult

    Results = dict[ConvertJob, ConvertResult]

DESCRIPTION = """\
Convert dump files to files of other tools: one file, several, or whole directory trees, whose folders the results keep.
Without --format, tensors stay in their stored layout."""
EPILOG = """\
examples:
  opdiff convert Conv2D.conv1.4.3.1672900579018235
  opdiff convert DUMP_DIR -o npy
  opdiff convert DUMP_DIR -o nchw --format NCHW --output-tensor 0
  opdiff convert FILE --format NHWC --shape 1,28,28,64 --output-tensor 0 -o out
  opdiff convert FILE --type bin
  opdiff convert sftp://HOST/DUMP_DIR -o npy
"""
_FORMS = ("npy", "npz", "bin", "msnpy", "pt")
_MAX_FAILURES_SHOWN = 20
_FAILED_LIST_NAME = "convert_failed_file_list.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="dump file or directory")
    parser.add_argument("-d", "--dump-file", metavar="PATH[,PATH]", default="", help="the same, separated by commas")
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="",
        help="output directory; default: current directory. A number is an output tensor, as in the vendor's converter",
    )  # fmt: skip
    parser.add_argument("-out", "--out", "--output-dir", metavar="DIR", default="", help="the same, never a number")
    parser.add_argument("-t", "--type", choices=_FORMS, default="npy", dest="form", help="kind of result; default: npy")
    parser.add_argument(
        "-f",
        "--format",
        default="",
        dest="layout",
        help="layout of the results, such as NCHW, NHWC or ND; default: as stored",
    )
    parser.add_argument("-s", "--shape", type=_shape, default=(), help="shape in that layout, such as 1,64,28,28")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-i", "--input", "--input-tensor", type=_index, metavar="K", help="only input K (from 0)")
    which.add_argument("--output-tensor", type=_index, metavar="K", help="only output K (from 0)")
    add_custom(parser, "conversions")
    add_jobs(parser)
    add_cluster(parser)
    add_cache(parser)
    parser.add_argument("--strict", action="store_true", help="exit with 1 if anything could not be converted")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, report, and return the exit code."""
    from opdiff.workflows.cluster import find_cluster
    from opdiff.workflows.convert.plan import plan_conversion
    from opdiff.workflows.convert.work import convert_all

    check_cluster(args, "jobs", "cache")
    options = _options(args)
    paths = _paths(args)
    filesystem.start_run(paths, args.cache)
    with (
        Progress(said("cli.converting"), quiet=args.quiet > 0) as progress,
        find_cluster(args.cluster, args.cluster_config, progress.show_workers) as cluster,
    ):
        plan = plan_conversion(paths, options)
        if not plan.jobs:
            raise InputError(", ".join(paths), because("cli.no_dumps_to_convert", count=len(plan.skipped)))
        make_output_folder(options.output)
        started = time.monotonic()
        results: Results = {}
        interrupted_with = None
        try:
            for job, result in convert_all(plan.jobs, args.jobs, cluster):
                _print_steps(args, job, result)
                results[job] = result
                progress.reach(len(results), len(plan.jobs))
        except KeyboardInterrupt as interrupt:
            interrupted_with = interrupt_exit_code(interrupt)
    results = {job: results[job] for job in plan.jobs if job in results}
    failed_list = _write_lists(options.output, plan, results)
    if args.json != "-":
        _print_summary(plan, results, options.output, time.monotonic() - started)
        _print_failures(results, failed_list)
    if args.json:
        write_json(args.json, _values(plan, results))
    for result in results.values():
        if result.defect:
            print(result.defect, file=sys.stderr)
    if interrupted_with is not None:
        print(f"opdiff: {said('cli.convert_interrupted')}", file=sys.stderr)
        return interrupted_with
    return _exit_code(results.values(), strict=args.strict)


def _paths(args: argparse.Namespace) -> list[str]:
    listed = [args.dump_file] if filesystem.exists(args.dump_file) else args.dump_file.split(",")
    paths = [*args.paths, *(path for path in listed if path)]
    if not paths:
        raise UsageError(because("cli.convert_what"))
    if not args.cluster:
        return paths
    from opdiff.workflows.cluster import path_for_workers

    return [path_for_workers(path) for path in paths]


def _options(args: argparse.Namespace) -> ConvertOptions:
    from importlib.util import find_spec

    from opdiff.core.tensor import Slot
    from opdiff.workflows.convert.plan import ConvertOptions, find_conversions
    from opdiff.workflows.convert.result_names import Form

    if args.shape and not args.layout:
        raise UsageError(because("cli.shape_needs_format"))
    if args.custom and not args.layout:
        raise UsageError(because("cli.custom_needs_format"))
    if args.form == "pt" and find_spec("torch") is None:
        raise UsageError(because("cli.pt_needs_pytorch"))
    custom = find_conversions(args.layout, args.custom) if args.layout else None
    folder, output = _output(args)
    slot = Slot.INPUT if args.input is not None else Slot.OUTPUT if output is not None else None
    index = args.input if args.input is not None else output
    folder = os.path.abspath(folder) if args.cluster else folder
    return ConvertOptions(folder, Form(args.form), args.layout, args.shape, slot, index, custom)


def _output(args: argparse.Namespace) -> tuple[str, int | None]:
    """Return the output directory and the only output tensor; `-o` is one or the other."""
    if not re.fullmatch(r"-?\d+", args.output):
        if args.output and args.out:
            raise UsageError(because("cli.two_outputs", output=args.output, out=args.out))
        return args.output or args.out or ".", args.output_tensor
    if args.input is not None or args.output_tensor is not None:
        raise UsageError(because("cli.one_tensor_only", output=args.output))
    if args.output.startswith("-"):
        raise UsageError(because("cli.output_is_neither", output=args.output))
    if not args.quiet:
        print(f"opdiff: {said('cli.output_selected', output=args.output)}", file=sys.stderr)
    return args.out or ".", int(args.output)


def _print_steps(args: argparse.Namespace, job: ConvertJob, result: ConvertResult) -> None:
    for tensor, step in result.steps if args.verbose > args.quiet else ():
        print(f"opdiff: {printable(job.path)}: {tensor}: {printable(in_language(step))}", file=sys.stderr)


def _write_lists(output: str, plan: ConvertPlan, results: Results) -> str:
    """Write the mapping of shortened names, and the list of failed files; return the path of that list, if written."""
    from opdiff.workflows.convert.result_names import write_failed_list, write_mapping

    names: dict[str, list[tuple[str, str]]] = {}
    for job, result in results.items():
        if result.renamed:
            names.setdefault(job.folder, []).extend(result.renamed)
    failures = [(failure.path, failure.tensor) for result in results.values() for failure in result.failures]
    path = os.path.join(output, _FAILED_LIST_NAME)
    try:
        for folder, renamed in names.items():
            write_mapping(folder, renamed)
        if len(plan.jobs) > 1:
            write_failed_list(path, failures)
    except OSError as error:
        print(f"opdiff: {said('cli.list_not_written', error=error.strerror)}", file=sys.stderr)
        return ""
    return path if failures and len(plan.jobs) > 1 else ""


def _print_summary(plan: ConvertPlan, results: Results, folder: str, seconds: float) -> None:
    outcomes = results.values()
    written = sum(len(result.written) for result in outcomes)
    good = sum(1 for result in outcomes if result.written)
    nbytes = sum(job.nbytes for job in results)
    amounts: dict[str, int | str] = {"files": len(plan.jobs), "results": written, "size": size(nbytes)}
    print(printable(said("cli.converted", good=good, **amounts, seconds=seconds, folder=os.path.join(folder, ""))))
    empty = [job for job, result in results.items() if not result.written and not result.failures]
    if empty:
        print(printable(said("cli.nothing_in_files", count=len(empty), path=empty[0].path)))
    if plan.skipped:
        path, reason = plan.skipped[0]
        print(printable(said("cli.files_skipped", count=len(plan.skipped), path=path, reason=reason)))


def _print_failures(results: Results, failed_list: str) -> None:
    failures = [failure for result in results.values() for failure in result.failures]
    for failure in failures[:_MAX_FAILURES_SHOWN]:
        which = f" {failure.tensor}" if failure.tensor else ""
        told = said("cli.convert_failed", path=failure.path, tensor=which, reason=failure.reason)
        print(printable(told), file=sys.stderr)
    if len(failures) > _MAX_FAILURES_SHOWN:
        print(said("cli.more_failures", count=len(failures) - _MAX_FAILURES_SHOWN), file=sys.stderr)
    if failed_list:
        print(printable(said("cli.failed_list", path=failed_list)), file=sys.stderr)


def _values(plan: ConvertPlan, results: Results) -> dict[str, object]:
    files = [
        {
            "path": job.path,
            "written": result.written,
            "failures": [{"tensor": failure.tensor, "reason": failure.reason} for failure in result.failures],
            "steps": [{"tensor": tensor, "step": step} for tensor, step in result.steps],
        }
        for job, result in results.items()
    ]
    skipped = [{"path": path, "reason": reason} for path, reason in plan.skipped]
    return {"files": files, "skipped": skipped}


def _exit_code(outcomes: Collection[ConvertResult], *, strict: bool) -> int:
    if any(result.defect for result in outcomes):
        return ExitCode.DEFECT
    if all(result.failures and not result.written for result in outcomes):
        return ExitCode.UNUSABLE_INPUT
    return ExitCode.GATE if strict and any(result.failures for result in outcomes) else ExitCode.OK


def _shape(text: str) -> Shape:
    try:
        shape = tuple(int(dim) for dim in text.replace("x", ",").split(","))
    except ValueError:
        shape = ()
    if not shape or any(dim < 0 for dim in shape):
        raise ArgumentTypeError(said("cli.not_shape", text=text))
    return shape


def _index(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(said("cli.not_index", text=text))
    return int(text)

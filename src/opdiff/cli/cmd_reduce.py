"""`opdiff reduce`: replace dump files by tensor statistics to save disk space while a model is dumping."""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.cli.arguments import add_cluster, add_json, check_cluster, integer
from opdiff.cli.exit_codes import ExitCode, interrupt_exit_code
from opdiff.cli.language import in_language, said
from opdiff.cli.terminal import Progress, write_json
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable, size
from opdiff.core.metrics import INFORMATION
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from opdiff.core.reasons import Reason
    from opdiff.workflows.reduce.taken import Recovered
    from opdiff.workflows.reduce.watch import ReduceOptions, ReduceTotals, Stop

DESCRIPTION = """\
Replace the files of a graph mode dump (GE or FX) by statistics of their tensors: minimum, maximum, mean, L2 norm, NaN
and infinities, CRC-32. A file is removed only when its reduced form is on disk and verified; files that are still being
written are kept, as are offline dumps. Reduced dumps can be compared with reduced and with complete ones."""
EPILOG = """\
examples:
  opdiff reduce msprobe_ge_dump                    once
  opdiff reduce msprobe_ge_dump --watch            during the run that dumps, until Ctrl-C
  opdiff reduce msprobe_fx_dump --keep             keep the data, too
  opdiff reduce data_dump --info crc32,histogram
  opdiff reduce msprobe_ge_dump --recover          put back the files of a killed run
  opdiff compat-path --install                     if convert.py of the documents cannot import components
"""
_DEFAULT_INFORMATION = "mean,l2norm,specials,crc32"
_WATCH_LOAD, _FULL_LOAD = 50, 100
_MAX_PROBLEMS_SHOWN = 5
_MAX_SECONDS = 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="dump directory")
    parser.add_argument("--watch", action="store_true", help="continue until Ctrl-C or SIGTERM")
    parser.add_argument("--keep", action="store_true", help="keep the originals")
    parser.add_argument(
        "--info", type=_information, metavar="LIST", default=_DEFAULT_INFORMATION,
        help=f"statistics besides minimum and maximum: {','.join(INFORMATION)}; default: all but histogram",
    )  # fmt: skip
    parser.add_argument(
        "--settle", type=_seconds, metavar="SECONDS", default=2.0,
        help="reduce files that were not written to for this time; default: 2",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=_seconds, metavar="SECONDS", default=1.0, help="with --watch: time between scans; default: 1"
    )
    parser.add_argument(
        "--load", type=integer(1, 100, "percentage"), metavar="PERCENT",
        help=f"maximum share of time spent working; default: {_WATCH_LOAD} with --watch, else {_FULL_LOAD}",
    )  # fmt: skip
    parser.add_argument(
        "--recover", action="store_true",
        help="only put back the files that a killed run had taken; every run does this first",
    )  # fmt: skip
    add_json(parser, "the totals")
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Reduce, print the totals, and return the exit code."""
    from opdiff.workflows.reduce.watch import Stop

    if args.cluster and args.watch:
        raise UsageError(because("cli.watch_without_cluster"))
    if args.recover and (args.watch or args.keep):
        raise UsageError(because("cli.recover_alone"))
    check_cluster(args, "load")
    options = _options(args)
    if args.recover:
        return _recover(args, options)
    stop = Stop()
    if args.cluster:
        # The work is interrupted, which cancels what was submitted.
        return _reduce(args, options, stop)
    received = signal.SIGINT

    def end_after_current_file(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received = signal.Signals(number)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, end_after_current_file) for number in numbers}
    try:
        code = _reduce(args, options, stop)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 128 + received if stop.is_set() and not options.watch else code


def _options(args: argparse.Namespace) -> ReduceOptions:
    from opdiff.workflows.reduce.watch import ReduceOptions

    load = (args.load or (_WATCH_LOAD if args.watch else _FULL_LOAD)) / 100
    options = ReduceOptions(args.path, args.info, args.keep, args.watch, args.settle, args.interval, load)
    # Workers have other current folders.
    return replace(options, root=os.path.abspath(args.path)) if args.cluster else options


def _reduce(args: argparse.Namespace, options: ReduceOptions, stop: Stop) -> int:
    from opdiff.workflows.cluster import find_cluster
    from opdiff.workflows.reduce.watch import ReduceTotals, reduce_tree

    quiet = args.quiet > 0
    totals = ReduceTotals()
    with (
        Progress(said("cli.reducing"), quiet=quiet, in_bytes=True) as progress,
        find_cluster(args.cluster, args.cluster_config, progress.show_workers) as cluster,
    ):
        reported = 0
        code = ExitCode.OK
        try:
            for totals in reduce_tree(options, stop, progress.reach, cluster):
                if options.watch and not quiet and totals.files > reported:
                    reported = totals.files
                    progress.say(_total_line(totals, keep=options.keep), sys.stderr if args.json == "-" else None)
                    sys.stdout.flush()
        except KeyboardInterrupt as interrupt:
            code = interrupt_exit_code(interrupt)
    for line in _lines(totals, keep=options.keep) if args.json != "-" else ():
        print(printable(line))
    if args.json:
        write_json(args.json, totals)
    return code


def _recover(args: argparse.Namespace, options: ReduceOptions) -> int:
    from opdiff.workflows.reduce.taken import recover

    recovered = recover(options.root)
    for line in _recovered_lines(recovered) if args.json != "-" else ():
        print(printable(line))
    if args.json:
        write_json(args.json, recovered)
    return ExitCode.UNUSABLE_INPUT if recovered.problems else ExitCode.OK


def _total_line(totals: ReduceTotals, *, keep: bool) -> str:
    nbytes = max(totals.before - totals.after, 0)
    saved = because("cli.nothing_removed") if keep else because("cli.size_saved", size=size(nbytes))
    sizes = {"before": size(totals.before), "after": size(totals.after)}
    return said("cli.reduced", count=totals.files, **sizes, saved=saved)


def _lines(totals: ReduceTotals, *, keep: bool) -> Iterator[str]:
    if totals.recovered.is_any:
        yield from _recovered_lines(totals.recovered)
    yield _total_line(totals, keep=keep)
    if totals.unfinished:
        yield said("cli.unfinished", count=totals.unfinished)
    if totals.offline:
        yield said("cli.offline_kept", count=len(totals.offline), path=totals.offline[0])
    if totals.problems:
        yield said("cli.not_reduced", count=len(totals.problems))
        yield from _problem_lines(totals.problems)


def _recovered_lines(recovered: Recovered) -> Iterator[str]:
    yield said("cli.put_back", count=recovered.files)
    if recovered.superseded:
        yield said("cli.superseded", count=recovered.superseded)
    if recovered.problems:
        yield said("cli.not_put_back", count=len(recovered.problems))
        yield from _problem_lines(recovered.problems)


def _problem_lines(problems: dict[str, Reason]) -> Iterator[str]:
    for path, problem in list(problems.items())[:_MAX_PROBLEMS_SHOWN]:
        yield f"  {path}: {in_language(problem)}"
    if len(problems) > _MAX_PROBLEMS_SHOWN:
        yield f" {said('core.and_more', count=len(problems) - _MAX_PROBLEMS_SHOWN)}"


def _information(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in INFORMATION]
    if unknown:
        raise ArgumentTypeError(said("cli.not_one_of", text=unknown[0], choices=tuple(INFORMATION)))
    return names


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MAX_SECONDS:
        raise ArgumentTypeError(said("cli.not_seconds", text=text, limit=_MAX_SECONDS))
    return value

"""`opdiff reduce`: figures instead of data, to save space while a model is dumping."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentTypeError
from threading import Event
from typing import TYPE_CHECKING

from opdiff.cli.arguments import integer
from opdiff.cli.exit_codes import ExitCode
from opdiff.core.graphmode import INFORMATION

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from opdiff.workflows.reduce.watch import ReduceOptions, Saved

DESCRIPTION = """\
Turn the files of a dump in graph mode (GE or FX) into figures of their tensors: smallest, largest, mean, L2 norm, NaN
and infinities, CRC-32. A file is removed only when its reduced form is on disk and was read back; a file that is still
being written is left alone. Reduced dumps can be compared with reduced and with whole ones."""
EPILOG = """\
examples:
  opdiff reduce msprobe_ge_dump                    once
  opdiff reduce msprobe_ge_dump --watch            beside the run that dumps, until Ctrl-C
  opdiff reduce msprobe_fx_dump --keep             keep the data, too
  opdiff reduce data_dump --info crc32,histogram
"""
_DEFAULT = "mean,l2norm,specials,crc32"
_MAX_LISTED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="directory of a dump")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C or SIGTERM")
    parser.add_argument("--keep", action="store_true", help="keep the originals")
    parser.add_argument(
        "--info", type=_information, metavar="LIST", default=_DEFAULT,
        help=f"what is kept beside smallest and largest: {','.join(INFORMATION)}; default: all but histogram",
    )  # fmt: skip
    parser.add_argument(
        "--settle", type=_seconds, metavar="SECONDS", default=2.0,
        help="for so long nothing must have been written to a file; default: 2",
    )  # fmt: skip
    parser.add_argument(
        "--interval",
        type=_seconds,
        metavar="SECONDS",
        default=1.0,
        help="with --watch: look every so often; default: 1",
    )
    parser.add_argument(
        "--load", type=integer(1, 100, "percentage"), metavar="PERCENT",
        help="share of the time to work, the rest is rest; default: 50 with --watch, else 100",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Reduce, tell how much was saved, and return the exit code."""
    from opdiff.workflows.reduce.watch import ReduceOptions

    load = (args.load or (50 if args.watch else 100)) / 100
    options = ReduceOptions(args.path, args.info, args.keep, args.watch, args.settle, args.interval, load)
    stop = Event()
    before = {number: signal.signal(number, _stopper(stop)) for number in (signal.SIGINT, signal.SIGTERM)}
    # A process that opens a file for writing while we look at it makes the system send this.
    before[signal.SIGIO] = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        return _reduce(options, stop, quiet=args.quiet > 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stopper(stop: Event) -> signal.Handlers:
    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return handle  # type: ignore[return-value]  # a handler is a function or one of two constants


def _reduce(options: ReduceOptions, stop: Event, *, quiet: bool) -> int:
    from opdiff.cli.terminal import Progress, printable
    from opdiff.workflows.reduce.watch import Saved, reduce_tree

    saved = Saved()
    with Progress("reducing", quiet=quiet, in_bytes=True) as progress:
        said = 0
        for saved in reduce_tree(options, stop, progress.reach):
            if options.watch and not quiet and saved.files > said:
                said = saved.files
                progress.say(_total(saved, keep=options.keep))
                sys.stdout.flush()
    for line in _lines(saved, keep=options.keep):
        print(printable(line))
    is_cut_short = stop.is_set() and not options.watch
    return ExitCode.INTERRUPTED if is_cut_short else ExitCode.OK


def _total(saved: Saved, *, keep: bool) -> str:
    from opdiff.cli.terminal import counted, size

    sizes = f"{size(saved.before)} to {size(saved.after)}"
    freed = "nothing removed" if keep else f"{size(max(saved.before - saved.after, 0))} saved"
    return f"reduced: {counted(saved.files, 'file')}, {sizes}, {freed}"


def _lines(saved: Saved, *, keep: bool) -> Iterator[str]:
    from opdiff.cli.terminal import counted

    yield _total(saved, keep=keep)
    if saved.unfinished:
        yield f"still being written, left alone: {counted(saved.unfinished, 'file')}"
    if saved.problems:
        yield f"cannot be reduced, left alone: {counted(len(saved.problems), 'file')}"
        for path, problem in list(saved.problems.items())[:_MAX_LISTED]:
            yield f"  {path}: {problem}"
        if len(saved.problems) > _MAX_LISTED:
            yield f"  and {len(saved.problems) - _MAX_LISTED} more"


def _information(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in INFORMATION]
    if unknown:
        raise ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(INFORMATION)}")
    return names


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value

"""Commands in forked processes: limited in memory and processor time, watched for hanging, disturbed while they run."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, NamedTuple

import opdiff
from opdiff.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MAX_CPU_S = 30
# Other programs may take the processors for a while; only a command that hangs takes as long as this.
_MAX_WALL_S = 600.0
MAX_RESIDENT_NBYTES = 1 << 30
_MAX_ADDRESS_SPACE = 6 << 30
_POLL_S = 0.002


class Disturbance(NamedTuple):
    """An action on the input files, or a signal to the command, some time after its start."""

    after_s: float
    action: Callable[[], object] | signal.Signals


class Outcome(NamedTuple):
    """Exit code (negative for a signal), both streams, processor time and memory of a command, and whether it hung."""

    code: int
    out: str
    err: str
    cpu_s: float
    resident_nbytes: int
    hung: bool


def import_commands() -> None:
    """Import the modules of all commands once, so that forked processes need not."""
    import_module("rich.table")
    for found in walk_packages([os.path.dirname(opdiff.__file__)], "opdiff."):
        if not found.name.startswith("opdiff.compat") and not found.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(found.name)


def run_forked(
    arguments: Sequence[str],
    folder: Path,
    disturbance: Disturbance | None = None,
    prepare: Callable[[], object] | None = None,
) -> Outcome:
    """Run a command of opdiff in a process of its own, whose streams go to files of `folder`.

    `prepare` is called in that process, right before the command.
    """
    start = time.monotonic()
    process = os.fork()
    if not process:
        _run_child(arguments, folder, prepare)
    status, usage = _wait(process, start, disturbance)
    hung = time.monotonic() - start > _MAX_WALL_S
    out, err = ((folder / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
    code = os.waitstatus_to_exitcode(status)
    return Outcome(code, out, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, hung)


def _run_child(arguments: Sequence[str], folder: Path, prepare: Callable[[], object] | None) -> None:
    """Run the command and end the process; never returns."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESS_SPACE, _MAX_ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, number in (("out.txt", 1), ("err.txt", 2)):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        sys.argv = ["opdiff", *arguments]
        if prepare is not None:
            prepare()
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 98
    except BaseException:  # noqa: BLE001  whatever escapes from the command is a finding
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(process: int, start: float, disturbance: Disturbance | None) -> tuple[int, resource.struct_rusage]:
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            return status, usage
        passed = time.monotonic() - start
        if disturbance is not None and passed >= disturbance.after_s:
            _disturb(process, disturbance.action)
            disturbance = None
        if passed > _MAX_WALL_S:
            os.kill(process, signal.SIGKILL)
            _, status, usage = os.wait4(process, 0)
            return status, usage
        time.sleep(_POLL_S)


def _disturb(process: int, action: Callable[[], object] | signal.Signals) -> None:
    if isinstance(action, signal.Signals):
        os.kill(process, action)
    else:
        action()

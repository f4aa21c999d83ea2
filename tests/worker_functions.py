"""Functions for jobs in worker processes, which import this module."""

from __future__ import annotations

import os
import signal
import time

DEADLY = frozenset({7, 500, 501})


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def double_or_die(number: int) -> int:
    """Return twice the number, or kill the process."""
    if number in DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def always_die(number: int) -> int:
    """Kill the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def double_slowly(number: int) -> int:
    """Return twice the number after a pause."""
    time.sleep(0.02)
    return 2 * number


def append_line(path: str) -> str:
    """Append a line to a file, then pause."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("done\n")
    time.sleep(0.02)
    return path


def process_id(_number: int) -> int:
    """Return the id of the worker process."""
    time.sleep(0.01)
    return os.getpid()


def fail(number: int) -> int:
    """Raise an exception."""
    raise ValueError(f"cannot double {number}")

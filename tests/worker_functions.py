"""What workers do in tests of several processes; in a module of its own, so that workers can import it."""

from __future__ import annotations

import os
import signal
import time

DEADLY = frozenset({7, 500, 501})


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def double_or_die(number: int) -> int:
    """Twice the number, or the end of the process."""
    if number in DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def always_die(number: int) -> int:
    """The end of the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def double_slowly(number: int) -> int:
    """Twice the number, after a while."""
    time.sleep(0.02)
    return 2 * number


def note(path: str) -> str:
    """A line in a file, and the time to write it."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("done\n")
    time.sleep(0.02)
    return path


def process_id(_number: int) -> int:
    """Who does the work."""
    time.sleep(0.01)
    return os.getpid()


def fail(number: int) -> int:
    """An error that nobody caught."""
    raise ValueError(f"{number} is not to my taste")

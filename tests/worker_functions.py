"""Functions for jobs in worker processes, which import this module."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import parent_process

from msgspec import Struct

from opdiff.run.processes import until_stopped

DEADLY = frozenset({7, 500, 501})


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def double_or_die(number: int) -> int:
    """Return twice the number, or kill the process."""
    if number in DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def double_or_die_in_worker(number: int) -> int:
    """Return twice the number, or kill the process if it is a worker."""
    return double_or_die(number) if parent_process() is not None else 2 * number


def double_or_fail(number: int) -> int:
    """Return twice the number, or raise an exception."""
    if number in DEADLY:
        raise ValueError(f"cannot double {number}")
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


def append_lines_until_stopped(job: tuple[str, int]) -> int:
    """Append as many lines to a file, unless nobody waits for the result; return the number."""
    path, count = job
    for _ in until_stopped(range(count)):
        append_line(path)
    return count


def process_id(_number: int) -> int:
    """Return the id of the worker process."""
    time.sleep(0.01)
    return os.getpid()


class Multiply(Struct, frozen=True):
    """A function with much data: it multiplies a number by the size of the data, after a pause."""

    data: bytes

    def __call__(self, number: int) -> int:
        """Return the product."""
        time.sleep(0.02)
        return len(self.data) * number


def worker_name(_job: object) -> str:
    """Return the name of the worker."""
    from distributed import get_worker

    return str(get_worker().name)


def read_on_host(path: str) -> str:
    """Return the name of the worker for a path that begins with it, else an empty string."""
    return worker_name(path) if path.split(maxsplit=1)[0] == worker_name(path) else ""

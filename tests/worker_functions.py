"""Functions for jobs in worker processes, which import this module."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import parent_process
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.run.processes import until_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLY = frozenset({7, 500, 501})
# Longer than tests wait for a task.
_HANG_SECONDS = 4


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


def refuse_seven(number: int) -> int:
    """Return twice the number; 7 is an error."""
    if number == 7:
        raise InputError("seven", "is refused")
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


def double_each(numbers: Sequence[int]) -> list[int]:
    """Return twice each number of a batch."""
    return [2 * number for number in numbers]


def double_each_slowly(numbers: Sequence[int]) -> list[int]:
    """Return twice each number after a pause for each."""
    return [double_slowly(number) for number in numbers]


class MultiplyEach(Struct, frozen=True):
    """A function with much data: it multiplies each number of a batch by the size of the data, after a pause."""

    data: bytes

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        """Return the products."""
        time.sleep(0.02 * len(numbers))
        return [len(self.data) * number for number in numbers]


def double_each_or_die(numbers: Sequence[int]) -> list[int]:
    """Return twice each number, or kill the process."""
    return [double_or_die(number) for number in numbers]


def double_each_or_fail(numbers: Sequence[int]) -> list[int]:
    """Return twice each number, or raise an exception."""
    return [fail(number) if number in DEADLY else 2 * number for number in numbers]


def process_ids(numbers: Sequence[int]) -> list[int]:
    """Return the id of the worker process for each number."""
    return [process_id(number) for number in numbers]


def double_or_fail(number: int) -> int:
    """Return twice the number, or raise an exception."""
    return fail(number) if number in DEADLY else 2 * number


def hang_once(jobs: Sequence[tuple[int, str]]) -> list[int]:
    """Return twice each number; pause for long if a job names a file that does not exist yet."""
    for _, path in jobs:
        if path and not os.path.exists(path):
            with open(path, "wb"):
                time.sleep(_HANG_SECONDS)
    return [2 * number for number, _ in jobs]


def hang_first(job: tuple[int, str]) -> int:
    """Return twice the number; the first call with a file pauses for long, and returns something else."""
    number, path = job
    if path and not os.path.exists(path):
        with open(path, "wb"):
            time.sleep(_HANG_SECONDS)
        return -1
    return 2 * number


def hang_on_seven(numbers: Sequence[int]) -> list[int]:
    """Return twice each number, after a long pause if there is a 7."""
    time.sleep(_HANG_SECONDS if 7 in numbers else 0)
    return double_each(numbers)


def worker_name(_job: object) -> str:
    """Return the name of the worker."""
    from distributed import get_worker

    return str(get_worker().name)


def worker_names(jobs: Sequence[object]) -> list[str]:
    """Return the name of the worker for each job."""
    return [worker_name(job) for job in jobs]


def worker_names_after(jobs: Sequence[str]) -> list[str]:
    """Return each job with the name of the worker."""
    return [f"{job} {worker_name(job)}" for job in jobs]


def read_on_host(paths: Sequence[str]) -> list[str]:
    """Return the name of the worker for each path that begins with it, else an empty string."""
    return [worker_name(path) if path.split()[0] == worker_name(path) else "" for path in paths]


def append_lines_until_stopped(job: tuple[str, int]) -> int:
    """Append as many lines to a file, unless nobody waits for the result; return the number."""
    path, count = job
    for _ in until_stopped(range(count)):
        append_line(path)
    return count

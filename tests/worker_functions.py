"""Functions for jobs in worker processes, which import this module."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def double_each(numbers: Sequence[int]) -> list[int]:
    """Return twice each number of a batch."""
    return [2 * number for number in numbers]


def double_each_slowly(numbers: Sequence[int]) -> list[int]:
    """Return twice each number after a pause for each."""
    return [double_slowly(number) for number in numbers]


def double_each_or_die(numbers: Sequence[int]) -> list[int]:
    """Return twice each number, or kill the process."""
    return [double_or_die(number) for number in numbers]


def double_each_or_fail(numbers: Sequence[int]) -> list[int]:
    """Return twice each number, or raise an exception."""
    return [fail(number) if number in DEADLY else 2 * number for number in numbers]


def process_ids(numbers: Sequence[int]) -> list[int]:
    """Return the id of the worker process for each number."""
    return [process_id(number) for number in numbers]

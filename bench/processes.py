"""Cost of processes: wall-clock time, CPU time and memory, children included; commands that run in turns."""

from __future__ import annotations

import glob
import os
import signal
import statistics
import subprocess
import time
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Removed from the environment: both tools start from compiled modules.
_UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "OPDIFF_KERNEL")


class Memory(NamedTuple):
    """Peak memory in bytes.

    Attributes:
        resident: everything in memory, files and libraries that others use as well included.
        private: what no other process has mapped, pages of the compared files among it.
        own: what is not a file's.
    """

    resident: int
    private: int
    own: int


class Cost(NamedTuple):
    """Cost of one process and its children."""

    wall_s: float
    cpu_s: float
    code: int
    memory: Memory | None = None


def run(command: Sequence[str], log: str, *, settings: dict[str, str], watched: bool) -> Cost:
    """Run a command. If `watched`, its memory is sampled, which slows it down."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNWANTED} | settings
    stop, peak = Event(), [0, 0, 0]
    with open(log, "wb") as output:
        started = time.perf_counter()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
            cwd=os.path.dirname(log), start_new_session=True,
        )  # fmt: skip
        watcher = Thread(target=_watch, args=(child.pid, stop, peak))
        try:
            if watched:
                watcher.start()
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            # Children, too: they would keep writing to a folder that is being removed.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            stop.set()
    wall_s = time.perf_counter() - started
    if watched:
        watcher.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    memory = Memory(*peak) if watched else None
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, child.returncode, memory)


class TypicalCost(NamedTuple):
    """Median times of a command, and the memory of its own that it had in a run that was not timed."""

    wall_s: float
    cpu_s: float
    own_nbytes: int


def run_in_turns(
    commands: Sequence[Sequence[str]], log: str, rounds: int, before: Callable[[], object] = lambda: None
) -> list[TypicalCost]:
    """Run commands in turns, each after `before`, and return their costs; the first round is watched and not timed."""
    costs: list[list[Cost]] = [[] for _ in commands]
    for turn in range(rounds + 1):
        for command, taken in zip(commands, costs, strict=True):
            before()
            taken.append(run(command, log, settings={}, watched=not turn))
            if taken[-1].code:
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise SystemExit(f"{command[2]} failed:\n{file.read()}")
    return [_typical(*taken) for taken in costs]


def _typical(watched: Cost, *timed: Cost) -> TypicalCost:
    walls, cpus = [cost.wall_s for cost in timed], [cost.cpu_s for cost in timed]
    return TypicalCost(statistics.median(walls), statistics.median(cpus), watched.memory.own if watched.memory else 0)


def _watch(pid: int, stop: Event, peak: list[int]) -> None:
    """Sample the memory of a process and its children until `stop` is set."""
    while True:
        started = time.perf_counter()
        found = [_memory(one) for one in family(pid)]
        for index in range(3):
            peak[index] = max(peak[index], sum(memory[index] for memory in found))
        # Sampling is slow if much is mapped; leave most of the time to the process.
        if stop.wait(max(0.003, 4 * (time.perf_counter() - started))):
            return


def _memory(pid: int) -> Memory:
    sizes = {"Rss": 0, "Private_Clean": 0, "Private_Dirty": 0, "Anonymous": 0}
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) * 1024
    return Memory(sizes["Rss"], sizes["Private_Clean"] + sizes["Private_Dirty"], sizes["Anonymous"])


def family(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    found = [pid]
    for parent in found:
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            with suppress(OSError), open(path, encoding="ascii") as file:
                found.extend(map(int, file.read().split()))
    return found

"""Interleaved runs of one preset, their measurements, and their progress on standard error."""

from __future__ import annotations

import csv
import glob
import os
import shlex
import shutil
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench import reading
from bench.processes import Cost, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.processes import Memory

VENDOR = "OPDIFF_PEER"
"""Environment variable with the command of the vendor's tool."""

OTHER = "OPDIFF_OTHER"
"""Environment variable with the path of another `opdiff` executable, as of an older checkout."""

CORES = os.cpu_count() or 1
COMPARE = ("compare", "-q", "-tp", "{target}", "-gp", "{golden}", "-fr", "{rules}", "-o", "{output}")
OPDIFF = (sys.executable, "-m", "opdiff", *COMPARE)
# All metrics but the divergence, which is number 4.
WITHOUT_KL = ("-alg", "0,1,2,3,5,6,7,8,9")
_NUMPY = {"OPDIFF_KERNEL": "numpy"}
# Total time limit for the repetitions of one run.
_MAX_TOTAL_S = 60.0


class Case(NamedTuple):
    """A preset on disk."""

    name: str
    folder: str
    operators: int

    def path(self, name: str) -> str:
        """Return the path of a file or folder of the case."""
        return os.path.join(self.folder, name)

    def files(self) -> reading.Files:
        """Return the files of both sides."""
        return reading.Files.of(self.path("target"), self.path("golden"))


class Run(NamedTuple):
    """A command with placeholders for the paths of a case, or a read of its files by `threads`."""

    name: str
    command: Sequence[str] = ()
    settings: dict[str, str] = {}  # noqa: RUF012  never changed
    threads: int = 0
    cold: bool = False
    has_table: bool = True


class Timings(NamedTuple):
    """Measurements of each round; memory is that of the untimed first round."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    memory: Memory | None = None

    @property
    def seconds(self) -> float:
        """Median wall-clock time."""
        return median(self.wall_s)

    def after(self, cost: Cost) -> Timings:
        """Return the timings with one more round."""
        return self._replace(wall_s=(*self.wall_s, cost.wall_s), cpu_s=(*self.cpu_s, cost.cpu_s))


class Progress:
    """Progress on standard error: one changing line on a terminal, otherwise one line per step."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._changes = sys.stderr.isatty()

    def step(self, text: str) -> None:
        """Show the current step."""
        line = f"{time.monotonic() - self._started:5.0f} s  {text}"
        print(
            f"\r\x1b[K{line}" if self._changes else line, end="" if self._changes else "\n", file=sys.stderr, flush=True
        )

    def note(self, text: str) -> None:
        """Show a permanent line."""
        self.step(text)
        self.clear()

    def clear(self) -> None:
        """End the changing line."""
        if self._changes:
            print(file=sys.stderr)


def runs_of(preset: str) -> list[Run]:
    """Return the runs of a preset."""
    jobs = dict.fromkeys((1, CORES))
    runs = [Run(f"opdiff -j {n}", (*OPDIFF, "-j", str(n))) for n in jobs]
    runs += [Run(f"opdiff -j {n}, no KL", (*OPDIFF, "-j", str(n), *WITHOUT_KL)) for n in jobs]
    runs += [Run(f"numpy -j {n}", (*OPDIFF, "-j", str(n)), _NUMPY) for n in jobs]
    runs += [Run(f"read x{n}", threads=n) for n in dict.fromkeys((1, 2))]
    runs += [Run(f"opdiff -j {CORES}, cold", (*OPDIFF, "-j", str(CORES)), cold=True)]
    runs += [Run("read x2, cold", threads=2, cold=True)]
    if preset == "tiny":
        runs.append(Run("empty python", (sys.executable, "-c", "pass"), has_table=False))
    if other := os.environ.get(OTHER):
        # Next to the run that it is compared with.
        runs[len(jobs) : len(jobs)] = [Run(f"other -j {n}", (other, *COMPARE, "-j", str(n))) for n in jobs]
    vendor = tuple(shlex.split(os.environ.get(VENDOR, "")))
    return [*runs, Run("vendor", vendor)] if vendor else runs


COMPANION_RUN = Run("opdiff", (*OPDIFF, "-j", str(CORES)))
"""Run of the companion of a preset."""


def interleaved(work: list[tuple[Case, Run]], rounds: int, progress: Progress) -> dict[str, Timings]:
    """Return the timings of every run by name; runs that fail are left out.

    The first round measures memory and is not timed, unless it takes so long that it is the only one.
    """
    found: dict[str, Timings] = {}
    wanted: dict[str, int] = {}
    for turn in range(rounds + 1):
        for case, one in work:
            name = one.name if case is work[0][0] else f"{one.name}, {case.name}"
            if turn > wanted.get(name, 0 if turn else rounds):
                continue
            progress.step(f"{case.name}: {f'round {turn} of {rounds}' if turn else 'first look'}: {one.name}")
            cost, problem = _measure(case, one, watched=not turn)
            if problem:
                progress.note(f"{case.name}: {one.name} is left out: {problem}")
                wanted[name] = 0
                continue
            if not turn:
                wanted[name] = int(_MAX_TOTAL_S / max(cost.wall_s, 1e-6))
            before = found.setdefault(name, Timings((), (), cost.memory))
            if turn or not wanted[name]:
                found[name] = before.after(cost)
    return {name: timings for name, timings in found.items() if timings.wall_s}


def _measure(case: Case, one: Run, *, watched: bool) -> tuple[Cost, str]:
    """Return the cost of a run and its problem, if it failed or did not compare every operator."""
    if one.cold and not reading.drop(case.files()):
        return Cost(0, 0, 0), "the files cannot be dropped from the cache"
    if one.threads:
        started = time.process_time()
        wall_s = reading.read(case.files(), one.threads)
        return Cost(wall_s, time.process_time() - started, 0), ""
    output, log = case.path("output"), case.path("log")
    shutil.rmtree(output, ignore_errors=True)
    os.mkdir(output)
    paths = {name: case.path(name) for name in ("target", "golden", "output")} | {"rules": case.path("rules.json")}
    command = [word.format(**paths) for word in one.command]
    cost = run(command, log, settings=one.settings, watched=watched)
    if one.cold:
        reading.read(case.files(), 1)  # warm up for the following runs
    found = _compared(output) if one.has_table else case.operators
    if found >= case.operators:
        return cost, ""
    with open(log, encoding="utf-8", errors="replace") as file:
        last = file.read().strip().rpartition("\n")[2]
    return cost, f"exit code {cost.code}, {found} of {case.operators} operators compared; {last}"


def _compared(folder: str) -> int:
    """Return the number of rows with a cosine similarity."""
    rows = 0
    for path in glob.glob(os.path.join(folder, "**", "result_*.csv"), recursive=True):
        with open(path, newline="", encoding="utf-8") as file:
            rows += sum(row["CosineSimilarity"] != "NaN" for row in csv.DictReader(file))
    return rows

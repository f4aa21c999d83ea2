"""Measure the cluster engine beside the thread engine: many-small x 20 and few-large x 2, and empty tasks.

Engines take turns, and seconds are those of the fastest round. Processor time is that of this process (client and
scheduler) and of the workers; it changes less if the machine is busy with other work. The start of a cluster, and the
first tasks, which import modules, are not counted. `bench.cluster_memory` measures memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psutil

from bench.dumps import read_pairs, write_preset
from bench.presets import preset
from opdiff.run.cluster import BatchWork
from opdiff.run.connection import open_cluster
from opdiff.workflows.compare.batch import measure_batch
from opdiff.workflows.compare.job import Job, died
from opdiff.workflows.compare.measuring import measure_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.presets import Preset
    from opdiff.core.pairing import Pairing
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.job import JobOutcome

MIB = 1 << 20
EMPTY_TASKS = 2000


class Case(NamedTuple):
    """Jobs of a preset, several times, and the processor time of describing and pairing them once."""

    name: str
    jobs: list[Job]
    described: Cost

    @property
    def nbytes(self) -> int:
        """Data of all jobs."""
        return sum(job.nbytes for job in self.jobs)


class Cost(NamedTuple):
    """Seconds on the clock, and of processors."""

    seconds: float
    processor_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where to put the data (2.3 GB); default: the folder for temporary files")
    parser.add_argument("--only", choices=("many-small", "few-large", "tasks"), default="", help="a part")
    parser.add_argument("--smoke", action="store_true", help="little data: does it run?")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
        for name, times in (("many-small", 20), ("few-large", 2)):
            if args.only in ("", name):
                measure_engines(read_case(preset(name, smoke=args.smoke), times, folder), args.rounds)
    if args.only in ("", "tasks"):
        measure_tasks(args.rounds, 100 if args.smoke else EMPTY_TASKS)
    if args.smoke:
        print("done; values of --smoke are meaningless")
    return 0


def read_case(made: Preset, times: int, folder: str) -> Case:
    options = write_preset(made, folder)
    pairs: list[Pairing] = []
    described = cost_of(lambda: pairs.extend(read_pairs(options)))
    jobs = list(map(Job, range(len(pairs) * times), pairs * times))
    return Case(f"{made.name} x {times}", jobs, described)


def measure_engines(case: Case, rounds: int) -> None:
    files, described = 2 * len(case.jobs), case.described
    print(f"\n{case.name}: {len(case.jobs):,} pairs of {files:,} files, {case.nbytes / MIB:,.0f} MiB;"
          f" described and paired once in {described.processor_s:.2f} s of a processor")  # fmt: skip
    with ExitStack() as stack:
        engines: dict[str, Callable[[], object]] = {}
        for threads in (1, 2):
            engines[f"{threads} threads"] = partial(measure_batch, case.jobs, threads, ignore)
        for workers in (1, 2):
            cluster = stack.enter_context(open_cluster(f"local:{workers}", "", ignore))
            engines[f"{workers} workers"] = partial(run_jobs, cluster, case.jobs)
        costs = best_of_each(engines, rounds)
        for engine, cost in costs.items():
            report(engine, case, cost, costs[engine.replace("workers", "threads")])


def report(engine: str, case: Case, cost: Cost, threads: Cost) -> None:
    """Print the cost of an engine, and how much it is above that of as many threads."""
    speed, pairs = case.nbytes / cost.seconds / MIB, len(case.jobs) / cost.seconds
    print(f"  {engine:10}{cost.seconds:7.2f} s {cost.seconds / threads.seconds - 1:+6.0%}"
          f"  {cost.processor_s:7.2f} s of processors {cost.processor_s / threads.processor_s - 1:+6.0%}"
          f"  {speed:8,.0f} MiB/s  {pairs:9,.0f} pairs/s")  # fmt: skip


def run_jobs(cluster: Cluster, jobs: Sequence[Job]) -> None:
    work: BatchWork[Job, JobOutcome] = BatchWork(measure_jobs, lambda job, _reason: died(job), lambda job: job.weight)
    for _job, _outcome in cluster.run(work, jobs):
        pass


def measure_tasks(rounds: int, count: int) -> None:
    with open_cluster("local:2", "", ignore) as cluster:
        work: BatchWork[int, int] = BatchWork(list, lambda job, _reason: job, lambda _job: 256 * MIB)
        cost = best_of_each({"": lambda: list(cluster.run(work, range(count)))}, rounds)[""]
    print(f"\nempty tasks: {count / cost.seconds:,.0f} a second; {cost.seconds / count * 1000:.2f} ms each,"
          f" {cost.processor_s / count * 1000:.2f} ms of processors")  # fmt: skip


def best_of_each(engines: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Cost]:
    """Return the least seconds and the least processor time of some rounds in turn, after one that is not counted."""
    costs = [{name: cost_of(work) for name, work in engines.items()} for _ in range(rounds + 1)][1:]
    return {name: Cost(*map(min, zip(*(each[name] for each in costs), strict=True))) for name in engines}


def cost_of(work: Callable[[], object]) -> Cost:
    start, before = time.perf_counter(), processor_s()
    work()
    return Cost(time.perf_counter() - start, processor_s() - before)


def processor_s() -> float:
    """Return the processor time of this process and of its workers."""
    children = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return time.process_time() + float(sum(times.user + times.system for times in children))


def ignore(_value: int) -> None:
    """Ignore progress."""


if __name__ == "__main__":
    sys.exit(main())

"""Predict how long large dumps take on clusters, and replay measured task times through dask's scheduler.

costs        processor time for each byte, file, unit, task and row, measured here
model        a dump of 40 TB and 8 ranks on 1, 8 and 64 hosts
simulation   tasks that take as long as measured ones but only sleep, through the scheduler;
             workers are threads of this process, so that a task costs more than with hosts of their own
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from bench.dumps import read_pairs, write_preset
from bench.presets import preset
from bench.report import made
from bench.torchair import Preset as GraphPreset
from bench.torchair import write as write_graph
from opdiff.core.comparison import Mode
from opdiff.run.cluster import MAX_BATCH_BYTES, BatchWork, Cluster, make_batches
from opdiff.workflows.compare.job import Job
from opdiff.workflows.compare.measuring import measure_jobs
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import pair_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.presets import Preset

TB = 10**12
THREADS_PER_HOST = 8
# Bytes per second of the local disks of a host.
DISK_BYTES_PER_S = 3e9
TOKENS, OPERATORS = 4, 500


class Costs(NamedTuple):
    """Processor seconds for each byte of large tensors, file, small pair, unit, task and row; times of large tasks."""

    byte_s: float
    file_s: float
    pair_s: float
    unit_s: float
    task_s: float
    row_s: float
    task_times: tuple[float, ...]


class LargeDump(NamedTuple):
    """Bytes and files of both sides, and units (tokens of ranks)."""

    nbytes: float
    files: float
    units: float

    @property
    def tasks(self) -> float:
        """Batches by bytes, and those of units."""
        return self.nbytes / MAX_BATCH_BYTES + self.units / 8


# One step of a model of 38 billion parameters, 8 ranks: 2,000 operators with 3 tensors each, 40 units for each rank.
DUMP = LargeDump(40 * TB, 8 * 40 * 2000 * 4, 8 * 40)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where to put the data (1.2 GB); default: the folder for temporary files")
    parser.add_argument("--smoke", action="store_true", help="little data and few tasks: does it run?")
    args = parser.parse_args()
    costs = measure_costs(args.dir, args.rounds, smoke=args.smoke)
    print(f"byte {costs.byte_s * 1e9:.3f} ns, file {costs.file_s * 1e6:.0f} us, small pair {costs.pair_s * 1e6:.0f} us,"
          f" unit of {OPERATORS} operators {costs.unit_s * 1e3:.0f} ms, task {costs.task_s * 1e3:.2f} ms,"
          f" row {costs.row_s * 1e6:.0f} us; tasks of 256 MiB {min(costs.task_times):.2f} s")  # fmt: skip
    for hosts in (1, 8, 64):
        print_model(costs, hosts)
    for hosts in (1, 2) if args.smoke else (1, 8, 64):
        simulate(costs, hosts, 2 if args.smoke else 8)
    if args.smoke:
        print("done; values of --smoke are meaningless")
    return 0


# Costs


def measure_costs(folder: str | None, rounds: int, *, smoke: bool) -> Costs:
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=folder) as root:
        small, described_s = read_jobs(preset("many-small", smoke=smoke), root)
        large, _ = read_jobs(preset("few-large", smoke=smoke), root)
        pair_s = best(lambda: measure_jobs(small), rounds) / len(small)
        batches = make_batches(large, lambda job: job.weight, 1)
        times = tuple(best(lambda: measure_jobs(batch), rounds) for batch in batches)  # noqa: B023
        return Costs(
            sum(times) / size_of(large),
            described_s / 2 / len(small),
            pair_s,
            measure_unit(root, smoke=smoke),
            measure_task(200 if smoke else 1000),
            measure_row(200 if smoke else 5000),
            tuple(time_s * MAX_BATCH_BYTES / size_of(batch) for time_s, batch in zip(times, batches, strict=True)),
        )


def size_of(jobs: Sequence[Job]) -> int:
    """Return the bytes of jobs."""
    return sum(job.nbytes for job in jobs)


def read_jobs(wanted: Preset, root: str) -> tuple[list[Job], float]:
    options = write_preset(wanted, root)
    start = time.process_time()
    pairs = read_pairs(options)
    return list(map(Job, range(len(pairs)), pairs)), time.process_time() - start


def measure_unit(root: str, *, smoke: bool) -> float:
    """Return the processor time of describing and pairing one token."""
    folder = os.path.join(root, "graph")
    write_graph(GraphPreset("units", 1, TOKENS, 10 if smoke else OPERATORS, 100), folder)
    options = CompareOptions(target=f"{folder}/ge", golden=f"{folder}/fx", mode=Mode.GRAPH)
    return best(lambda: list(pair_only(options)), 1) / TOKENS


def measure_row(count: int) -> float:
    """Return the processor time of saving a row, which the client does for all."""
    from opdiff.report.saved_json import save

    comparison = made(count)
    with tempfile.TemporaryDirectory() as folder:
        return best(lambda: save(comparison, os.path.join(folder, "saved.json")), 1) / count


def measure_task(count: int) -> float:
    """Return the processor time of an empty task: client, scheduler and worker together."""
    with threads_as_workers(1, 2) as cluster:
        return best(lambda: list(cluster.run(SLEEPING, [0.0] * count)), 1) / count


def best(work: Callable[[], object], rounds: int) -> float:
    """Return the least processor time of some rounds, after one that is not counted."""
    times = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times[1:])


# Model


def print_model(costs: Costs, hosts: int) -> None:
    threads = hosts * THREADS_PER_HOST
    pairs = DUMP.files / 2
    limits = {
        "disks": DUMP.nbytes / (hosts * DISK_BYTES_PER_S),
        "processors": (DUMP.nbytes * costs.byte_s + pairs * costs.pair_s + DUMP.units * 4 * costs.unit_s) / threads,
        "scheduler": DUMP.tasks * costs.task_s,
    }
    total = max(limits.values()) + pairs * costs.row_s
    parts = ", ".join(f"{name} {seconds / 60:.1f} min" for name, seconds in limits.items())
    print(f"{hosts:3} hosts: {total / 60:7.1f} min ({parts}, rows at the client {pairs * costs.row_s / 60:.1f} min)")


# Simulation


def sleep_each(seconds: Sequence[float]) -> list[None]:
    time.sleep(sum(seconds))
    return [None] * len(seconds)


# Every job is as large as a batch may be.
SLEEPING: BatchWork[float, object] = BatchWork(sleep_each, lambda _job, reason: reason, lambda _job: MAX_BATCH_BYTES)


def simulate(costs: Costs, hosts: int, tasks_per_thread: int) -> None:
    """Run tasks of measured times on as many threads as some hosts have, and compare with the model."""
    threads = hosts * THREADS_PER_HOST
    generator = random.Random(0)  # noqa: S311  no secret
    # As slow as the disks of a host let eight threads be.
    least_s = MAX_BATCH_BYTES * THREADS_PER_HOST / DISK_BYTES_PER_S
    times = [max(generator.choice(costs.task_times), least_s) for _ in range(threads * tasks_per_thread)]
    with threads_as_workers(hosts, THREADS_PER_HOST) as cluster:
        start, before = time.perf_counter(), time.process_time()
        count = len(list(cluster.run(SLEEPING, times)))
        seconds, processor_s = time.perf_counter() - start, time.process_time() - before
    by_work, by_scheduler = sum(times) / threads, count * costs.task_s
    print(f"{hosts:3} hosts, {count:6,} tasks of {sum(times) / count:.2f} s: {seconds:6.1f} s;"
          f" model {max(by_work, by_scheduler):6.1f} s (work {by_work:.1f}, scheduler {by_scheduler:.1f});"
          f" {processor_s / count * 1e3:.2f} ms of a processor a task")  # fmt: skip


@contextmanager
def threads_as_workers(workers: int, threads: int) -> Iterator[Cluster]:
    """Start workers that are threads of this process."""
    import dask
    from distributed import Client, LocalCluster

    no_pages: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    with (
        dask.config.set(no_pages),
        LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=False, dashboard_address=None, silence_logs=50
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield Cluster(client, lambda _count: None)


if __name__ == "__main__":
    sys.exit(main())

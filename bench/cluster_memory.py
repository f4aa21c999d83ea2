"""Measure the memory of client, scheduler and workers while a cluster measures many rows, in units as graph mode has.

Every unit has the pairs of many-small (3,000), each described anew under a name of its own. Files are read once for
each unit. Rows are stored as a comparison stores them. The scheduler and the workers are processes of their own, on the
loopback address; peaks are those that the system keeps for each process.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bench.dumps import read_pairs, write_preset
from bench.presets import many_small
from opdiff.core.dump import Unit
from opdiff.core.row_store import RowStore
from opdiff.run.connection import open_cluster
from opdiff.workflows.compare.measuring import Measuring, align_and_measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.pairing import Pairing

MIB = 1 << 20
LOOPBACK = "--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--operators", type=int, default=3000, help="rows of a unit")
    parser.add_argument("--smoke", action="store_true", help="few rows: does it run?")
    args = parser.parse_args()
    if args.smoke:
        args.rows, args.operators = 500, 100
    with (
        tempfile.TemporaryDirectory(prefix="opdiff-bench-") as folder,
        running(Path(folder), args.workers) as processes,
    ):
        pairs = read_pairs(write_preset(many_small(args.operators), folder))
        file = str(Path(folder, "scheduler.json"))
        with open_cluster(file, "", lambda _count: None) as cluster:
            before = peak_mib("self")
            started = time.perf_counter()
            store = RowStore(folder)
            pickled, measuring = pickle.dumps(pairs), Measuring(cluster=cluster)
            for number in range(-(-args.rows // len(pairs))):
                store.add(align_and_measure(make_unit(pickled, number), measuring, lambda _done, _all: None).rows)
            rows = len(store.finish())
            seconds = time.perf_counter() - started
        print(f"{rows:,} rows in {seconds:.0f} s; client {peak_mib('self')} MiB ({before} MiB before the first row)")
        for name, process in processes.items():
            print(f"{name} {peak_mib(str(process.pid))} MiB")
    return 0


def make_unit(pickled: bytes, number: int) -> list[Pairing]:
    """Return the pairs of one token, made anew as reading and pairing them would."""
    made: list[Pairing] = pickle.loads(pickled)  # noqa: S301  pickled by this process
    return [replace(pair, unit=Unit(rank=0, token=number, graph=0)) for pair in made]


@contextmanager
def running(folder: Path, workers: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start a scheduler and workers of one thread."""
    file = folder / "scheduler.json"
    with ExitStack() as stack:
        processes = {"scheduler": start(stack, "scheduler", *LOOPBACK, "--port", "0", "--scheduler-file", str(file))}
        while not file.exists() or not json.loads(file.read_text() or "{}"):
            time.sleep(0.05)
        for number in range(workers):
            options = "--nthreads", "1", "--no-nanny", "--scheduler-file", str(file), "--local-directory", str(folder)
            processes[f"worker {number}"] = start(stack, "worker", *LOOPBACK, *options)
        yield processes


def start(stack: ExitStack, *words: str) -> subprocess.Popen[bytes]:
    """Start a part of dask, which ends with the stack."""
    command = [sys.executable, "-m", "dask", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def peak_mib(process: str) -> int:
    """Return the largest memory that a process has had, by its number."""
    lines = Path("/proc", process, "status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())

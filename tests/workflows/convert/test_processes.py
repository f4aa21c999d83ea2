"""Several processes: the same results as one, and no job lost when a worker dies or the user interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import COMMAND, run
from dump_files import TIME, add, dump, numbered, tensor
from opdiff.core import dtypes
from opdiff.run import Work, processes, run_serial, usable_cores
from opdiff.run import run as run_jobs
from opdiff.run.processes import run_processes
from opdiff.run.threads import run_threads
from worker_functions import DEADLY, always_die, double, double_or_die, fail, note, process_id

if TYPE_CHECKING:
    from collections.abc import Sequence


def died(number: int) -> int:
    return -number


# The engine


@pytest.mark.parametrize("count", [0, 1, 2, 17, 100], ids=lambda count: f"{count}_jobs")
@pytest.mark.parametrize("workers", [1, 2, 3], ids=lambda count: f"{count}_workers")
def test_every_job_has_its_result(count: int, workers: int) -> None:
    jobs = list(range(count))
    assert sorted(run_processes(double, jobs, workers, died)) == list(run_serial(double, jobs))


def test_work_is_done_elsewhere_and_by_all() -> None:
    found = {result for _, result in run_processes(process_id, range(30), 2, died)}
    assert len(found) == 2
    assert os.getpid() not in found


@pytest.mark.parametrize("workers", [1, 2, 3], ids=lambda count: f"{count}_workers")
def test_a_death_costs_the_job_that_died(workers: int) -> None:
    results = dict(run_processes(double_or_die, range(600), workers, died))
    assert results == {job: -job if job in DEADLY else 2 * job for job in range(600)}


def test_everybody_dies() -> None:
    assert dict(run_processes(always_die, range(5), 2, died)) == {job: -job for job in range(5)}


def test_an_error_of_a_job_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="0 is not to my taste"):
        list(run_processes(fail, [0], 1, died))


def test_what_is_not_wanted_any_more_is_not_done(tmp_path: Path) -> None:
    """Two batches are done when the first result comes; neither these nor any other go on."""
    path = str(tmp_path / "notes")
    results = run_processes(note, [path] * 1000, 2, str)
    assert next(results) == (path, path)
    del results
    with open(path, encoding="utf-8") as file:
        assert 16 <= len(file.readlines()) < 48


@pytest.mark.parametrize("count", [0, 1, 20], ids=lambda count: f"{count}_jobs")
def test_threads_give_every_job_its_result(count: int) -> None:
    jobs = list(range(count))
    assert sorted(run_threads(double, jobs, 3)) == list(run_serial(double, jobs))


INTERRUPTED = """
import signal
from threading import Timer
from opdiff.run.threads import run_threads
from worker_functions import double_slowly
found = []
Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
try:
    found.extend(run_threads(double_slowly, range(1000), 2))
except KeyboardInterrupt:
    assert all(result == 2 * job for job, result in found)
    print(len(found))
"""


def test_an_interrupt_of_threads_gives_what_was_under_way() -> None:
    """The interrupt is that of the main thread, which waits; workers see nothing of it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", INTERRUPTED]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert 2 <= int(outcome.stdout) < 1000


@pytest.mark.parametrize(
    ("count", "workers", "expected"),
    [(0, 2, 0), (3, 2, 3), (20, 2, 8), (1000, 2, 63), (1000, 64, 256)],
    ids=["none", "few", "some", "many", "many_workers"],
)
def test_batches_hold_every_job_once_and_spread_neighbours(count: int, workers: int, expected: int) -> None:
    batches: list[Sequence[int]] = list(processes._batches(range(count), workers))
    assert sorted(job for batch in batches for job in batch) == list(range(count))
    assert len(batches) == expected
    assert all(len(batch) <= 16 for batch in batches)
    assert all(abs(one - other) > 1 for batch in batches for one, other in pairwise(batch))


@pytest.mark.parametrize(
    ("count", "nbytes", "alone", "elsewhere"),
    [(20, 1 << 16, False, False), (20, 1 << 16, True, True), (20, 2 << 20, False, False), (250, 10, False, True)],
    ids=["little", "little_of_others", "large_in_threads", "many"],
)
def test_workers_that_were_asked_for_start_where_they_gain(
    count: int, nbytes: int, alone: bool, elsewhere: bool
) -> None:
    work = Work(process_id, died, lambda _: nbytes, alone=alone)
    processes_seen = {result for _, result in run_jobs(work, range(count), 2)}
    assert (os.getpid() not in processes_seen) is elsewhere


def test_large_jobs_that_keep_the_interpreter_busy_get_processes() -> None:
    work = Work(process_id, died, lambda _: 2 << 20, frees_interpreter=False)
    assert os.getpid() not in {result for _, result in run_jobs(work, range(20), 2)}


def test_usable_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


# The command


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", ["", "-t npz", "-t bin -f NHWC"], ids=["npy", "npz", "converted"])
def test_two_processes_write_what_one_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    # Otherwise one process would do it all.
    monkeypatch.setattr("opdiff.run._WORTH_BYTES", 0)
    for number in range(40):
        values = np.full((2, 3 + number % 7, 2, 2), number)
        add(
            tmp_path / "in" / str(number % 3),
            f"Add.add{number}.1.2.{TIME}",
            dump(tensor(values, dtypes.FLOAT16, "NC1HWC0")),
        )
    add(tmp_path / "in", "bad", b"")
    add(tmp_path / "in", "n" * 250, numbered(2))
    reports = []
    for jobs in ("1", "2"):
        outcome = run(
            capsys, "convert", tmp_path / "in", "-out", tmp_path / jobs, "-j", jobs, "--json", *options.split()
        )
        assert outcome.code == 0
        reports.append(outcome.out.replace(f"{tmp_path}/{jobs}", ""))
    assert reports[0] == reports[1]
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def script(folder: Path, body: str, source: str = "ND", target: str = "NCHW") -> str:
    """A folder with one conversion of the user's own."""
    lines = f"import os, signal, time\n\ndef convert(shape_from, shape_to, array):\n    {body}\n    return array\n"
    add(folder / "format_convert", f"convert_{source}_to_{target}.py", lines.encode())
    return str(folder)


def test_a_killed_worker_is_a_failure_of_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As when the system runs out of memory. Nothing hangs, and the others are converted."""
    custom = script(tmp_path / "own", "array[0] == 13 and os.kill(os.getpid(), signal.SIGKILL)")
    for number in range(60):
        add(tmp_path / "in", f"Add.add{number}.1.2.{TIME}", numbered(3, start=number))
    arguments = ("-c", custom, "-f", "NCHW", "-j", 2, "-out", tmp_path / "out", "--strict")
    outcome = run(capsys, "convert", tmp_path / "in", *arguments)
    assert outcome.code == 1
    bad = f"{tmp_path}/in/Add.add13.1.2.{TIME}"
    assert outcome.err.splitlines()[0] == f"failed: {bad}: the process that worked on it died"
    assert outcome.out.startswith("59 of 60 files converted: 59 results ")
    assert (tmp_path / "out" / "convert_failed_file_list.txt").read_text() == f"{bad}\n"


# Interrupts. The scripts take their time, so that there is something to interrupt.


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    custom = script(tmp_path / "own", "time.sleep(0.01)")
    for number in range(400):
        add(tmp_path / "in", f"Add.add{number}.1.2.{TIME}", numbered(1000))
    command = [*COMMAND, "convert", str(tmp_path / "in"), "-out", str(tmp_path / "out"), "-c", custom, "-f", "NCHW"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (tmp_path / "out").is_dir() or len(os.listdir(tmp_path / "out")) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("jobs", ["1", "2"], ids=["alone", "two_processes"])
def test_an_interrupt_leaves_whole_files(tmp_path: Path, jobs: str) -> None:
    process = start(tmp_path, "-j", jobs)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "opdiff: interrupted; every file that is there is whole\n")
    names = os.listdir(tmp_path / "out")
    assert 5 <= len(names) < 400
    # The interrupt may come when a file is there and not yet counted.
    assert int(out.split()[0]) in (len(names), len(names) - 1)
    for name in names:
        assert name.endswith(".output.0.1000.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "out" / name), np.arange(1, 1001))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_workers_do_not_outlive_their_parent(tmp_path: Path, how: signal.Signals) -> None:
    process = start(tmp_path, "-j", "2")
    os.kill(process.pid, how)
    # The pipes close when the last of the family is gone.
    process.communicate(timeout=10)
    assert process.returncode == -how
    assert len(os.listdir(tmp_path / "out")) < 400

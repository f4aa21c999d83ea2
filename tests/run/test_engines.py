"""Execution of jobs: every job has a result, even if a worker dies or the user interrupts."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.run import Work, processes, run_serial, run_threads, usable_cores
from opdiff.run import run as run_jobs
from opdiff.run.cluster import MAX_BATCH_BYTES, MAX_BATCH_JOBS, make_batches
from opdiff.run.processes import map_processes, run_processes
from worker_functions import (
    DEADLY,
    always_die,
    append_line,
    append_lines_until_stopped,
    double,
    double_or_die,
    double_or_die_in_worker,
    double_or_fail,
    double_slowly,
    process_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def died(number: int) -> int:
    return -number


@pytest.mark.parametrize("count", [0, 1, 2, 17, 100], ids=lambda count: f"{count}_jobs")
@pytest.mark.parametrize("workers", [1, 2, 3], ids=lambda count: f"{count}_workers")
def test_every_job_has_its_result(count: int, workers: int) -> None:
    jobs = list(range(count))
    assert sorted(run_processes(double, jobs, workers, died)) == list(run_serial(double, jobs))


def test_all_workers_get_jobs() -> None:
    found = {result for _, result in run_processes(process_id, range(30), 2, died)}
    assert len(found) == 2
    assert os.getpid() not in found


@pytest.mark.parametrize("workers", [1, 2, 3], ids=lambda count: f"{count}_workers")
def test_dead_worker_costs_only_its_job(workers: int) -> None:
    results = dict(run_processes(double_or_die, range(600), workers, died))
    assert results == {job: -job if job in DEADLY else 2 * job for job in range(600)}


def test_every_worker_dies() -> None:
    assert dict(run_processes(always_die, range(5), 2, died)) == {job: -job for job in range(5)}


def test_jobs_are_done_by_this_process_where_no_other_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Semaphores are files in /dev/shm, which may be full or missing."""

    def refuse(*_arguments: object, **_options: object) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(processes, "ProcessPoolExecutor", refuse)
    assert {result for _, result in run_processes(process_id, range(30), 2, died)} == {os.getpid()}
    assert sorted(run_processes(double, range(30), 2, died)) == [(job, 2 * job) for job in range(30)]
    assert list(map_processes(double, range(30), 2)) == [2 * job for job in range(30)]


def test_exception_of_a_job_is_raised() -> None:
    with pytest.raises(ValueError, match="cannot double 7"):
        list(run_processes(double_or_fail, [7], 1, died))


def test_closing_the_iterator_stops_the_workers(tmp_path: Path) -> None:
    """At the first result two batches are running; no other batch is started."""
    path = str(tmp_path / "lines")
    results = run_processes(append_line, [path] * 1000, 2, str)
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
from opdiff.run import run_threads
from worker_functions import double_slowly
found = []
Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
try:
    found.extend(run_threads(double_slowly, range(1000), 2))
except KeyboardInterrupt:
    assert all(result == 2 * job for job, result in found)
    print(len(found))
"""


def test_interrupt_of_threads_yields_the_results_of_running_jobs() -> None:
    """Only the main thread, which waits, is interrupted."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", INTERRUPTED]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert 2 <= int(outcome.stdout) < 1000


@pytest.mark.parametrize(
    ("count", "workers", "expected"),
    [(0, 2, 0), (3, 2, 3), (20, 2, 8), (1000, 2, 63), (1000, 64, 256)],
    ids=["none", "few", "some", "many", "many_workers"],
)
def test_batches_have_every_job_once_and_separate_neighbours(count: int, workers: int, expected: int) -> None:
    batches: list[Sequence[int]] = list(processes._batches(range(count), workers))
    assert sorted(job for batch in batches for job in batch) == list(range(count))
    assert len(batches) == expected
    assert all(len(batch) <= 16 for batch in batches)
    assert all(abs(one - other) > 1 for batch in batches for one, other in pairwise(batch))


@pytest.mark.parametrize(
    ("count", "nbytes", "options", "uses_processes"),
    [
        (20, 1 << 16, {}, False),
        (20, 1 << 16, {"needs_process": True}, True),
        (20, 2 << 20, {}, False),
        (20, 2 << 20, {"releases_gil": False}, True),
        (250, 10, {}, True),
    ],
    ids=["few_small_inline", "few_small_user_code", "large_in_threads", "large_with_interpreter_lock", "many_small"],
)
def test_choice_of_processes(count: int, nbytes: int, options: dict[str, bool], uses_processes: bool) -> None:
    work = Work(process_id, died, lambda _: nbytes, **options)
    process_ids = {result for _, result in run_jobs(work, range(count), 2)}
    assert (os.getpid() not in process_ids) is uses_processes


def test_usable_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


# In order


@pytest.mark.parametrize("function", [double, double_or_die_in_worker], ids=["all live", "a worker dies"])
@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_order(function: Callable[[int], int], workers: int) -> None:
    assert list(map_processes(function, range(20), workers)) == list(range(0, 40, 2))


def test_errors_are_raised_in_their_place() -> None:
    results = map_processes(double_or_fail, range(20), 2)
    assert [next(results) for _ in range(7)] == list(range(0, 14, 2))
    with pytest.raises(ValueError, match="cannot double 7"):
        next(results)


def test_a_pool_frees_its_semaphores_at_once() -> None:
    """Semaphores freed while others are made would be named to the user as leaks."""
    gc.collect()
    gc.disable()
    # Others may exist: of tests in which workers could not be started.
    before = [value for value in gc.get_objects() if isinstance(value, SemLock)]
    try:
        with suppress(ValueError):
            list(run_processes(double_or_die, range(20), 2, died))
            list(map_processes(double_or_fail, range(20), 2))
        assert [value for value in gc.get_objects() if isinstance(value, SemLock)] == before
    finally:
        gc.enable()


def test_results_that_nobody_waits_for_are_not_computed() -> None:
    results = map_processes(double_slowly, range(100_000), 2)
    assert next(results) == 0
    results.close()
    assert multiprocessing.active_children() == []


def test_parts_of_a_long_job_that_nobody_waits_for_are_not_done(tmp_path: Path) -> None:
    log = tmp_path / "log"
    results = map_processes(append_lines_until_stopped, [(str(log), 1), (str(log), 600)], 1)
    assert next(results) == 1
    while log.read_text().count("\n") < 2:
        pass
    results.close()
    assert log.read_text().count("\n") < 300


# Batches for a cluster


@given(st.lists(st.integers(0, 1 << 30), max_size=50), st.integers(0, 64))
def test_every_job_is_in_one_batch_of_limited_size(sizes: list[int], threads: int) -> None:
    batches = make_batches(range(len(sizes)), lambda job: sizes[job], threads)
    assert sorted(job for batch in batches for job in batch) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or sum(sizes[job] for job in batch) <= MAX_BATCH_BYTES
    amounts = [sum(sizes[job] for job in batch) for batch in batches]
    assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize(
    ("count", "nbytes", "threads", "expected"),
    [
        (0, 1, 2, 0),
        (25, 1000, 2, 1),
        (100_000, 1000, 2, 100_000 // MAX_BATCH_JOBS),
        (1000, 1000, 2, 8),
        (40, 64 << 20, 2, 10),
        (8, 64 << 20, 2, 8),
        (8, 1 << 30, 2, 8),
    ],
    ids=["none", "few small", "many small", "small for all threads", "large", "large for all threads", "very large"],
)
def test_number_of_batches(count: int, nbytes: int, threads: int, expected: int) -> None:
    assert len(make_batches(range(count), lambda _: nbytes, threads)) == expected

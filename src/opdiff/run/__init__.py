"""Execution of jobs: inline, in threads or in processes. Results are yielded as they are completed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

Job = TypeVar("Job")
Result = TypeVar("Result")

# With less data, starting workers costs more time than the workers save.
_MIN_PARALLEL_BYTES = 32 << 20
# Average size of a job from which on most of its work is done without the interpreter lock.
_MIN_THREAD_JOB_BYTES = 1 << 20
# Copies of a tensor in memory while it is measured: stored, aligned, and a block of numbers.
_COPIES_PER_JOB = 3


class Work(Struct, Generic[Job, Result], frozen=True):
    """A function for jobs, and how it may be executed.

    Attributes:
        function: returns the result of a job; must not raise. The function and its jobs must be picklable.
        on_death: returns the result of a job whose process died.
        nbytes: returns the amount of data of a job.
        needs_process: jobs run code of users, which may end the process or not be thread-safe.
        in_process: no processes may be started, because the calling program may not support that.
        min_parallel_jobs: number of small jobs from which on several workers are faster than one.
        releases_gil: large jobs mostly copy data and wait, so that threads run in parallel.
    """

    function: Callable[[Job], Result]
    on_death: Callable[[Job], Result]
    nbytes: Callable[[Job], int]
    needs_process: bool = False
    in_process: bool = False
    min_parallel_jobs: int = 200
    releases_gil: bool = True


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def limit_workers(workers: int, memory: int, nbytes: Iterable[int]) -> int:
    """Return the number of workers whose jobs fit in memory, at most `workers` and at least 1.

    Args:
        workers: maximum number of workers; 0 for all cores. Returned unchanged if memory suffices.
        memory: available bytes; 0 for no limit.
        nbytes: amount of data of each job.
    """
    largest = max(nbytes, default=0)
    if not memory or not largest:
        return workers
    fitting = memory // (_COPIES_PER_JOB * largest)
    return workers if fitting >= (workers or usable_cores()) else max(fitting, 1)


def run(work: Work[Job, Result], jobs: Sequence[Job], workers: int = 0) -> Iterator[tuple[Job, Result]]:
    """Yield each job and its result as it is completed. Large jobs start first, which balances the load.

    Args:
        work: the function and how it may be executed.
        jobs: the jobs.
        workers: maximum number of workers; 0 for all cores. A small amount of work is done inline, unless `workers` is
            given and the jobs need processes.
    """
    jobs = sorted(jobs, key=lambda job: -work.nbytes(job))
    nbytes = sum(work.nbytes(job) for job in jobs)
    count = min(workers or usable_cores(), len(jobs))
    is_small = len(jobs) < work.min_parallel_jobs and nbytes < _MIN_PARALLEL_BYTES
    if count <= 1 or (is_small and not (work.needs_process and workers)):
        return run_serial(work.function, jobs)
    threads_suffice = work.releases_gil and nbytes / len(jobs) >= _MIN_THREAD_JOB_BYTES and not work.needs_process
    if work.in_process or threads_suffice:
        return run_threads(work.function, jobs, count)
    from opdiff.run.processes import run_processes

    return run_processes(work.function, jobs, count, work.on_death)


def run_serial(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    """Yield each job and its result, in order."""
    return ((job, function(job)) for job in jobs)


def run_threads(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Yield each job and its result as it is completed; for large files, most of whose work needs no interpreter lock.

    After an interrupt no further jobs are started; the results of the running ones are still yielded.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(workers)
    pending: dict[Future[Result], Job] = {}
    try:
        for job in jobs:
            pending[pool.submit(function, job)] = job
        for future in as_completed(pending):
            yield pending.pop(future), future.result()
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        yield from ((job, future.result()) for future, job in pending.items() if not future.cancelled())
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def map_jobs(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Yield the result of each job, in order, computed by `workers` processes; 1 stands for this process.

    `function` and the jobs must be picklable if there are several processes.
    """
    if workers <= 1 or len(jobs) <= 1:
        return map(function, jobs)
    from opdiff.run.processes import map_processes

    return map_processes(function, jobs, min(workers, len(jobs)))

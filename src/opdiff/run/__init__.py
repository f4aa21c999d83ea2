"""Where the work is done: a function and its jobs go in, results come out as they are ready."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")

# Below this much data starting other workers costs more than it gains.
_WORTH_BYTES = 32 << 20
# Jobs of this size may leave the interpreter free for other threads; smaller ones keep it busy.
_LARGE_JOB = 1 << 20
# Working copies of a tensor that exist while it is measured: stored, aligned, and a block of numbers.
_COPIES = 3


class Work(NamedTuple, Generic[Job, Result]):
    """What is to be done.

    Attributes:
        function: from a job to its result; it must not raise. It and the jobs must be picklable.
        on_death: what becomes of a job whose process dies.
        nbytes: how much data a job is about.
        alone: jobs run code of others, which may end the process or mind threads.
        worth_jobs: how many small jobs it takes until other workers gain something.
        in_process: no other processes are to be started; programs that call us may not be made for that.
        frees_interpreter: large jobs are copying and waiting for the most part, so that threads can share them.
    """

    function: Callable[[Job], Result]
    on_death: Callable[[Job], Result]
    nbytes: Callable[[Job], int]
    alone: bool = False
    in_process: bool = False
    worth_jobs: int = 200
    frees_interpreter: bool = True


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def fitting_workers(workers: int, memory: int, nbytes: Iterable[int]) -> int:
    """As many as asked for, or fewer where the largest jobs would not fit in the memory that was granted.

    Args:
        workers: how many are asked for; 0 for as many as there are cores.
        memory: bytes that may be used; 0 when nothing limits them.
        nbytes: of how much data the jobs are.
    """
    largest = max(nbytes, default=0)
    if not memory or not largest:
        return workers
    fitting = memory // (_COPIES * largest)
    return workers if fitting >= (workers or usable_cores()) else max(fitting, 1)


def run(work: Work[Job, Result], jobs: Sequence[Job], workers: int = 0) -> Iterator[tuple[Job, Result]]:
    """Each job and its result, as they are ready; large jobs first, so that the last one keeps nobody waiting.

    Args:
        work: what is to be done with each job.
        jobs: the jobs.
        workers: how many at once, at most; 0 for as many as there are cores. Where the work is not worth it, there is
            one, unless the jobs are to be `alone` and more are asked for.
    """
    jobs = sorted(jobs, key=lambda job: -work.nbytes(job))
    nbytes = sum(work.nbytes(job) for job in jobs)
    count = min(workers or usable_cores(), len(jobs))
    is_little = len(jobs) < work.worth_jobs and nbytes < _WORTH_BYTES
    if count <= 1 or (is_little and not (work.alone and workers)):
        return run_serial(work.function, jobs)
    may_share = work.frees_interpreter and nbytes / len(jobs) >= _LARGE_JOB and not work.alone
    if work.in_process or may_share:
        from opdiff.run.threads import run_threads

        return run_threads(work.function, jobs, count)
    from opdiff.run.processes import run_processes

    return run_processes(work.function, jobs, count, work.on_death)


def run_serial(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    """Each job and its result, one after the other, in order."""
    return ((job, function(job)) for job in jobs)

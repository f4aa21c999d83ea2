"""Execution in threads: for large files, where most time is spent in the native kernel and in NumPy."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_threads(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Yield each job and its result as it is completed.

    After an interrupt no further jobs are started; the results of the running ones are still yielded.
    """
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

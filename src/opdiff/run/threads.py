"""Work in several threads: for large files, where the time goes into the kernel and into NumPy."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_threads(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Each job and its result, as they are ready.

    An interrupt ends the work after the jobs under way; their results still come.
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

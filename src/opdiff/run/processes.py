"""Work in several processes: for many small files, where threads would wait for the interpreter."""

from __future__ import annotations

import os
import signal
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from multiprocessing.synchronize import Event

Job = TypeVar("Job")
Result = TypeVar("Result")

# Jobs handed over at once: enough to hide the cost of handing over, few enough for a steady progress bar.
_BATCH = 16
# In a worker: set when the parent wants no more results.
_stop: Event | None = None


def run_processes(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    on_death: Callable[[Job], Result],
) -> Iterator[tuple[Job, Result]]:
    """Each job and its result, as they are ready.

    `function` and the jobs must be picklable, and a job may be done twice: when a worker dies (killed for want of
    memory, say), what was under way is done again, one job at a time, and `on_death` says what becomes of a job whose
    worker dies again. An interrupt ends the work after the jobs under way; their results still come.
    """
    waiting = deque(_batches(jobs, workers))
    while waiting:
        lost = yield from _run_pool(function, waiting, workers)
        suspects: deque[Sequence[Job]] = deque((job,) for job in lost)
        while suspects:
            guilty = yield from _run_pool(function, suspects, 1)
            yield from ((job, on_death(job)) for job in guilty)


def _batches(jobs: Sequence[Job], workers: int) -> Iterator[Sequence[Job]]:
    """Jobs to be handed over together. Neighbours, often of one size, go to different batches."""
    count = max(-(-len(jobs) // _BATCH), min(len(jobs), 4 * workers))
    return (jobs[start::count] for start in range(count))


def _run_pool(
    function: Callable[[Job], Result], waiting: deque[Sequence[Job]], workers: int
) -> Generator[tuple[Job, Result], None, list[Job]]:
    """Results until nothing waits or a worker dies. Returns the jobs that were under way at its death."""
    context = get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    _start_forkserver()
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare, initargs=(stop,))
    pending: dict[Future[list[Result]], Sequence[Job]] = {}
    # With one worker there is one batch at a time, so that it is known which one a worker died of.
    at_once = 2 * workers - 1
    try:
        while waiting or pending:
            while waiting and len(pending) < at_once:
                future = pool.submit(_run_batch, function, waiting[0])
                pending[future] = waiting.popleft()
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                results = future.result()
                yield from zip(pending.pop(future), results, strict=True)
    except BrokenProcessPool:
        return [job for batch in pending.values() for job in batch]
    except KeyboardInterrupt:
        stop.set()
        pool.shutdown(cancel_futures=True)
        yield from _finished(pending)
        raise
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return []


def _start_forkserver() -> None:
    """Start the process that makes the workers, deaf for interrupts: those are for the parent."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finished(pending: dict[Future[list[Result]], Sequence[Job]]) -> Iterator[tuple[Job, Result]]:
    for future, batch in pending.items():
        if not future.cancelled() and future.exception() is None:
            # The batch may have been left in the middle.
            yield from zip(batch, future.result(), strict=False)


# In a worker


def _run_batch(function: Callable[[Job], Result], batch: Sequence[Job]) -> list[Result]:
    results = []
    for job in batch:
        if _stop is not None and _stop.is_set():
            break
        results.append(function(job))
    return results


def _prepare(stop: Event) -> None:
    """Leave interrupts to the parent, know when it wants to stop, and do not outlive it."""
    global _stop  # noqa: PLW0603  an event cannot travel with a job, only with a new process
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

"""Execution in processes: for many small files, where threads would wait for the interpreter lock."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from opdiff.run.child_processes import without_current_folder, without_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from multiprocessing.synchronize import Event

Job = TypeVar("Job")
Result = TypeVar("Result")

# Jobs sent to a worker at once: a compromise between the cost of sending and a steady progress bar.
_JOBS_PER_BATCH = 16
# In a worker: set when the parent needs no more results.
_stop: Event | None = None


class NoProcessesError(Exception):
    """The operating system refuses what a pool of processes needs."""


def run_processes(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    on_death: Callable[[Job], Result],
) -> Iterator[tuple[Job, Result]]:
    """Yield each job and its result as it is completed.

    `function` and the jobs must be picklable, and a job may run twice: if a worker dies (killed for lack of memory, for
    example), its unfinished jobs are repeated one at a time. A job whose worker dies again has the result of
    `on_death`. After an interrupt no further jobs are started; the results of the running ones are still yielded. Where
    no processes can be started, the jobs are done by this one.
    """
    waiting = deque(_batches(jobs, workers))
    repeated: deque[Sequence[Job]] = deque()
    try:
        while waiting:
            unfinished = yield from _run_pool(function, waiting, workers)
            repeated += ((job,) for job in unfinished)
            while repeated:
                fatal = yield from _run_pool(function, repeated, 1)
                yield from ((job, on_death(job)) for job in fatal)
    except NoProcessesError:
        yield from ((job, function(job)) for batch in (*repeated, *waiting) for job in batch)


def map_processes(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int
) -> Generator[Result, None, None]:
    """Yield the result of each job, in order; a few jobs are done ahead of the job that is waited for.

    `function` and the jobs must be picklable. Errors of `function` are raised here. If a worker dies, or none can be
    started, the remaining jobs are done by this process.
    """
    try:
        pool, stop = _open_pool(function, workers)
    except NoProcessesError:
        yield from map(function, jobs)
        return
    waiting = deque(jobs)
    pending: deque[tuple[Job, Future[list[Result]]]] = deque()
    try:
        while waiting or pending:
            while waiting and len(pending) <= workers:
                pending.append((waiting[0], pool.submit(_run_batch, function, (waiting[0],))))
                waiting.popleft()
            (result,) = pending[0][1].result()
            pending.popleft()
            yield result
    except BrokenProcessPool:
        yield from map(function, [*(job for job, _ in pending), *waiting])
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        # An error knows this frame, which knows the future that raised it. Unless the circle is broken, the semaphores
        # of the pool are freed at any time, perhaps while others are made, which the interpreter does not support.
        pending.clear()


def _batches(jobs: Sequence[Job], workers: int) -> Iterator[Sequence[Job]]:
    """Divide the jobs into batches. Neighbours, often of similar size, go to different batches."""
    count = max(-(-len(jobs) // _JOBS_PER_BATCH), min(len(jobs), 4 * workers))
    return (jobs[start::count] for start in range(count))


def _run_pool(
    function: Callable[[Job], Result], waiting: deque[Sequence[Job]], workers: int
) -> Generator[tuple[Job, Result], None, list[Job]]:
    """Yield results until no batch is waiting or a worker dies; return the unfinished jobs of started batches."""
    pool, stop = _open_pool(function, workers)
    pending: dict[Future[list[Result]], Sequence[Job]] = {}
    # With one worker only one batch is pending, so that the batch that killed a worker is known.
    max_pending = 2 * workers - 1
    try:
        while waiting or pending:
            while waiting and len(pending) < max_pending:
                future = pool.submit(_run_batch, function, waiting[0])
                pending[future] = waiting.popleft()
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                results = _results(future)
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


def _results(future: Future[list[Result]]) -> list[Result]:
    if isinstance(future.exception(), BrokenProcessPool):
        # The future's own error would know the frames of its future, and so itself: see `map_processes`.
        raise BrokenProcessPool
    return future.result()


def _open_pool(function: Callable[[Job], Result], workers: int) -> tuple[ProcessPoolExecutor, Event]:
    """Return a pool, and the event that makes its workers stop.

    Raises:
        NoProcessesError: there cannot be one: it needs semaphores, which are files in /dev/shm, sockets and pipes.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    try:
        _start_forkserver()
        stop = context.Event()
        return ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare, initargs=(stop,)), stop
    except OSError as error:
        raise NoProcessesError from error


def _start_forkserver() -> None:
    """Start the process that starts the workers."""
    with without_interrupts(), without_current_folder():
        forkserver.ensure_running()


def _finished(pending: dict[Future[list[Result]], Sequence[Job]]) -> Iterator[tuple[Job, Result]]:
    for future, batch in pending.items():
        if not future.cancelled() and future.exception() is None:
            # A stopped worker returns the results of a part of its batch.
            yield from zip(batch, future.result(), strict=False)


# In a worker


def until_stopped(items: Iterable[Job]) -> Iterator[Job]:
    """Yield the parts of a long job; in a worker whose parent needs no more results, no further ones.

    Only for functions of `map_processes`, which discards the results of stopped workers.
    """
    for item in items:
        if _stop is not None and _stop.is_set():
            return
        yield item


def _run_batch(function: Callable[[Job], Result], batch: Sequence[Job]) -> list[Result]:
    results = [function(job) for job in until_stopped(batch)]
    gc.collect()
    # Modules that the first jobs imported are not searched again.
    gc.freeze()
    return results


def _prepare(stop: Event) -> None:
    """Prepare a worker: ignore interrupts, store the parent's stop event, and end with the parent.

    Garbage is collected after each batch. Meanwhile the collector would look at thousands of new values again and
    again, which takes a fifth of the time.
    """
    global _stop  # noqa: PLW0603  an event cannot be pickled with a job, only inherited by a process
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.disable()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

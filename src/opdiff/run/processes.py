"""Work in several processes: for many small files, where threads would wait for the interpreter."""

from __future__ import annotations

import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")

# Jobs handed over at once: enough to hide the cost of handing over, few enough for a steady progress bar.
_BATCH = 16


def run_processes(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    on_death: Callable[[Job], Result],
) -> Iterator[tuple[Job, Result]]:
    """Each job and its result, as they are ready.

    `function` and the jobs must be picklable. A worker that dies (killed for want of memory, say) takes the jobs of
    the pool with it; `on_death` then says what becomes of each job that has no result.
    """
    batches = [jobs[start : start + _BATCH] for start in range(0, len(jobs), _BATCH)]
    context = get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        pending = {pool.submit(_run_batch, function, batch): batch for batch in batches}
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield from _results(future, pending.pop(future), on_death)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _results(
    future: Future[list[Result]], batch: Sequence[Job], on_death: Callable[[Job], Result]
) -> Iterator[tuple[Job, Result]]:
    try:
        results = future.result()
    except BrokenProcessPool:
        results = [on_death(job) for job in batch]
    return zip(batch, results, strict=True)


def _run_batch(function: Callable[[Job], Result], batch: Sequence[Job]) -> list[Result]:
    return [function(job) for job in batch]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Execution on the workers of dask.distributed: batches of jobs, submitted in a window of bounded size.

jobs ──make_batches──► batches ──tasks on workers──► results
│ failed
├──► its jobs, a task for each ──► results, or the reason of the failure
│       │ worker died
└───────┴──► one task at a time, because other tasks of the worker failed with it
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from opdiff.core.reasons import Reason, because
from opdiff.run.batches import make_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from distributed import Client, Future


Job = TypeVar("Job")
Result = TypeVar("Result")

_WORKER_DIED = "run.worker_died"
# Tasks of each thread that are submitted at once: one that runs, and others that are there when it ends.
_TASKS_PER_THREAD = 3
# How often a task that raised an exception is repeated. A task whose worker died is repeated by the scheduler.
_RETRIES = 2
# Between two looks at the workers.
_SECONDS_PER_LOOK = 1.0
# Workers that a supervisor starts again are back within this time.
_MAX_SECONDS_WITHOUT_WORKERS = 60.0


class BatchWork(Struct, Generic[Job, Result], frozen=True):
    """A function for batches of jobs.

    Attributes:
        function: returns the results of a batch, in order; the function, jobs and results must be picklable.
        on_failure: returns the result of a job that no worker could do.
        nbytes: returns the amount of data of a job.
    """

    function: Callable[[Sequence[Job]], Sequence[Result]]
    on_failure: Callable[[Job, Reason], Result]
    nbytes: Callable[[Job], int]


class Cluster:
    """A connection to a scheduler. See `opdiff.run.connection.open_cluster`."""

    def __init__(self, client: Client, on_workers: Callable[[int], None]) -> None:
        self._client = client
        self._on_workers = on_workers
        self._threads = 0
        self._seen_at = time.monotonic()
        self._looked_at = 0.0

    def run(self, work: BatchWork[Job, Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        """Yield each job and its result as its batch is completed.

        A job may run several times. The jobs of a batch that fails are repeated one by one at the end, and a job that
        fails again has the result of `on_failure`. All submitted tasks are cancelled if the iterator is closed or
        interrupted.
        """
        self._look()
        failed = yield from self._run_round(work.function, make_batches(jobs, work.nbytes, self._threads))
        singles = [(job,) for batch, _ in failed for job in batch]
        failed = yield from self._run_round(work.function, singles)
        killed = [batch for batch, reason in failed if reason.code == _WORKER_DIED]
        fatal = yield from self._run_round(work.function, killed, max_tasks=1)
        fatal += [(batch, reason) for batch, reason in failed if reason.code != _WORKER_DIED]
        yield from ((job, work.on_failure(job, reason)) for batch, reason in fatal for job in batch)

    def _run_round(
        self,
        function: Callable[[Sequence[Job]], Sequence[Result]],
        batches: Sequence[tuple[Job, ...]],
        max_tasks: int = 0,
    ) -> Generator[tuple[Job, Result], None, list[tuple[tuple[Job, ...], Reason]]]:
        """Yield results; return batches that failed, with the reason. `max_tasks` is 0 for the usual window."""
        waiting = deque(batches)
        pending: dict[Future[_Results[Result]], tuple[Job, ...]] = {}
        done: SimpleQueue[Future[_Results[Result]]] = SimpleQueue()
        failed: list[tuple[tuple[Job, ...], Reason]] = []
        try:
            while (waiting or pending) and self._obstacle is None:
                while waiting and len(pending) < (max_tasks or max(_TASKS_PER_THREAD * self._threads, 1)):
                    task = _Task(function, waiting[0], software_versions())
                    future = self._client.submit(_run_task, task, pure=False, retries=_RETRIES)
                    future.add_done_callback(done.put)
                    pending[future] = waiting.popleft()
                for future in self._wait(done):
                    batch = pending.pop(future)
                    found: Sequence[Result] | Reason = _results(future)
                    # Otherwise the worker keeps the results until the garbage collector runs here.
                    future.release()
                    if isinstance(found, Reason):
                        failed.append((batch, found))
                    else:
                        yield from zip(batch, found, strict=True)
            if self._obstacle is not None:
                failed += [(batch, self._obstacle) for batch in (*pending.values(), *waiting)]
            return failed
        finally:
            self._cancel(pending)

    def _wait(self, done: SimpleQueue[Future[_Results[Result]]]) -> list[Future[_Results[Result]]]:
        """Return the futures that are done; wait for the first one, a second at the longest."""
        found = []
        with suppress(Empty):
            found.append(done.get(timeout=_SECONDS_PER_LOOK))
            while True:
                found.append(done.get_nowait())
        self._look()
        return found

    def _look(self) -> None:
        """Note how many threads the workers have, at most once a second."""
        now = time.monotonic()
        if now - self._looked_at < _SECONDS_PER_LOOK:
            return
        self._looked_at = now
        threads = self._find_threads()
        if threads:
            self._seen_at = now
        self._threads = sum(threads)
        self._on_workers(len(threads))

    def _find_threads(self) -> tuple[int, ...]:
        if self._client.status != "running":
            return ()
        try:
            return tuple(self._client.nthreads().values())
        except (OSError, TimeoutError):
            return ()

    @property
    def _obstacle(self) -> Reason | None:
        """Why nothing can be done any more; `None` if the cluster works."""
        if self._client.status == "closed":
            return because("run.scheduler_lost")
        if time.monotonic() - self._seen_at > _MAX_SECONDS_WITHOUT_WORKERS:
            return because("run.no_workers", seconds=_MAX_SECONDS_WITHOUT_WORKERS)
        return None

    def _cancel(self, pending: dict[Future[_Results[Result]], tuple[Job, ...]]) -> None:
        # Without a scheduler nothing is left to cancel.
        if self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.cancel(list(pending), force=True)


def _results(future: Future[_Results[Result]]) -> Sequence[Result] | Reason:
    """Return the results of a task that is done, or why it has none."""
    from distributed import KilledWorker

    try:
        values: Sequence[Result] = future.result().values
    except KilledWorker as error:
        return because(_WORKER_DIED, times=error.allowed_failures + 1, worker=error.last_worker.address)
    except CancelledError:
        return because("run.scheduler_lost")
    except Exception as error:  # noqa: BLE001  a border: whatever a task raises costs its jobs, not the run
        return because("run.task_failed", error=str(error) or repr(error))
    return values


@cache
def software_versions() -> tuple[tuple[str, str], ...]:
    """Return the software that results depend on, with versions."""
    import platform
    from importlib.metadata import version

    return ("opdiff", version("opdiff")), ("numpy", version("numpy")), ("python", platform.python_version())


# On a worker


class _Task(Struct, Generic[Job, Result], frozen=True):
    """A batch, which dask sees as one value and does not search for futures, and the software of its sender."""

    function: Callable[[Sequence[Job]], Sequence[Result]]
    jobs: tuple[Job, ...]
    versions: tuple[tuple[str, str], ...]


class _Results(Struct, Generic[Result], frozen=True):
    """Results of a batch, as one value."""

    values: Sequence[Result]


def _run_task(task: _Task[Job, Result]) -> _Results[Result]:
    """Run a batch.

    Raises:
        RuntimeError: the worker, which joined the cluster later, has other software than the sender.
    """
    here = software_versions()
    if here != task.versions:
        raise RuntimeError(f"the worker has {dict(here)}, the client {dict(task.versions)}")
    return _Results(task.function(task.jobs))

"""Execution on the workers of dask.distributed, which schedules batches of jobs.

jobs ──make_batches──► batches ──client.map──┬──► results
                                             ├──► unread or refused: again on other workers
                                             └──► failed: each job again, as a task of its own

If the worker of such a task died, the task runs once more, alone: another task of the worker may have been the cause. A
job that still fails has the reason of the failure as its result.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.reasons import Reason, Status, because
from opdiff.run.worker_task import Each, Sender, TaskResults, pack_function, run_task, unpack_function

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    from distributed import Client, Future

Job = TypeVar("Job")
Result = TypeVar("Result")

# A task of this size takes tenths of a second. The scheduler needs about two milliseconds for a task.
MAX_BATCH_BYTES = 256 << 20
MAX_BATCH_JOBS = 2000
# Below this size, dividing tasks costs more time than it saves.
_MIN_BATCH_BYTES = 16 << 20
_MIN_BATCH_JOBS = 25
# Batches for each thread, so that all threads end at about the same time.
_BATCHES_PER_THREAD = 4
# Results of `map` that may be there before they are needed, for each thread.
_RESULTS_AHEAD_PER_THREAD = 2
# How often a task that raised an exception is repeated. A task whose worker died is repeated by the scheduler.
_RETRIES = 2
_SECONDS_PER_LOOK = 1.0
# While nothing is completed, the client looks for results this often.
_SECONDS_PER_POLL = 0.01
# Results of a batch are small. If they do not come, their worker may be dead, which dask would try to reach for 30 s.
_MAX_SECONDS_PER_TRANSFER = 3.0
# Workers that a supervisor starts again are back within this time. A scheduler that is not ours may wait forever.
_MAX_SECONDS_WITHOUT_WORKERS = 60.0


class BatchWork(Struct, Generic[Job, Result], frozen=True):
    """A function for batches of jobs.

    Attributes:
        function: returns the results of a batch, in order; the function, jobs and results must be picklable.
        on_failure: returns the result of a job that no worker could do.
        nbytes: returns the amount of data of a job.
        is_unread: returns whether a worker could not read the files of a job; a worker of another host may be able to.
        sends_once: the function has much data; each worker gets the function once, not with every task.
    """

    function: Callable[[Sequence[Job]], Sequence[Result]]
    on_failure: Callable[[Job, Reason], Result]
    nbytes: Callable[[Job], int]
    is_unread: Callable[[Result], bool] = lambda _result: False
    sends_once: bool = False


class _Batch(Struct, Generic[Job], frozen=True):
    """Jobs of one task, and the workers that could not do them."""

    jobs: tuple[Job, ...]
    avoided: frozenset[str] = frozenset()


_Failed = list[tuple[_Batch[Job], Reason]]


class Cluster:
    """A connection to a scheduler. See `opdiff.run.connection.open_cluster`."""

    def __init__(self, client: Client, on_workers: Callable[[int], None]) -> None:
        self._client = client
        self._on_workers = on_workers
        self._sender = Sender()
        # Threads of the workers by address.
        self._threads: dict[str, int] = {}
        self._looked_at = 0.0
        # Since when there are no workers.
        self._empty_since: float | None = None

    def run(self, work: BatchWork[Job, Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        """Yield each job and its result as its batch is completed.

        A job may run several times. The jobs of a batch that fails are repeated one by one at the end, and a job that
        fails again has the result of `on_failure`. Jobs whose files could not be read are repeated on other hosts. All
        submitted tasks are cancelled if the iterator is closed or interrupted.
        """
        self._look()
        batches = [_Batch(batch) for batch in make_batches(jobs, work.nbytes, sum(self._threads.values()))]
        failed = yield from self._run_all(work, batches)
        singles = [_Batch((job,), batch.avoided) for batch, _ in failed for job in batch.jobs]
        failed = yield from self._run_all(work, singles)
        fatal: _Failed[Job] = []
        for batch, reason in failed:
            fatal += (yield from self._run_all(work, [batch])) if reason.status is Status.KILLED else [(batch, reason)]
        yield from ((job, work.on_failure(job, reason)) for batch, reason in fatal for job in batch.jobs)

    def _run_all(
        self, work: BatchWork[Job, Result], batches: Sequence[_Batch[Job]]
    ) -> Generator[tuple[Job, Result], None, _Failed[Job]]:
        """Yield results as batches are completed; return the batches that failed."""
        failed: _Failed[Job] = []
        while batches:
            elsewhere: dict[frozenset[str], list[Job]] = {}
            for batch, found in self._completed(work, batches):
                if isinstance(found, Reason):
                    failed.append((batch, found))
                    continue
                if found.refusal is not None:
                    avoided = batch.avoided | {found.worker}
                    if self._others(avoided):
                        elsewhere.setdefault(avoided, []).extend(batch.jobs)
                    else:
                        failed.append((batch, found.refusal))
                    continue
                avoided = batch.avoided | self._workers_of_host(found.worker)
                for job, result in zip(batch.jobs, found.values, strict=True):
                    if work.is_unread(result) and self._others(avoided):
                        elsewhere.setdefault(avoided, []).append(job)
                    else:
                        yield job, result
            threads = sum(self._threads.values())
            batches = [
                _Batch(part, avoided)
                for avoided, group in elsewhere.items()
                for part in make_batches(group, work.nbytes, threads)
            ]
        return failed

    def _completed(
        self, work: BatchWork[Job, Result], batches: Sequence[_Batch[Job]]
    ) -> Iterator[tuple[_Batch[Job], TaskResults[Result] | Reason]]:
        """Submit batches, and yield each with what came back, as it is completed."""
        from distributed import as_completed

        reason = self._reason_to_stop()
        if reason is not None:
            yield from ((batch, reason) for batch in batches)
            return
        running: dict[Future[TaskResults[Result]], _Batch[Job]] = {}
        with self._cancelling(running):
            function = self._sent(work)
            # One group of tasks: the scheduler holds it back until threads are free, so that a worker that dies takes
            # only its running tasks along.
            for avoided in {batch.avoided for batch in batches}:
                some = [batch for batch in batches if batch.avoided == avoided]
                running |= zip(self._submit([each.jobs for each in some], function, avoided), some, strict=True)
            completed = as_completed(list(running), loop=self._client.loop)
            while running:
                arrived = completed.next_batch(block=False)
                for future in arrived:
                    outcome: TaskResults[Result] | Reason | None = _outcome(future)
                    if outcome is None:
                        completed.add(future)
                        continue
                    batch = running.pop(future)
                    # Otherwise the worker keeps the results until the garbage collector runs here.
                    future.release()
                    yield batch, outcome
                reason = self._reason_to_stop()
                if reason is not None and not arrived:
                    yield from ((batch, reason) for batch in running.values())
                    return
                if not arrived:
                    time.sleep(_SECONDS_PER_POLL)

    def _sent(self, work: BatchWork[Job, Result]) -> object:
        """Return the function, or the task that unpacks it where it is needed; workers get it from each other."""
        if not work.sends_once:
            return work.function
        return self._client.submit(unpack_function, pack_function(work.function), pure=False, retries=_RETRIES)

    def _submit(
        self, batches: Sequence[Sequence[object]], function: object, avoided: Collection[str] = ()
    ) -> list[Future[TaskResults[Any]]]:
        """Submit batches, to workers that are not avoided as long as there are some.

        Jobs are pickled here, because dask's own pickler takes several times as long for many small values.
        """
        options: dict[str, Any] = {"pure": False, "retries": _RETRIES, "function": function, "sender": self._sender}
        if others := self._others(avoided):
            options |= {"workers": others, "allow_other_workers": True} if avoided else {}
        pickled = [pickle.dumps(batch, pickle.HIGHEST_PROTOCOL) for batch in batches]
        futures: list[Future[TaskResults[Any]]] = self._client.map(run_task, pickled, **options)
        return futures

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the result of each job, in order; a bounded number of them is computed ahead.

        `function` returns the result of a job. Its exceptions are raised here.

        Raises:
            InputError: workers died, or the scheduler is gone.
        """
        self._look()
        ahead: deque[tuple[Job, Future[TaskResults[Result]]]] = deque()
        waiting = iter(jobs)
        submitted: dict[Future[TaskResults[Result]], None] = {}
        with self._cancelling(submitted):
            while True:
                window = max(_RESULTS_AHEAD_PER_THREAD * sum(self._threads.values()), 1)
                for job in waiting:
                    submitted |= dict.fromkeys(futures := self._submit([(job,)], Each(function)))
                    ahead.append((job, futures[0]))
                    if len(ahead) >= window:
                        break
                if not ahead:
                    return
                yield self._wait(*ahead.popleft(), function, submitted)

    def _wait(
        self,
        job: Job,
        future: Future[TaskResults[Result]],
        function: Callable[[Job], Result],
        submitted: dict[Future[TaskResults[Result]], None],
    ) -> Result:
        """Return the result of a job of `map`, of another worker if one refuses the job."""
        avoided: frozenset[str] = frozenset()
        while True:
            found: TaskResults[Result] = self._results(future)
            del submitted[future]
            future.release()
            if found.refusal is None:
                return found.values[0]
            avoided |= {found.worker}
            if not self._others(avoided):
                raise InputError("cluster", found.refusal)
            (future,) = self._submit([(job,)], Each(function), avoided)
            submitted[future] = None

    def _results(self, future: Future[TaskResults[Result]]) -> TaskResults[Result]:
        """Wait for the results of a task."""
        from distributed import CancelledError, KilledWorker

        while True:
            try:
                if future.done():
                    found: TaskResults[Result] = future.result(timeout=_MAX_SECONDS_PER_TRANSFER)
                    return found
            except TimeoutError:
                if future.status == "error":
                    raise
            except (KilledWorker, CancelledError) as error:
                raise InputError("cluster", _why(error)) from error
            if (reason := self._reason_to_stop()) is not None:
                raise InputError("cluster", reason)
            time.sleep(_SECONDS_PER_POLL)

    @contextmanager
    def _cancelling(self, futures: Collection[Future[Any]]) -> Iterator[None]:
        """Cancel the tasks that are left at the end."""
        try:
            yield
        finally:
            # Without a scheduler nothing is left to cancel.
            if futures and self._client.status == "running":
                with suppress(OSError, TimeoutError):
                    self._client.cancel(list(futures), force=True)

    # Workers

    def _look(self) -> None:
        """Note which workers there are, at most once a second."""
        now = time.monotonic()
        if now - self._looked_at < _SECONDS_PER_LOOK:
            return
        self._threads = {}
        if self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._threads = dict(self._client.nthreads())
        self._looked_at = time.monotonic()
        if self._threads:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = self._looked_at
        self._on_workers(len(self._threads))

    def _reason_to_stop(self) -> Reason | None:
        """Return why no task can run any more; `None` if tasks can run."""
        self._look()
        if self._client.status == "closed":
            return because("run.scheduler_lost", Status.INTERRUPTED)
        if self._empty_since is not None and time.monotonic() - self._empty_since > _MAX_SECONDS_WITHOUT_WORKERS:
            return because("run.no_workers", Status.INTERRUPTED, seconds=_MAX_SECONDS_WITHOUT_WORKERS)
        return None

    def _others(self, avoided: Collection[str]) -> list[str]:
        return [address for address in self._threads if address not in avoided]

    def _workers_of_host(self, worker: str) -> set[str]:
        """Return the workers of the host of a worker, and the worker."""
        from distributed.comm import get_address_host

        host = get_address_host(worker)
        return {worker, *(address for address in self._threads if get_address_host(address) == host)}


def _outcome(future: Future[TaskResults[Result]]) -> TaskResults[Result] | Reason | None:
    """Return the results of a task that is done, or why it has none; `None` if its worker died with the results."""
    try:
        found: TaskResults[Result] = future.result(timeout=_MAX_SECONDS_PER_TRANSFER)
    except TimeoutError as error:
        return _why(error) if future.status == "error" else None
    except Exception as error:  # noqa: BLE001  a border: whatever a task raises costs its jobs, not the run
        return _why(error)
    return found


def _why(error: BaseException) -> Reason:
    """Return why a task has no result."""
    from distributed import CancelledError, KilledWorker

    if isinstance(error, KilledWorker):
        times, worker = error.allowed_failures + 1, error.last_worker.address
        return because("run.worker_died", Status.KILLED, times=times, worker=worker)
    if isinstance(error, CancelledError):
        return because("run.scheduler_lost", Status.INTERRUPTED)
    return because("run.task_failed", Status.INTERRUPTED, error=str(error) or repr(error))


def make_batches(jobs: Sequence[Job], nbytes: Callable[[Job], int], threads: int) -> list[tuple[Job, ...]]:
    """Return batches of neighbouring jobs, batches with most data first. A large job has a batch of its own."""
    share = max(_BATCHES_PER_THREAD * threads, 1)
    max_bytes = min(max(sum(map(nbytes, jobs)) // share, _MIN_BATCH_BYTES), MAX_BATCH_BYTES)
    max_jobs = min(max(len(jobs) // share, _MIN_BATCH_JOBS), MAX_BATCH_JOBS)
    batches = list(_divide(jobs, nbytes, max_bytes, max_jobs))
    return sorted(batches, key=lambda batch: -sum(map(nbytes, batch)))


def _divide(
    jobs: Sequence[Job], nbytes: Callable[[Job], int], max_bytes: int, max_jobs: int
) -> Iterator[tuple[Job, ...]]:
    batch: list[Job] = []
    size = 0
    for job in jobs:
        if batch and (size + nbytes(job) > max_bytes or len(batch) >= max_jobs):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(job)
        size += nbytes(job)
    if batch:
        yield tuple(batch)

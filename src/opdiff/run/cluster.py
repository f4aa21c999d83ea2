"""Execution on the workers of dask.distributed, in rounds of batches.

jobs ──make_batches──► batches ──tasks on workers──┬──► results
                                                   ├──► unread: again on hosts that have not tried to read the files
                                                   └──► failed: each job again, as a task of its own

If the worker of such a task died, the task runs once more, alone: another task of the worker may have been the cause. A
job that still fails has the reason of the failure as its result.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.reasons import Status, because
from opdiff.run.task_round import MAX_COPIES, Batch, Round, overdue_after
from opdiff.run.worker_task import Each, Task, run_task
from opdiff.run.workers import SECONDS_PER_LOOK, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from distributed import Client, Future

    from opdiff.core.reasons import Reason
    from opdiff.run.task_round import BatchWork, Unread
    from opdiff.run.worker_task import TaskResults

Job = TypeVar("Job")
Result = TypeVar("Result")
Key = TypeVar("Key")

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


class Cluster:
    """A connection to a scheduler. See `opdiff.run.connection.open_cluster`."""

    def __init__(self, client: Client, on_workers: Callable[[int], None]) -> None:
        self._client = client
        self._workers = Workers(client, on_workers)

    def run(self, work: BatchWork[Job, Result], jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        """Yield each job and its result as its batch is completed.

        A job may run several times. The jobs of a batch that fails are repeated one by one at the end, and a job that
        fails again has the result of `on_failure`. Jobs whose files could not be read are repeated on other hosts. All
        submitted tasks are cancelled if the iterator is closed or interrupted.
        """
        self._workers.look()
        unread: list[Unread[Job, Result]] = []
        batches = [
            Batch(batch, place)
            for place, group in _grouped(jobs, work.place).items()
            for batch in make_batches(group, work.nbytes, self._workers.threads(place.host))
        ]
        failed = yield from self._run_round(work, batches, unread)
        singles = [Batch((job,), batch.place, batch.avoided) for batch, _ in failed for job in batch.jobs]
        failed = yield from self._run_round(work, singles, unread)
        killed = [batch for batch, reason in failed if reason.status is Status.KILLED]
        fatal = yield from self._run_round(work, killed, unread, max_tasks=1)
        fatal += [(batch, reason) for batch, reason in failed if reason.status is not Status.KILLED]
        fatal += yield from self._read_elsewhere(work, unread)
        yield from ((job, work.on_failure(job, reason)) for batch, reason in fatal for job in batch.jobs)

    def _run_round(
        self,
        work: BatchWork[Job, Result],
        batches: Sequence[Batch[Job]],
        unread: list[Unread[Job, Result]],
        max_tasks: int = 0,
    ) -> Generator[tuple[Job, Result], None, list[tuple[Batch[Job], Reason]]]:
        tasks = Round(self._client, self._workers, work, max_tasks)
        yield from tasks.results(batches)
        unread += tasks.unread
        return tasks.failed

    def _read_elsewhere(
        self, work: BatchWork[Job, Result], unread: list[Unread[Job, Result]]
    ) -> Generator[tuple[Job, Result], None, list[tuple[Batch[Job], Reason]]]:
        """Repeat jobs on hosts that have not tried to read their files; return batches that failed."""
        fatal: list[tuple[Batch[Job], Reason]] = []
        while unread:
            batches: list[Batch[Job]] = []
            for (place, tried), group in _grouped(unread, lambda each: (each.place, each.tried)).items():
                if not self._workers.addresses(place.host, tried):
                    yield from ((each.job, each.result) for each in group)
                    continue
                threads = self._workers.threads(place.host)
                parts = make_batches([each.job for each in group], work.nbytes, threads)
                batches += [Batch(part, place, tried) for part in parts]
            unread = []
            fatal += yield from self._run_round(work, batches, unread)
        return fatal

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], host: Callable[[Job], str] = lambda _job: ""
    ) -> Iterator[Result]:
        """Yield the result of each job, in order; a bounded number of them is computed ahead.

        Args:
            function: returns the result of a job; its exceptions are raised here.
            jobs: the jobs.
            host: returns the host where a job runs; empty for any.

        Raises:
            InputError: workers died, or the host or the scheduler is gone.
        """
        self._workers.look()
        ahead: deque[_MappedJob[Job, Result]] = deque()
        waiting = iter(jobs)
        slowest_s = 0.0
        try:
            while True:
                window = max(_RESULTS_AHEAD_PER_THREAD * self._workers.threads(), 1)
                for job in waiting:
                    task = Task.of((job,), self._workers.sender, host(job))
                    ahead.append(_MappedJob(self._client, self._workers, task, Each(function)))
                    if len(ahead) >= window:
                        break
                if not ahead:
                    return
                result = ahead[0].wait(slowest_s)
                slowest_s = max(slowest_s, ahead.popleft().seconds)
                yield result
        finally:
            if ahead and self._client.status == "running":
                with suppress(OSError, TimeoutError):
                    self._client.cancel([future for each in ahead for future in each.futures], force=True)

    def call(self, host: str, function: Callable[..., Result], arguments: tuple[object, ...]) -> Result:
        """Return the result of a function on a host; exceptions as of `map`."""
        (result,) = self.map(_Call(function), [arguments], lambda _arguments: host)
        return result


class _MappedJob(Generic[Job, Result]):
    """A job that was submitted.

    Attributes:
        futures: those of its copies; the first result counts. Empty if its host has no worker now.
    """

    def __init__(self, client: Client, workers: Workers, task: Task[Job], function: Each[Job, Result]) -> None:
        self._client, self._workers, self._task, self._function = client, workers, task, function
        # Workers with other software, and those that take too long.
        self._avoided: set[str] = set()
        self.futures: list[Future[TaskResults[Result]]] = []
        self._submit()

    @property
    def seconds(self) -> float:
        """Time since the last copy was submitted."""
        return time.monotonic() - self._submitted_at

    def _submit(self) -> None:
        """Submit a copy, unless there is no worker for it now."""
        is_limited = bool(self._task.host or self._avoided)
        self._allowed = sorted(self._others()) if is_limited else []
        self._submitted_at = time.monotonic()
        if self._allowed or not is_limited:
            workers = self._allowed or None
            future = self._client.submit(run_task, self._task, self._function, pure=False, workers=workers)
            self.futures.append(future)

    def _others(self) -> set[str]:
        return {*self._workers.addresses(self._task.host)} - self._avoided

    def wait(self, slowest_s: float) -> Result:
        """Return the result; the slowest job before took `slowest_s`.

        Raises:
            InputError: workers died, no worker has the same software, or the host or the scheduler is gone.
        """
        from distributed import KilledWorker

        while True:
            try:
                found = self._wait_a_second()
            except KilledWorker as error:
                times, worker = error.allowed_failures + 1, error.last_worker.address
                raise InputError(
                    worker, because("run.worker_died", Status.KILLED, times=times, worker=worker)
                ) from error
            except CancelledError as error:
                raise InputError("cluster", because("run.scheduler_lost", Status.INTERRUPTED)) from error
            if found is None:
                self._check_workers()
                self._check_time(slowest_s)
            elif found.refusal is None:
                return found.values[0]
            else:
                self._submit_elsewhere(found.worker, found.refusal)

    def _wait_a_second(self) -> TaskResults[Result] | None:
        if not self.futures:
            time.sleep(SECONDS_PER_LOOK)
        for future in self.futures:
            try:
                found: TaskResults[Result] = future.result(timeout=SECONDS_PER_LOOK / len(self.futures))
            except TimeoutError:
                continue
            self.futures.remove(future)
            # Otherwise the worker keeps the result until the garbage collector runs here.
            future.release()
            self._cancel()
            return found
        return None

    def _cancel(self) -> None:
        for future in self.futures:
            future.cancel(force=True)
        self.futures.clear()

    def _submit_elsewhere(self, worker: str, refusal: Reason) -> None:
        """Submit the job to other workers than one that refused it.

        Raises:
            InputError: there is no other one.
        """
        self._avoided.add(worker)
        self._submit()
        if not self.futures:
            raise InputError("cluster", refusal)

    def _check_workers(self) -> None:
        """Submit the job again if its workers were replaced by others of the same host.

        Raises:
            InputError: the host or the scheduler is gone.
        """
        host = self._task.host
        self._workers.look()
        problem = self._workers.obstacle(host)
        if problem is not None:
            raise InputError(host or "cluster", problem)
        there = self._others()
        if (host or self._avoided) and there and not there & set(self._allowed):
            self._cancel()
            self._submit()

    def _check_time(self, slowest_s: float) -> None:
        """Submit a copy to another worker if the job takes too long; wait on if there is none."""
        if not 0 < len(self.futures) < MAX_COPIES or self.seconds <= overdue_after(slowest_s):
            return
        holders = self._workers.by_task()
        busy = {holders[future.key] for future in self.futures if future.key in holders}
        if self._others() - busy:
            self._avoided |= busy
            self._submit()


class _Call(Struct, Generic[Result], frozen=True):
    """A function of several arguments as a function of one job."""

    function: Callable[..., Result]

    def __call__(self, arguments: tuple[object, ...]) -> Result:
        return self.function(*arguments)


def _grouped(items: Iterable[Job], key: Callable[[Job], Key]) -> dict[Key, list[Job]]:
    """Return items by their keys, in order."""
    groups: dict[Key, list[Job]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


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

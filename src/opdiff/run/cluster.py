"""Execution on the workers of dask.distributed, in rounds of batches.

jobs ──make_batches──► batches ──tasks on workers──┬──► results
                                                   ├──► unread: again on hosts that have not tried to read the files
                                                   └──► failed: each job again, as a task of its own

If the worker of such a task died, the task runs once more, alone: another task of the worker may have been the cause. A
job that still fails has the reason of the failure as its result.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from opdiff.run.batches import make_batches
from opdiff.run.mapped_job import MappedJob
from opdiff.run.task_round import WORKER_DIED, Batch, Round
from opdiff.run.worker_task import Each, Task
from opdiff.run.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from distributed import Client

    from opdiff.core.reasons import Reason
    from opdiff.run.task_round import BatchWork, Unread

Job = TypeVar("Job")
Result = TypeVar("Result")
Key = TypeVar("Key")

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
        killed = [batch for batch, reason in failed if reason.code == WORKER_DIED]
        fatal = yield from self._run_round(work, killed, unread, max_tasks=1)
        fatal += [(batch, reason) for batch, reason in failed if reason.code != WORKER_DIED]
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
        ahead: deque[MappedJob[Job, Result]] = deque()
        waiting = iter(jobs)
        slowest_s = 0.0
        try:
            while True:
                window = max(_RESULTS_AHEAD_PER_THREAD * self._workers.threads(), 1)
                for job in waiting:
                    task = Task.of((job,), self._workers.sender, host(job))
                    ahead.append(MappedJob(self._client, self._workers, task, Each(function)))
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

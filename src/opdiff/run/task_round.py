"""One round of tasks: batches are submitted in a window of bounded size, each host with a window of its own.

waiting batches ──submit──► running batches ──┬──► results
                                              ├──► unread: a worker could not read the files, or has other software
                                              ├──► failed: an exception, or workers died
                                              └──► overdue: a second copy on another worker; the first result counts
"""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import CancelledError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from opdiff.core.reasons import Reason, Status, because
from opdiff.run.worker_task import Task, TaskResults, pack_function, run_task, unpack_function
from opdiff.run.workers import SECONDS_PER_LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from distributed import Client, Future

    from opdiff.run.workers import Workers

Job = TypeVar("Job")
Result = TypeVar("Result")

# Tasks of each thread that are submitted at once: a task that runs, and tasks that are ready when it ends.
_TASKS_PER_THREAD = 3
# How often a task that raised an exception is repeated. A task whose worker died is repeated by the scheduler.
_RETRIES = 2
# A task is overdue after this time, and after this many times the time of the slowest task so far.
_MIN_SECONDS_OVERDUE = 300.0
_OVERDUE_RATIO = 10.0
MAX_COPIES = 3
# Results of a batch are small. If they do not come, the task may be running again.
_MAX_SECONDS_PER_TRANSFER = 3.0


def overdue_after(slowest_s: float) -> float:
    """Return the seconds after which a task is given to another worker, too; the slowest one took `slowest_s`."""
    return max(_MIN_SECONDS_OVERDUE, _OVERDUE_RATIO * slowest_s)


class Place(Struct, frozen=True):
    """Where a job runs.

    Attributes:
        host: the host whose disk has the data of the job; empty for any host.
        second_host: the host that has the rest of the data, and sends it to `host`; empty for none.
    """

    host: str = ""
    second_host: str = ""


class BatchWork(Struct, Generic[Job, Result], frozen=True):
    """A function for batches of jobs.

    Attributes:
        function: returns the results of a batch, in order; the function, jobs and results must be picklable.
        on_failure: returns the result of a job that no worker could do.
        nbytes: returns the amount of data of a job.
        place: returns where a job runs.
        move: runs on `Place.second_host`, and returns the jobs with the data that this host has.
        is_unread: returns whether a worker could not read the files of a job; another worker may be able to.
        repeatable: whether a second copy of a task may run at the same time.
        sends_once: the function has much data; each worker gets the function once, not with every task.
    """

    function: Callable[[Sequence[Job]], Sequence[Result]]
    on_failure: Callable[[Job, Reason], Result]
    nbytes: Callable[[Job], int]
    place: Callable[[Job], Place] = lambda _job: Place()
    move: Callable[[Sequence[Job]], Sequence[Job]] | None = None
    is_unread: Callable[[Result], bool] = lambda _result: False
    repeatable: bool = True
    sends_once: bool = False


class Batch(Struct, Generic[Job], frozen=True):
    """Jobs of one task, where the task runs, and hosts that could not read the files of the jobs."""

    jobs: tuple[Job, ...]
    place: Place
    avoided: frozenset[str] = frozenset()


class Unread(Struct, Generic[Job, Result], frozen=True):
    """A job whose files could not be read, its result, where the job runs, and the hosts that have tried."""

    job: Job
    result: Result
    place: Place
    tried: frozenset[str]


class _Running(Struct, Generic[Job, Result]):
    """A submitted batch.

    Attributes:
        batch: the batch.
        futures: the futures of its copies.
        submitted_at: when the last copy was submitted.
        copies: number of copies, including finished copies.
        allowed: workers that may run the last copy; empty for all.
    """

    batch: Batch[Job]
    futures: list[Future[TaskResults[Result]]]
    submitted_at: float = 0.0
    copies: int = 1
    allowed: Sequence[str] = ()


class Round(Generic[Job, Result]):
    """A round of tasks.

    Attributes:
        failed: batches that failed, with the reason, after `results`.
        unread: jobs whose files could not be read, after `results`.
    """

    def __init__(self, client: Client, workers: Workers, work: BatchWork[Job, Result], max_tasks: int = 0) -> None:
        self.failed: list[tuple[Batch[Job], Reason]] = []
        self.unread: list[Unread[Job, Result]] = []
        self._client = client
        self._workers = workers
        self._work = work
        self._max_tasks = max_tasks
        self._waiting: dict[str, deque[Batch[Job]]] = {}
        self._running: dict[Future[TaskResults[Result]], _Running[Job, Result]] = {}
        self._done: SimpleQueue[Future[TaskResults[Result]]] = SimpleQueue()
        # Batches that are running on each host.
        self._counts: Counter[str] = Counter()
        self._slowest_s = 0.0
        # The function, if it is sent once.
        self._sent: Future[Any] | None = None

    def results(self, batches: Sequence[Batch[Job]]) -> Iterator[tuple[Job, Result]]:
        """Yield the results of jobs as their batches are completed; cancel what was submitted at the end."""
        for batch in batches:
            self._waiting.setdefault(batch.place.host, deque()).append(batch)
        try:
            while self._waiting or self._running:
                self._submit_some()
                for future in self._wait():
                    yield from self._finish(future)
                if self._workers.look():
                    self._give_up_hosts()
                    self._repeat_stranded()
                    self._repeat_overdue()
        finally:
            self._cancel([*self._running, *([self._sent] if self._sent is not None else ())])

    def _submit_some(self) -> None:
        for host, batches in [*self._waiting.items()]:
            threads = self._workers.threads(host)
            # Tasks of a host wait here for workers of the host. Tasks of any host wait at the scheduler.
            window = 0 if host and not threads else self._max_tasks or max(_TASKS_PER_THREAD * threads, 1)
            while batches and self._counts[host] < window and self._client.status == "running":
                self._submit(_Running(batches.popleft(), []))
                self._counts[host] += 1
            if not batches:
                del self._waiting[host]

    def _submit(self, running: _Running[Job, Result], avoided: frozenset[str] = frozenset()) -> None:
        batch, place = running.batch, running.batch.place
        avoided |= batch.avoided
        running.allowed = self._workers.addresses(place.host, avoided) if place.host or avoided else ()
        running.submitted_at = time.monotonic()
        future = self._submit_to(batch, running.allowed)
        running.futures.append(future)
        self._running[future] = running
        future.add_done_callback(self._done.put)

    def _submit_to(self, batch: Batch[Job], allowed: Sequence[str]) -> Future[TaskResults[Result]]:
        """Submit a batch to some workers, or to all workers, including workers that join later."""
        move, place, sender = self._work.move, batch.place, self._workers.sender
        function = self._send_function() if self._work.sends_once else self._work.function
        if not place.second_host or move is None:
            return self._submit_task(allowed, run_task, Task.of(batch.jobs, sender, place.host), function)
        task = Task.of(batch.jobs, sender, place.second_host)
        moved = self._submit_task(self._workers.addresses(place.second_host), run_task, task, move)
        return self._submit_task(allowed, run_task, Task.of((), sender, place.host), function, moved)

    def _send_function(self) -> Future[Any]:
        """Submit the function, once for all tasks; workers that need the function get it from each other."""
        if self._sent is None:
            self._sent = self._submit_task((), unpack_function, pack_function(self._work.function))
        return self._sent

    def _submit_task(self, allowed: Sequence[str], function: Callable[..., Any], *arguments: object) -> Future[Any]:
        workers = list(allowed) or None
        return self._client.submit(function, *arguments, pure=False, retries=_RETRIES, workers=workers)

    def _wait(self) -> list[Future[TaskResults[Result]]]:
        """Return the futures that are done; wait for the first one, a second at the longest."""
        found: list[Future[TaskResults[Result]]] = []
        with suppress(Empty):
            found.append(self._done.get(timeout=SECONDS_PER_LOOK))
            while True:
                found.append(self._done.get_nowait())
        return found

    def _finish(self, future: Future[TaskResults[Result]]) -> Iterator[tuple[Job, Result]]:
        running = self._running.get(future)
        if running is None:  # another copy was faster, and this one is cancelled
            return
        found: TaskResults[Result] | Reason | None = _results(future)
        if found is None:
            future.add_done_callback(self._done.put)
            return
        del self._running[future]
        # Otherwise the worker keeps the results until the garbage collector runs here.
        future.release()
        running.futures.remove(future)
        if isinstance(found, Reason):
            if not running.futures:
                self._fail(running, found)
            return
        self._end(running)
        self._slowest_s = max(self._slowest_s, time.monotonic() - running.submitted_at)
        yield from self._read_results(running.batch, found)

    def _read_results(self, batch: Batch[Job], found: TaskResults[Result]) -> Iterator[tuple[Job, Result]]:
        """Yield the results; keep jobs whose files could not be read, or whose worker refused them."""
        tried = batch.avoided | {self._workers.host_of(found.worker)}
        if found.refusal is not None:
            results = [self._work.on_failure(job, found.refusal) for job in batch.jobs]
            self.unread += [Unread(*item, batch.place, tried) for item in zip(batch.jobs, results, strict=True)]
            return
        for job, result in zip(batch.jobs, found.values, strict=True):
            if self._work.is_unread(result):
                self.unread.append(Unread(job, result, batch.place, tried))
            else:
                yield job, result

    def _fail(self, running: _Running[Job, Result], reason: Reason) -> None:
        self._end(running)
        self.failed.append((running.batch, reason))

    def _end(self, running: _Running[Job, Result]) -> None:
        """Cancel the other copies of a batch."""
        self._counts[running.batch.place.host] -= 1
        self._cancel(running.futures)
        for future in running.futures:
            self._running.pop(future, None)
        running.futures.clear()

    def _give_up_hosts(self) -> None:
        """Let all batches fail whose hosts are gone."""
        places = {running.batch.place for running in self._running.values()}
        places |= {batch.place for batches in self._waiting.values() for batch in batches}
        lost = {place: reason for place in places if (reason := self._obstacle(place)) is not None}
        if not lost:
            return
        for running in _distinct(self._running.values()):
            if running.batch.place in lost:
                self._fail(running, lost[running.batch.place])
        for host, batches in [*self._waiting.items()]:
            self.failed += [(batch, lost[batch.place]) for batch in batches if batch.place in lost]
            left = deque(batch for batch in batches if batch.place not in lost)
            self._waiting[host] = left
            if not left:
                del self._waiting[host]

    def _obstacle(self, place: Place) -> Reason | None:
        found = self._workers.obstacle(place.host)
        return self._workers.obstacle(place.second_host) if found is None and place.second_host else found

    def _repeat_stranded(self) -> None:
        """Submit batches again if their workers were replaced by workers of the same host with other addresses."""
        for running in _distinct(self._running.values()):
            host, avoided = running.batch.place.host, running.batch.avoided
            there = self._workers.addresses(host, avoided) if running.allowed else ()
            if there and not set(there) & set(running.allowed):
                self._end(running)
                self._counts[host] += 1
                self._submit(running)

    def _repeat_overdue(self) -> None:
        """Submit batches that take too long again, to workers of other hosts; give a batch up after some copies."""
        limit = overdue_after(self._slowest_s)
        now = time.monotonic()
        overdue = [running for running in _distinct(self._running.values()) if now - running.submitted_at > limit]
        if not overdue:
            return
        workers_by_task = self._workers.by_task()
        hosts_by_task = {key: self._workers.host_of(address) for key, address in workers_by_task.items()}
        for running in overdue:
            tried = frozenset(hosts_by_task[future.key] for future in running.futures if future.key in hosts_by_task)
            host, avoided = running.batch.place.host, running.batch.avoided | tried
            if self._work.repeatable and running.copies < MAX_COPIES and self._workers.addresses(host, avoided):
                running.copies += 1
                self._submit(running, tried)
            else:
                self._fail(running, because("run.overdue", Status.INTERRUPTED, seconds=round(limit)))

    def _cancel(self, futures: Sequence[Future[Any]]) -> None:
        # Without a scheduler nothing is left to cancel.
        if futures and self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.cancel(list(futures), force=True)


def _distinct(running: Iterable[_Running[Job, Result]]) -> list[_Running[Job, Result]]:
    """Return each batch once, however many copies it has."""
    return list({id(each): each for each in running}.values())


def _results(future: Future[TaskResults[Result]]) -> TaskResults[Result] | Reason | None:
    """Return the results of a task that is done, or why it has none; `None` if its worker died with the results."""
    from distributed import KilledWorker

    try:
        found: TaskResults[Result] = future.result(timeout=_MAX_SECONDS_PER_TRANSFER)
    except TimeoutError:
        return None
    except KilledWorker as error:
        return because(
            "run.worker_died", Status.KILLED, times=error.allowed_failures + 1, worker=error.last_worker.address
        )
    except CancelledError:
        return because("run.scheduler_lost", Status.INTERRUPTED)
    except Exception as error:  # noqa: BLE001  a border: whatever a task raises costs its jobs, not the run
        return because("run.task_failed", Status.INTERRUPTED, error=str(error) or repr(error))
    return found

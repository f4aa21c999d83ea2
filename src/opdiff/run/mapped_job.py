"""One job of `Cluster.map`: submitted again if its worker is gone, refuses it or takes too long."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Generic, TypeVar

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.run.task_round import MAX_COPIES, WORKER_DIED, overdue_after
from opdiff.run.worker_task import run_task
from opdiff.run.workers import SECONDS_PER_LOOK

if TYPE_CHECKING:
    from distributed import Client, Future

    from opdiff.core.reasons import Reason
    from opdiff.run.worker_task import Each, Task, TaskResults
    from opdiff.run.workers import Workers

Job = TypeVar("Job")
Result = TypeVar("Result")


class MappedJob(Generic[Job, Result]):
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
                raise InputError(worker, because(WORKER_DIED, times=times, worker=worker)) from error
            except CancelledError as error:
                raise InputError("cluster", because("run.scheduler_lost")) from error
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

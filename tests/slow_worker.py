"""Set-up of a worker that takes its time, so that tests can interrupt or kill it at work; dask calls it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opdiff.run import worker_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SECONDS_PER_TASK = 0.5
_SECONDS_PER_JOB = 0.05


def dask_setup(_worker: object) -> None:
    """Pause before each task, and before each job of those that can be cancelled."""
    run_task, uncancelled = worker_task.run_task, worker_task.uncancelled

    def run_slowly(*arguments: Any, **options: Any) -> object:
        time.sleep(_SECONDS_PER_TASK)
        return run_task(*arguments, **options)

    def yield_slowly(jobs: Iterable[Any]) -> Iterator[Any]:
        for job in uncancelled(jobs):
            time.sleep(_SECONDS_PER_JOB)
            yield job

    vars(worker_task).update(run_task=run_slowly, uncancelled=yield_slowly)

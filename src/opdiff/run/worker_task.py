"""One task of a cluster: a batch of jobs, and the software of its sender, which the worker must have too."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")


class Task(Struct, Generic[Job, Result], frozen=True):
    """A batch, which dask sees as one value and does not search for futures, and the software of its sender."""

    function: Callable[[Sequence[Job]], Sequence[Result]]
    jobs: Sequence[Job]
    versions: tuple[tuple[str, str], ...]


class TaskResults(Struct, Generic[Result], frozen=True):
    """Results of a batch, as one value, and the address of the worker."""

    values: Sequence[Result]
    worker: str


class Each(Struct, Generic[Job, Result], frozen=True):
    """A function of one job as a function of a batch."""

    function: Callable[[Job], Result]

    def __call__(self, jobs: Sequence[Job]) -> list[Result]:
        """Return the results of the jobs, in order."""
        return [self.function(job) for job in jobs]


@cache
def software_versions() -> tuple[tuple[str, str], ...]:
    """Return the software that results depend on, with versions."""
    import platform
    from importlib.metadata import version

    return ("opdiff", version("opdiff")), ("numpy", version("numpy")), ("python", platform.python_version())


def run_task(task: Task[Job, Result], moved: TaskResults[Job] | None = None) -> TaskResults[Result]:
    """Run a batch on a worker; `moved` are the same jobs with the data that another host had.

    Raises:
        RuntimeError: the worker, which joined the cluster later, has other software than the sender.
    """
    from distributed import get_worker

    here = software_versions()
    if here != task.versions:
        raise RuntimeError(f"the worker has {dict(here)}, the client {dict(task.versions)}")
    return TaskResults(task.function(task.jobs if moved is None else moved.values), get_worker().address)

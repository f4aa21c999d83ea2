"""One task of a cluster: a batch of jobs, and the software of its sender, which the worker must have too."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import zlib
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct, field

from opdiff.core.reasons import Status, because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.reasons import Reason

Job = TypeVar("Job")
Result = TypeVar("Result")

# Rules shrink to a sixth, in less time than a network takes for the difference.
_COMPRESSION_LEVEL = 1
# The run whose tasks this worker had last.
_current_run = [""]


@cache
def software_versions() -> tuple[tuple[str, str], ...]:
    """Return the software that results depend on, with versions."""
    import platform
    from importlib.metadata import version

    return ("opdiff", version("opdiff")), ("numpy", version("numpy")), ("python", platform.python_version())


class Sender(Struct, frozen=True):
    """The run that sends tasks, and its software."""

    run: str = field(default_factory=lambda: os.urandom(8).hex())
    versions: tuple[tuple[str, str], ...] = field(default_factory=software_versions)


class TaskResults(Struct, Generic[Result], frozen=True):
    """Results of a batch.

    Attributes:
        pickled: the results.
        worker: address of the worker.
        refusal: why the worker has not run the batch; `None` if it has.
    """

    pickled: bytes
    worker: str
    refusal: Reason | None = None

    @property
    def values(self) -> Sequence[Result]:
        """The results, in the order of the jobs."""
        found: Sequence[Result] = pickle.loads(self.pickled)  # noqa: S301  from a worker, whose code runs here anyway
        return found


class Each(Struct, Generic[Job, Result], frozen=True):
    """A function of one job as a function of a batch."""

    function: Callable[[Job], Result]

    def __call__(self, jobs: Sequence[Job]) -> list[Result]:
        """Return the results of the jobs, in order; after an interrupt no further jobs are done."""
        return [self.function(job) for job in uncancelled(jobs)]


def pack_function(function: Callable[[Sequence[Job]], Sequence[Result]]) -> bytes:
    """Return a function with much data as bytes that are sent once."""
    return zlib.compress(pickle.dumps(function, pickle.HIGHEST_PROTOCOL), _COMPRESSION_LEVEL)


def unpack_function(packed: bytes) -> Callable[[Sequence[Job]], Sequence[Result]]:
    """Return the function, as a task whose result workers give to each other, and keep for the tasks of a run."""
    found: Callable[[Sequence[Job]], Sequence[Result]] = pickle.loads(zlib.decompress(packed))  # noqa: S301  code of the client
    return found


def run_task(
    pickled: bytes, *, function: Callable[[Sequence[Job]], Sequence[Result]], sender: Sender
) -> TaskResults[Result]:
    """Run a batch on a worker.

    Args:
        pickled: the jobs.
        function: returns the results of the jobs.
        sender: the run.

    Returns:
        The results, or the refusal of a worker that joined the cluster later and has other software than the sender.
    """
    from distributed import get_worker

    address = get_worker().address
    refusal = _refusal(address, sender)
    if refusal is not None:
        return TaskResults(b"", address, refusal)
    _prepare(sender)
    jobs: Sequence[Job] = pickle.loads(pickled)  # noqa: S301  code of the client
    return TaskResults(pickle.dumps(function(jobs), pickle.HIGHEST_PROTOCOL), address)


def _refusal(worker: str, sender: Sender) -> Reason | None:
    different = version_differences(worker, dict(software_versions()), dict(sender.versions))
    return different[0] if different else None


def version_differences(worker: str, there: Mapping[str, str | None], here: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return in which software a worker differs from the client."""
    return tuple(
        because(
            "run.version_differs",
            Status.INTERRUPTED,
            worker=worker,
            name=name,
            version=there.get(name) or "none",
            here=version,
        )
        for name, version in here.items()
        if there.get(name) != version
    )


class TaskCancelledError(Exception):
    """The run was interrupted, or gave the task up: nobody needs the results."""


def uncancelled(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield jobs of a task that is running here as long as somebody needs its results.

    Raises:
        TaskCancelledError: the task was cancelled after the last job.
    """
    for job in jobs:
        if _is_cancelled():
            raise TaskCancelledError
        yield job


def _is_cancelled() -> bool:
    """Return whether this thread runs a task of a worker that was cancelled; dask lets the task run."""
    from distributed import get_worker

    try:
        worker = get_worker()
        running = worker.state.tasks.get(worker.get_current_task())
    except (ValueError, KeyError):  # not in a task of a worker
        return False
    return running is None or running.state == "cancelled"


def _prepare(sender: Sender) -> None:
    """Forget what is known of remote files if this is the first task of a run."""
    if _current_run[0] != sender.run:
        _current_run[0] = sender.run
        if "opdiff.core.remote.stores" in sys.modules:
            from opdiff.core.remote.stores import start_run

            start_run()


def dask_setup(_worker: object) -> None:
    """Set up a worker that was started for one run; dask calls it in the worker's process.

    Interrupts are ignored, because the parent handles them: it cancels tasks and ends the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Reduction on the workers of a cluster, which write reduced files and remove the originals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.remote.urls import url_on
from opdiff.run.task_round import BatchWork, Place
from opdiff.run.worker_task import uncancelled
from opdiff.workflows.cluster import is_unread
from opdiff.workflows.reduce.plan import find_ready, remove_drafts
from opdiff.workflows.reduce.work import ReduceResult, reduce_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opdiff.run.cluster import Cluster
    from opdiff.workflows.reduce.plan import FoundFiles, ReducibleFile, SettleTracker, Stamp
    from opdiff.workflows.reduce.watch import ReduceOptions

Result = TypeVar("Result")

# Writing and syncing a file takes about as long as measuring this many bytes.
_MIN_WEIGHT_BYTES = 1 << 18


class Workers(Struct, frozen=True):
    """A tree whose files are reduced on a cluster: on its host, or on all workers if they all have the tree."""

    options: ReduceOptions
    cluster: Cluster

    def remove_drafts(self) -> None:
        """Remove drafts of processes that no longer exist."""
        self._call(remove_drafts, self.options.root)

    def find(self, tracker: SettleTracker, done: Mapping[str, Stamp]) -> FoundFiles:
        """Find files, as `find_ready` does; the clock of a host is compared with the times of its files."""
        return self._call(find_ready, self.options.root, tracker, done)

    def reduce(self, files: Sequence[ReducibleFile]) -> Iterator[tuple[ReducibleFile, ReduceResult]]:
        """Reduce files, and yield results as they are completed."""
        host = self.options.host
        work = BatchWork(
            ReduceBatch(self.options.information, self.options.keep),
            lambda file, reason: ReduceResult(file.path, problem=reason),
            lambda file: max(file.stamp.nbytes, _MIN_WEIGHT_BYTES),
            place=lambda _file: Place(host),
            is_unread=lambda result: is_unread(result.problem),
            repeatable=False,
        )
        for file, result in self.cluster.run(work, files):
            yield file, replace(result, path=url_on(host, result.path))

    def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        host = self.options.host
        return self.cluster.call(host, function, arguments) if host else function(*arguments)


class ReduceBatch(Struct, frozen=True):
    """The function of the tasks of one reduction; its fields are arguments of `reduce_file`."""

    information: tuple[str, ...]
    keep: bool

    def __call__(self, files: Sequence[ReducibleFile]) -> list[ReduceResult]:
        """Reduce the files of a batch; after an interrupt no further files."""
        return [self._reduce(file) for file in uncancelled(files)]

    def _reduce(self, file: ReducibleFile) -> ReduceResult:
        """Reduce a file, unless a worker that was killed has just reduced the file and removed it."""
        result = reduce_file(file, self.information, keep=self.keep)
        if result.problem is None or os.path.lexists(file.path) or not os.path.exists(file.result):
            return result
        return ReduceResult(file.path, file.stamp.nbytes, os.path.getsize(file.result))

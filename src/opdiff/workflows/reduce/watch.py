"""Reduction of a tree, once or continuously: by this process at a limited load, or on the workers of a cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.workflows.cluster import is_unread
from opdiff.workflows.reduce.plan import SettleTracker, find_ready
from opdiff.workflows.reduce.taken import Recovered, recover
from opdiff.workflows.reduce.work import ReduceResult, reduce_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.reduce.plan import ReducibleFile, Stamp

Result = TypeVar("Result")

_MAX_PAUSE_S = 5.0
# Writing and syncing a file takes about as long as measuring this many bytes.
_MIN_WEIGHT_BYTES = 1 << 18


class ReduceOptions(Struct, frozen=True):
    """Options of a reduction.

    Attributes:
        root: the directory.
        information: statistics of each tensor besides minimum and maximum.
        keep: whether to keep the originals.
        watch: whether to continue until stopped.
        settle_s: time since the last write after which a file is finished.
        interval_s: time between scans of the tree while watching.
        load: maximum share of time spent working.
    """

    root: str
    information: tuple[str, ...]
    keep: bool = False
    watch: bool = False
    settle_s: float = 2.0
    interval_s: float = 1.0
    load: float = 0.5


class Stop:
    """A request to stop, made by a signal handler.

    A `threading.Event` would wait for itself forever if its waiting thread is interrupted while it holds the lock.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._requests: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Return whether the request was made."""
        return self._is_set

    def set(self) -> None:
        """Make the request."""
        self._is_set = True
        self._requests.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until the request is made."""
        if not self._is_set:
            with suppress(Empty):
                self._requests.get(timeout=seconds)


class ReduceTotals(Struct):
    """Totals of a reduction so far; problems are counted once per file.

    Attributes:
        files: number of reduced files.
        before: their bytes.
        after: bytes of their reduced forms.
        problems: files that cannot be reduced.
        unfinished: number of files that other processes still write or reduce.
        offline: folders of offline dumps, which are not reduced.
        recovered: files that killed processes had taken.
    """

    files: int = 0
    before: int = 0
    after: int = 0
    problems: dict[str, Reason] = field(default_factory=dict)
    unfinished: int = 0
    offline: tuple[str, ...] = ()
    recovered: Recovered = field(default_factory=Recovered)

    def add(self, result: ReduceResult) -> None:
        """Add the result of a file."""
        if result.in_use:
            return
        if result.problem:
            self.problems[result.path] = result.problem
            return
        self.problems.pop(result.path, None)
        self.files += 1
        self.before += result.before
        self.after += result.after


def reduce_tree(
    options: ReduceOptions, stop: Stop, progress: Callable[[int, int], None], cluster: Cluster | None = None
) -> Iterator[ReduceTotals]:
    """Reduce finished files, by this process or on the workers of a cluster; yield the totals after each pass.

    Without `watch` there is one pass, and a second one if files were not settled in the first. `stop` ends the work
    after the current file; an interrupt does so on a cluster.

    Raises:
        InputError: the root is not a readable directory, or has offline dumps and no others.
        KeyboardInterrupt: after the totals of the interrupted pass.
    """
    totals = ReduceTotals(recovered=recover(options.root))
    tracker = SettleTracker(options.settle_s)
    # Files that were reduced and kept, or cannot be reduced: skipped until they change.
    done: dict[str, Stamp] = {}
    passes = 0
    while not stop.is_set():
        found = find_ready(options.root, tracker, done)
        tracker = found.tracker
        totals.offline = found.offline
        if totals.offline and not (found.waiting or passes):
            raise InputError(totals.offline[0], because("workflows.offline_dumps"))
        reduced = (
            _reduce_here(found.ready, options, stop) if cluster is None else _reduce_on(cluster, found.ready, options)
        )
        total, reached, in_use = sum(file.stamp.nbytes for file in found.ready), 0, 0
        interrupt: KeyboardInterrupt | None = None
        try:
            for file, result in reduced:
                if result.in_use:
                    in_use += 1
                elif result.problem or options.keep:
                    done[file.path] = file.stamp
                totals.add(result)
                reached += file.stamp.nbytes
                progress(reached, total)
        except KeyboardInterrupt as error:
            interrupt = error
        totals.unfinished = len(found.waiting) - len(found.ready) + in_use
        passes += 1
        yield totals
        if interrupt is not None:
            raise interrupt
        if not options.watch and (passes > 1 or not totals.unfinished):
            return
        stop.wait(options.interval_s if options.watch else options.settle_s)


def _reduce_here(
    files: Sequence[ReducibleFile], options: ReduceOptions, stop: Stop
) -> Iterator[tuple[ReducibleFile, ReduceResult]]:
    """Reduce files one after the other, at the load of the options; `stop` ends this after the current file."""
    for file in files:
        if stop.is_set():
            return
        start = time.monotonic()
        yield file, reduce_file(file, options.information, keep=options.keep)
        stop.wait(pause_s(time.monotonic() - start, options.load))


def _reduce_on(
    cluster: Cluster, files: Sequence[ReducibleFile], options: ReduceOptions
) -> Iterator[tuple[ReducibleFile, ReduceResult]]:
    """Reduce files on the workers; yield results as they are completed."""
    from opdiff.run.cluster import BatchWork
    from opdiff.run.worker_task import Each

    work = BatchWork(
        Each(partial(reduce_file, requested=options.information, keep=options.keep)),
        lambda file, reason: ReduceResult(file.path, problem=reason),
        lambda file: max(file.stamp.nbytes, _MIN_WEIGHT_BYTES),
        is_unread=lambda result: is_unread(result.problem),
    )
    return cluster.run(work, files)


def pause_s(busy_s: float, load: float) -> float:
    """Return the pause after some work that limits the work to a share of the time."""
    return min(busy_s * (1 - load) / load, _MAX_PAUSE_S)

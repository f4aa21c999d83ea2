"""Reduction of a tree, once or continuously, at a limited load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from opdiff.workflows.reduce.plan import SettleTracker, find_ready, remove_drafts
from opdiff.workflows.reduce.work import reduce_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from threading import Event

    from opdiff.core.reasons import Reason
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.reduce.plan import FoundFiles, ReducibleFile, Stamp
    from opdiff.workflows.reduce.work import ReduceResult

_MAX_PAUSE_S = 5.0


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
        host: host of a cluster that has the directory; empty for a directory that this machine has.
    """

    root: str
    information: tuple[str, ...]
    keep: bool = False
    watch: bool = False
    settle_s: float = 2.0
    interval_s: float = 1.0
    load: float = 0.5
    host: str = ""


class ReduceTotals(Struct):
    """Totals of a reduction so far; problems are counted once per file."""

    files: int = 0
    before: int = 0
    after: int = 0
    problems: dict[str, Reason] = field(default_factory=dict)
    unfinished: int = 0

    def add(self, result: ReduceResult) -> None:
        """Add the result of a file."""
        if result.problem:
            self.problems[result.path] = result.problem
            return
        self.problems.pop(result.path, None)
        self.files += 1
        self.before += result.before
        self.after += result.after


class Place(Protocol):
    """Location of a tree, and the reduction of its files there."""

    def remove_drafts(self) -> None:
        """Remove drafts of processes that no longer exist."""

    def find(self, tracker: SettleTracker, done: Mapping[str, Stamp]) -> FoundFiles:
        """Find files, as `find_ready` does."""

    def reduce(self, files: Sequence[ReducibleFile]) -> Iterator[tuple[ReducibleFile, ReduceResult]]:
        """Reduce files, and yield results as they are completed."""


class ThisMachine(Struct, frozen=True):
    """A tree whose files this process reduces, one after the other; `stop` ends this after the current file."""

    options: ReduceOptions
    stop: Event

    def remove_drafts(self) -> None:
        """Remove drafts of processes that no longer exist."""
        remove_drafts(self.options.root)

    def find(self, tracker: SettleTracker, done: Mapping[str, Stamp]) -> FoundFiles:
        """Find files, as `find_ready` does."""
        return find_ready(self.options.root, tracker, done)

    def reduce(self, files: Sequence[ReducibleFile]) -> Iterator[tuple[ReducibleFile, ReduceResult]]:
        """Reduce files at the load of the options."""
        for file in files:
            if self.stop.is_set():
                return
            start = time.monotonic()
            yield file, reduce_file(file, self.options.information, keep=self.options.keep)
            self.stop.wait(pause_s(time.monotonic() - start, self.options.load))


def reduce_tree(
    options: ReduceOptions, stop: Event, progress: Callable[[int, int], None], cluster: Cluster | None = None
) -> Iterator[ReduceTotals]:
    """Reduce finished files, by this process or on the workers of a cluster; yield the totals after each pass.

    Without `watch` there is one pass, and a second one if files were not settled in the first. `stop` ends the work
    after the current file; an interrupt does so on a cluster.

    Raises:
        InputError: the root is not a readable directory.
    """
    place = _place(options, stop, cluster)
    place.remove_drafts()
    totals, tracker = ReduceTotals(), SettleTracker(options.settle_s)
    # Files that were reduced and kept, or cannot be reduced: skipped until they change.
    done: dict[str, Stamp] = {}
    passes = 0
    while not stop.is_set():
        found = place.find(tracker, done)
        tracker = found.tracker
        try:
            done |= _reduce_all(found.ready, place, totals, progress, keep=options.keep)
        except KeyboardInterrupt:
            stop.set()
        totals.unfinished = len(found.waiting) - len(found.ready)
        passes += 1
        yield totals
        if not options.watch and (passes > 1 or not totals.unfinished):
            return
        stop.wait(options.interval_s if options.watch else options.settle_s)


def _place(options: ReduceOptions, stop: Event, cluster: Cluster | None) -> Place:
    if cluster is None:
        return ThisMachine(options, stop)
    from opdiff.workflows.reduce.on_workers import Workers

    return Workers(options, cluster)


def _reduce_all(
    ready: Sequence[ReducibleFile],
    place: Place,
    totals: ReduceTotals,
    progress: Callable[[int, int], None],
    *,
    keep: bool,
) -> dict[str, Stamp]:
    """Reduce files and add their results to the totals; return the files that are still there."""
    total = sum(file.stamp.nbytes for file in ready)
    reached = 0
    done = {}
    for file, result in place.reduce(ready):
        totals.add(result)
        if result.problem or keep:
            done[file.path] = file.stamp
        reached += file.stamp.nbytes
        progress(reached, total)
    return done


def pause_s(busy_s: float, load: float) -> float:
    """Return the pause after some work that limits the work to a share of the time."""
    return min(busy_s * (1 - load) / load, _MAX_PAUSE_S)

"""Reduction of a tree, once or continuously, at a limited load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opdiff.workflows.reduce.plan import SettleTracker, find_reducible, remove_drafts
from opdiff.workflows.reduce.work import reduce_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from opdiff.core.reasons import Reason
    from opdiff.workflows.reduce.plan import ReducibleFile, Stamp
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
    """

    root: str
    information: tuple[str, ...]
    keep: bool = False
    watch: bool = False
    settle_s: float = 2.0
    interval_s: float = 1.0
    load: float = 0.5


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


def reduce_tree(options: ReduceOptions, stop: Event, progress: Callable[[int, int], None]) -> Iterator[ReduceTotals]:
    """Reduce finished files; yield the totals after each pass.

    Without `watch` there is one pass, and a second one if files were not settled in the first. `stop` ends the work
    after the current file.

    Raises:
        InputError: the root is not a readable directory.
    """
    remove_drafts(options.root)
    totals, tracker = ReduceTotals(), SettleTracker(options.settle_s)
    # Files that were reduced and kept, or cannot be reduced: skipped until they change.
    done: dict[str, Stamp] = {}
    passes = 0
    while not stop.is_set():
        found = find_reducible(options.root)
        tracker.forget({file.path for file in found})
        waiting = [file for file in found if done.get(file.path) != file.stamp]
        ready = [file for file in waiting if tracker.is_settled(file)]
        _reduce_all(ready, options, stop, totals, done, progress)
        totals.unfinished = len(waiting) - len(ready)
        passes += 1
        yield totals
        if not options.watch and (passes > 1 or not totals.unfinished):
            return
        stop.wait(options.interval_s if options.watch else options.settle_s)


def _reduce_all(
    ready: list[ReducibleFile],
    options: ReduceOptions,
    stop: Event,
    totals: ReduceTotals,
    done: dict[str, Stamp],
    progress: Callable[[int, int], None],
) -> None:
    total = sum(file.stamp.nbytes for file in ready)
    reached = 0
    for file in ready:
        if stop.is_set():
            return
        start = time.monotonic()
        result = reduce_file(file, options.information, keep=options.keep)
        totals.add(result)
        if result.problem or options.keep:
            done[file.path] = file.stamp
        reached += file.stamp.nbytes
        progress(reached, total)
        stop.wait(pause_s(time.monotonic() - start, options.load))


def pause_s(busy_s: float, load: float) -> float:
    """Return the pause after some work that limits it to a share of the time."""
    return min(busy_s * (1 - load) / load, _MAX_PAUSE_S)

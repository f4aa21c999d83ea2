"""Reducing a tree, once or for as long as it grows, without getting in the way of what writes it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.workflows.reduce.plan import Settled, find_candidates, remove_drafts
from opdiff.workflows.reduce.work import reduce_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from opdiff.workflows.reduce.plan import Candidate, Stamp
    from opdiff.workflows.reduce.work import Outcome

_LONGEST_REST_S = 5.0


class ReduceOptions(NamedTuple):
    """What is to be reduced and how.

    Attributes:
        root: the directory.
        information: what is kept of each tensor beside its extremes.
        keep: the originals stay.
        watch: go on until stopped.
        settle_s: for so long nothing must have been written to a file.
        interval_s: how often the tree is looked through while watching.
        load: the share of time that may be spent working; the rest is rest.
    """

    root: str
    information: tuple[str, ...]
    keep: bool = False
    watch: bool = False
    settle_s: float = 2.0
    interval_s: float = 1.0
    load: float = 0.5


@dataclass(slots=True)
class Saved:
    """How much was reduced so far, and what was left alone; a problem counts once however often it is met."""

    files: int = 0
    before: int = 0
    after: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    unfinished: int = 0

    def add(self, outcome: Outcome) -> None:
        """Take in what became of a file."""
        if outcome.problem:
            self.problems[outcome.path] = outcome.problem
            return
        self.problems.pop(outcome.path, None)
        self.files += 1
        self.before += outcome.before
        self.after += outcome.after


def reduce_tree(options: ReduceOptions, stop: Event, progress: Callable[[int, int], None]) -> Iterator[Saved]:
    """Reduce what is finished; yields the totals after each pass, and when it ends.

    Without `watch` one pass is made, and a second one for files that were too young in the first. `stop` ends the work
    after the file under way.

    Raises:
        InputError: the root is not a readable directory.
    """
    remove_drafts(options.root)
    saved, settled = Saved(), Settled(options.settle_s)
    # Files that were reduced and kept, or that cannot be: they are not tried again until they change.
    done: dict[str, Stamp] = {}
    passes = 0
    while not stop.is_set():
        found = find_candidates(options.root)
        settled.forget({candidate.path for candidate in found})
        waiting = [candidate for candidate in found if done.get(candidate.path) != candidate.stamp]
        ready = [candidate for candidate in waiting if settled.is_settled(candidate)]
        _reduce_all(ready, options, stop, saved, done, progress)
        saved.unfinished = len(waiting) - len(ready)
        passes += 1
        yield saved
        if not options.watch and (passes > 1 or not saved.unfinished):
            return
        stop.wait(options.interval_s if options.watch else options.settle_s)


def _reduce_all(
    ready: list[Candidate],
    options: ReduceOptions,
    stop: Event,
    saved: Saved,
    done: dict[str, Stamp],
    progress: Callable[[int, int], None],
) -> None:
    total = sum(candidate.stamp.nbytes for candidate in ready)
    reached = 0
    for candidate in ready:
        if stop.is_set():
            return
        start = time.monotonic()
        outcome = reduce_file(candidate, options.information, keep=options.keep)
        saved.add(outcome)
        if outcome.problem or options.keep:
            done[candidate.path] = candidate.stamp
        reached += candidate.stamp.nbytes
        progress(reached, total)
        stop.wait(rest_s(time.monotonic() - start, options.load))


def rest_s(busy_s: float, load: float) -> float:
    """How long to rest after so much work, so that work is this share of the time."""
    return min(busy_s * (1 - load) / load, _LONGEST_REST_S)

"""Replay on the workers of a cluster: each opens the model and the dump once, and computes operators in batches.

Jobs are operators of the rules. Workers read the model, the rules and the dump themselves.
"""

from __future__ import annotations

import os
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.moved_source import LocalFiles
from opdiff.core.remote.hosts import host_of
from opdiff.pair.groups import group_rules
from opdiff.pair.names import DumpIndex
from opdiff.read.rules import read_rules
from opdiff.run.task_round import BatchWork, Place
from opdiff.workflows.cluster import is_unread, path_for_workers
from opdiff.workflows.compare.input_reader import ClusterReader
from opdiff.workflows.compare.job import Job
from opdiff.workflows.compare.loaded_pairs import LoadedPairs
from opdiff.workflows.compare.placement import localize_jobs, move_side
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.dumped_values import DumpOnly
from opdiff.workflows.replay.golden_values import GoldenValues
from opdiff.workflows.replay.operator_replay import not_replayable
from opdiff.workflows.replay.pipeline import choose, open_replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.graph import RuleOp
    from opdiff.core.replay import Replay
    from opdiff.judge.limits import Limits
    from opdiff.pair.groups import GroupedModel
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.options import ReplayOptions

    Progress = Callable[[int, int], None]
    ReplayOne = Callable[[RuleOp, GoldenValues | None], Replay]

# Computing a small operator takes about as long as measuring this many bytes, so that few operators are a batch.
MIN_WEIGHT_BYTES = 16 << 20


class ReplayJob(Struct, frozen=True):
    """An operator, and the golden values of its tensors: jobs of the comparison, whose data is read by the worker.

    Operators of different graphs may have the same name, and are told apart by their numbers.
    """

    number: int
    operator: RuleOp
    golden: tuple[Job, ...] = ()


class ReplayBatch(Struct, frozen=True):
    """The function of the tasks of one replay.

    Attributes:
        run: identity of the replay; workers keep what they have read for its other tasks.
        options: model, dump and rules, by absolute paths.
        limits: limits of the user.
        has_golden: whether golden values decide, where they are known.
        custom: conversions of the user that golden values need.
    """

    run: str
    options: ReplayOptions
    limits: Limits
    has_golden: bool = False
    custom: Conversions | None = None

    def __call__(self, jobs: Sequence[ReplayJob]) -> list[Replay]:
        """Return the operators of a batch, computed again."""
        replay_one = open_once(self)
        with LocalFiles() as files:
            return [replay_one(job.operator, self._golden(localize_jobs(job.golden, files))) for job in jobs]

    def _golden(self, jobs: Iterable[Job]) -> GoldenValues | None:
        if not self.has_golden:
            return None
        return GoldenValues(LoadedPairs([job.pairing for job in jobs], self.custom))


def replay_on_workers(
    options: ReplayOptions, rules: GroupedModel, progress: Progress, cluster: Cluster, golden: GoldenValues | None
) -> Iterator[Replay]:
    """Replay operators in the order of execution, with results that do not depend on the number of workers.

    Raises:
        UsageError: an operator does not exist, or an engine is not installed on the workers.
        InputError: the workers cannot use the model, the dump or the rule file.
    """
    limits = find_limits(options.limits)
    options = _for_workers(options)
    target = DumpIndex(ClusterReader(cluster).dump(options.target, with_rules=True))
    chosen = choose(rules, options.operators, DumpOnly(rules, target).is_run)
    batch = ReplayBatch(os.urandom(8).hex(), replace(options, operators=()), limits)
    if golden is not None:
        batch = replace(batch, has_golden=True, custom=golden.custom)
    cluster.call(host_of(options.target), check_inputs, (batch,))
    jobs = [ReplayJob(number, operator, _golden_jobs(operator, golden)) for number, operator in enumerate(chosen)]
    work = BatchWork(
        batch,
        lambda job, reason: not_replayable(job.operator, reason),
        lambda job: max(_nbytes(target, job.operator), MIN_WEIGHT_BYTES),
        place=partial(_place, host_of(options.target)),
        move=move_golden,
        is_unread=lambda replayed: is_unread(replayed.reason),
    )
    yield from in_order(cluster.run(work, jobs), len(jobs), progress)


def _golden_jobs(operator: RuleOp, golden: GoldenValues | None) -> tuple[Job, ...]:
    pairings = golden.pairings_of(operator) if golden is not None else ()
    return tuple(Job(number, pairing) for number, pairing in enumerate(pairings))


def _place(host: str, job: ReplayJob) -> Place:
    """Return the host of the dump; golden values of another one move there."""
    others = {host_of(each.pairing.golden.path) for each in job.golden} - {host, ""}
    return Place(host, *sorted(others)[:1])


class Numbered(Protocol):
    """A job with its position among all."""

    @property
    def number(self) -> int:
        """The position."""


NumberedJob = TypeVar("NumberedJob", bound=Numbered)


def in_order(results: Iterator[tuple[NumberedJob, Replay]], count: int, progress: Progress) -> Iterator[Replay]:
    """Yield results in the order of their numbers, each as soon as all before it are there."""
    progress(0, count)
    early: dict[int, Replay] = {}
    following = 0
    for done, (job, result) in enumerate(results, 1):
        progress(done, count)
        early[job.number] = result
        while following in early:
            yield early.pop(following)
            following += 1


def _for_workers(options: ReplayOptions) -> ReplayOptions:
    """Return the options with absolute paths: workers have other current folders."""
    names = "target", "rules", "model", "weights"
    return replace(options, **{name: path_for_workers(getattr(options, name)) for name in names})


def _nbytes(target: DumpIndex, operator: RuleOp) -> int:
    dump = target.find(operator.name)
    tensors = (*dump.inputs.values(), *dump.outputs.values()) if dump is not None else ()
    return sum(tensor.source.nbytes for tensor in tensors)


# On a worker

# The replay that this worker had last, and its function; threads of the worker share them.
_opened: dict[str, ReplayOne] = {}
_lock = Lock()


def move_golden(jobs: Sequence[ReplayJob]) -> list[ReplayJob]:
    """Return jobs with the golden values that are on the host of this process."""
    return [
        replace(job, golden=tuple(move_side(each, host_of(each.pairing.golden.path)) for each in job.golden))
        for job in jobs
    ]


def check_inputs(batch: ReplayBatch) -> None:
    """Open the model and the dump.

    Raises:
        UsageError: an engine is not installed.
        InputError: a file cannot be used.
    """
    open_once(batch)


def open_once(batch: ReplayBatch) -> ReplayOne:
    """Return the function that replays an operator; what it needs is read for the first batch only."""
    with _lock:
        if batch.run not in _opened:
            rules = group_rules(read_rules(batch.options.rules))
            _, replay_one = open_replay(batch.options, rules, batch.limits)
            _opened.clear()
            _opened[batch.run] = replay_one
        return _opened[batch.run]

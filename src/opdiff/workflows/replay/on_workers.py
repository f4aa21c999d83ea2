"""Replay on the workers of a cluster: each worker opens the model once, and computes operators in batches.

    rules, dump ──ReplayInputs──► each worker, once ──┐
    operators ──batches──► workers ──model, tensors───┴──► Replay
                             │ other model, no model, no engine, unreadable tensors
                             └──► workers of other hosts ──► this process

Jobs are operators of the rules. Workers read tensors, and the model if it is the file that this process has, so that
results do not depend on which worker computes an operator.
"""

from __future__ import annotations

import os
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.moved_source import LocalFiles
from opdiff.core.reasons import kind_of
from opdiff.core.remote.urls import host_of
from opdiff.pair.dump_index import DumpIndex
from opdiff.run.task_round import BatchWork, Place
from opdiff.run.worker_task import uncancelled
from opdiff.workflows.cluster import is_unread, path_for_workers
from opdiff.workflows.compare.input_reader import ClusterReader
from opdiff.workflows.compare.job import Job
from opdiff.workflows.compare.lazy_pairs import LazyPairs
from opdiff.workflows.compare.placement import localize_jobs, move_side
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.dumped_values import DumpOnly
from opdiff.workflows.replay.golden_values import GoldenValues
from opdiff.workflows.replay.inputs import read_replay_inputs
from opdiff.workflows.replay.operator_replay import not_replayable
from opdiff.workflows.replay.pipeline import choose, open_replay
from opdiff.workflows.replay.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.graph import RuleOp
    from opdiff.core.pairing import Pairing
    from opdiff.core.replay import Replay
    from opdiff.judge.limits import Limits
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.inputs import ReplayInputs
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.pipeline import ReplayOne

    Progress = Callable[[int, int], None]

# Computing a small operator takes about as long as measuring this many bytes, so that few operators are a batch.
MIN_WEIGHT_BYTES = 16 << 20
_NO_ENGINE = "golden.needs_onnxruntime"

AnyJob = TypeVar("AnyJob")


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
        options: the model, by absolute paths.
        inputs: rules and dump, as the client has read them.
        limits: limits of the user.
        requirements: model and engine of the client.
        has_golden: whether golden values decide, where they are known.
        custom: conversions of the user that golden values need.
    """

    run: str
    options: ReplayOptions
    inputs: ReplayInputs
    limits: Limits
    requirements: Requirements
    has_golden: bool = False
    custom: Conversions | None = None

    def __call__(self, jobs: Sequence[ReplayJob]) -> list[Replay | None]:
        """Return the operators of a batch, computed again; `None` for operators that this process cannot compute."""
        replay_one = open_once(self)
        if replay_one is None:
            return [None] * len(jobs)
        with LocalFiles() as files:
            return [self._replay(replay_one, job, files) for job in uncancelled(jobs)]

    def _replay(self, replay_one: ReplayOne, job: ReplayJob, files: LocalFiles) -> Replay | None:
        if not self.has_golden:
            return replay_one(job.operator, None)
        pairings = [each.pairing for each in localize_jobs(job.golden, files)]
        if not all(map(_is_there, pairings)):
            return None
        return replay_one(job.operator, GoldenValues(LazyPairs(pairings, self.custom)))


def replay_on_workers(
    options: ReplayOptions, progress: Progress, cluster: Cluster, golden: GoldenValues | None
) -> Iterator[Replay]:
    """Replay operators in the order of execution, with results that do not depend on the workers.

    Raises:
        UsageError: an operator does not exist, or an engine is installed neither on workers nor here.
        InputError: the dump or the rule file cannot be used, or neither workers nor this process can use the model.
    """
    limits = find_limits(options.limits)
    options = _for_workers(options)
    inputs = read_replay_inputs(options, partial(ClusterReader(cluster).dump, options.target, with_rules=True))
    target = DumpIndex(inputs.target)
    chosen = choose(inputs.rules, options.operators, DumpOnly(inputs.rules, target).is_run)
    own = Requirements.of(options)
    batch = ReplayBatch(os.urandom(8).hex(), replace(options, operators=()), inputs, limits, own)
    if golden is not None:
        batch = replace(batch, has_golden=True, custom=golden.custom)
    jobs = [ReplayJob(number, operator, _golden_jobs(operator, golden)) for number, operator in enumerate(chosen)]
    work: BatchWork[ReplayJob, Replay | None] = BatchWork(
        batch,
        lambda job, reason: not_replayable(job.operator, reason),
        lambda job: max(_nbytes(target, job.operator), MIN_WEIGHT_BYTES),
        place=partial(_place, host_of(options.target)),
        move=move_golden,
        is_unread=is_unread_there,
        sends_once=True,
    )
    here = _Here(options, inputs, limits, golden)
    results = finished_here(cluster.run(work, jobs), lambda job: here.replay(job.operator))
    yield from in_order(results, len(jobs), progress)


class _Here:
    """Replays operators that no worker could compute; the model is opened for the first such operator."""

    def __init__(
        self, options: ReplayOptions, inputs: ReplayInputs, limits: Limits, golden: GoldenValues | None
    ) -> None:
        self._arguments = options, inputs, limits
        self._golden = golden
        self._replay_one: ReplayOne | None = None

    def replay(self, operator: RuleOp) -> Replay:
        """Compute an operator again.

        Raises:
            UsageError: an engine is not installed.
            InputError: the model cannot be used.
        """
        if self._replay_one is None:
            _, self._replay_one = open_replay(*self._arguments)
        return self._replay_one(operator, self._golden)


def is_unread_there(replayed: Replay | None) -> bool:
    """Return whether a worker could not compute an operator, and another process may."""
    if replayed is None or replayed.reason is None:
        return replayed is None
    return is_unread(replayed.reason) or _NO_ENGINE in kind_of(replayed.reason)


def finished_here(
    results: Iterator[tuple[AnyJob, Replay | None]], replay_here: Callable[[AnyJob], Replay]
) -> Iterator[tuple[AnyJob, Replay]]:
    """Yield results; operators that no worker could compute are computed by this process."""
    for job, result in results:
        yield job, replay_here(job) if result is None or is_unread_there(result) else result


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
    """Yield results in the order of their numbers, each as soon as all earlier results are there."""
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

# The replay that this worker had last, and its function, if it can; threads of the worker share them.
_opened: dict[str, ReplayOne | None] = {}
_lock = Lock()


def move_golden(jobs: Sequence[ReplayJob]) -> list[ReplayJob]:
    """Return jobs with the golden values that are on the host of this process."""
    return [
        replace(job, golden=tuple(move_side(each, host_of(each.pairing.golden.path)) for each in job.golden))
        for job in jobs
    ]


def _is_there(pairing: Pairing) -> bool:
    """Return whether this process sees the files of a pair; values that cannot be read would confirm nothing."""
    tensors = (side.tensor for side in (pairing.target, pairing.golden) if side.tensor is not None)
    try:
        return all(filesystem.exists(path) for tensor in tensors for path in tensor.source.paths)
    except OpdiffError:
        return False


def open_once(batch: ReplayBatch) -> ReplayOne | None:
    """Return the function that replays an operator; `None` without the client's model and engine.

    The model is read for the first batch only.
    """
    with _lock:
        if batch.run not in _opened:
            _opened.clear()
            _opened[batch.run] = _open(batch)
        return _opened[batch.run]


def _open(batch: ReplayBatch) -> ReplayOne | None:
    try:
        if not Requirements.of(batch.options).fulfil(batch.requirements):
            return None
        _, replay_one = open_replay(batch.options, batch.inputs, batch.limits)
    except (InputError, UsageError):
        return None
    return replay_one

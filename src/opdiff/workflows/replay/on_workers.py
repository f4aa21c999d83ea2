"""Replay on the workers of a cluster: each worker opens the model, or units, and computes operators in batches.

    rules, dump ──ReplayInputs──► each worker, once ──┐
    operators ──batches──► workers ──model, tensors───┴──► Replay
                             │ other model, no model, no engine, unreadable tensors
                             └──► workers of other hosts ──► this process

Jobs are operators of the rules. Workers read tensors, and the model if it is the file that this process has, so that
results do not depend on which worker computes an operator. In graph mode, a worker opens the units of its batch if it
can read all their files.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock, local
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.pair.dump_index import DumpIndex
from opdiff.run.cluster import BatchWork
from opdiff.run.worker_task import uncancelled
from opdiff.workflows.cluster import is_unread, path_for_workers
from opdiff.workflows.compare.kept_pairs import LazyPairs
from opdiff.workflows.golden.manifest import hash_files
from opdiff.workflows.golden.onnx_model import read_onnx
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.dumped_values import DumpOnly
from opdiff.workflows.replay.golden_values import GoldenValues
from opdiff.workflows.replay.graph_replay import ChosenOperator, GraphReplayer
from opdiff.workflows.replay.operator_replay import not_replayable
from opdiff.workflows.replay.pipeline import choose, open_replay, read_replay_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.graph import RuleOp
    from opdiff.core.pairing import Pairing
    from opdiff.core.replay import Replay
    from opdiff.judge.limits import Limits
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.golden.manifest import HashedFile
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.pipeline import ReplayInputs, ReplayOne

    Progress = Callable[[int, int], None]

# Computing a small operator takes about as long as measuring this many bytes, so that few operators are a batch.
_MIN_WEIGHT_BYTES = 16 << 20


class Requirements(Struct, frozen=True):
    """Model and engine of one process.

    Attributes:
        model: files of the model with their hashes; empty without a model, or if they cannot be read.
        engine: version of ONNX Runtime; empty if it is not installed.
    """

    model: tuple[HashedFile, ...] = ()
    engine: str = ""

    @classmethod
    def of(cls, options: ReplayOptions) -> Requirements:
        """Return the model and engine of this process."""
        return cls(_hashed_model(options), _engine())

    def fulfil(self, wanted: Requirements) -> bool:
        """Return whether a process with this model and engine computes the same; unknown requirements do not count."""
        pairs = (self.model, wanted.model), (self.engine, wanted.engine)
        return all(not other or own == other for own, other in pairs)


class ReplayJob(Struct, frozen=True):
    """An operator, and the pairs of its tensors, whose golden values are read by the worker.

    Operators of different graphs may have the same name, and are told apart by their numbers.
    """

    number: int
    operator: RuleOp
    golden: tuple[Pairing, ...] = ()


class GraphJob(Struct, frozen=True):
    """An operator of graph mode, and its position among all."""

    number: int
    chosen: ChosenOperator


AnyJob = TypeVar("AnyJob", ReplayJob, GraphJob)


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
        return [self._replay(replay_one, job) for job in uncancelled(jobs)]

    def _replay(self, replay_one: ReplayOne, job: ReplayJob) -> Replay | None:
        if not self.has_golden:
            return replay_one(job.operator, None)
        if not all(map(_is_there, job.golden)):
            return None
        return replay_one(job.operator, GoldenValues(LazyPairs(job.golden, self.custom)))


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
    inputs = read_replay_inputs(options)
    target = DumpIndex(inputs.target)
    chosen = choose(inputs.rules, options.operators, DumpOnly(inputs.rules, target).is_run)
    own = Requirements.of(options)
    batch = ReplayBatch(os.urandom(8).hex(), replace(options, operators=()), inputs, limits, own)
    if golden is not None:
        batch = replace(batch, has_golden=True, custom=golden.custom)
    jobs = [
        ReplayJob(number, operator, golden.pairings_of(operator) if golden is not None else ())
        for number, operator in enumerate(chosen)
    ]
    work: BatchWork[ReplayJob, Replay | None] = BatchWork(
        batch,
        lambda job, reason: not_replayable(job.operator, reason),
        lambda job: max(_nbytes(target, job.operator), _MIN_WEIGHT_BYTES),
        is_unread=_is_unread_there,
        sends_once=True,
    )

    @cache
    def open_here() -> ReplayOne:
        return open_replay(options, inputs, limits)[1]

    yield from _run(cluster, work, jobs, lambda job: open_here()(job.operator, golden), progress)


class GraphReplayBatch(Struct, frozen=True):
    """The function of the tasks of one replay of graph mode: its identity, and the limits of the user."""

    run: str
    limits: Limits

    def __call__(self, jobs: Sequence[GraphJob]) -> list[Replay | None]:
        """Return the replayed operators of a batch; `None` for operators of units that this process cannot read."""
        replayer = _replayer(self)
        return [replayer.replay(job.chosen) if replayer.can_read(job.chosen) else None for job in uncancelled(jobs)]


def replay_units_on_workers(
    chosen: Sequence[ChosenOperator], here: GraphReplayer, progress: Progress, cluster: Cluster
) -> Iterator[Replay]:
    """Replay operators of graph mode, in order, with results that do not depend on the workers.

    Operators that no worker can compute are computed by `here`.
    """
    work: BatchWork[GraphJob, Replay | None] = BatchWork(
        GraphReplayBatch(os.urandom(8).hex(), here.limits),
        lambda job, reason: job.chosen.not_replayable(reason),
        lambda _job: _MIN_WEIGHT_BYTES,
        is_unread=_is_unread_there,
    )
    jobs = [GraphJob(number, item) for number, item in enumerate(chosen)]
    yield from _run(cluster, work, jobs, lambda job: here.replay(job.chosen), progress)


def _run(
    cluster: Cluster,
    work: BatchWork[AnyJob, Replay | None],
    jobs: Sequence[AnyJob],
    replay_here: Callable[[AnyJob], Replay],
    progress: Progress,
) -> Iterator[Replay]:
    """Yield the results in the order of the jobs, each as soon as all earlier results are there.

    Operators that no worker could compute are computed by this process.
    """
    progress(0, len(jobs))
    early: dict[int, Replay] = {}
    following = 0
    for done, (job, found) in enumerate(cluster.run(work, jobs), 1):
        early[job.number] = replay_here(job) if found is None or _is_unread_there(found) else found
        progress(done, len(jobs))
        while following in early:
            yield early.pop(following)
            following += 1


def _is_unread_there(replayed: Replay | None) -> bool:
    """Return whether a worker could not compute an operator, and another process may."""
    return replayed is None or is_unread(replayed.reason)


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
# In graph mode each thread has its own: texts and units are opened one after the other.
_current = local()


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


def _replayer(batch: GraphReplayBatch) -> GraphReplayer:
    if getattr(_current, "run", "") != batch.run:
        _current.run, _current.replayer = batch.run, GraphReplayer(batch.limits)
    found: GraphReplayer = _current.replayer
    return found


def _hashed_model(options: ReplayOptions) -> tuple[HashedFile, ...]:
    if not options.model:
        return ()
    try:
        if options.weights:
            return hash_files((options.model, options.weights))
        model = read_onnx(options.model)
        return hash_files((model.path, *(os.path.join(model.folder, name) for name in model.external_files)))
    except (InputError, OSError):
        return ()


def _engine() -> str:
    try:
        return version("onnxruntime")
    except PackageNotFoundError:
        return ""

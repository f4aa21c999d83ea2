"""Replay of graph mode on the workers of a cluster: each worker opens the units of its batch.

Units of which a worker cannot read all files are computed on other hosts, or by this process.
"""

from __future__ import annotations

import os
from threading import local
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.run.task_round import BatchWork, Place
from opdiff.run.worker_task import uncancelled
from opdiff.workflows.replay.graph_replay import ChosenOperator, GraphReplayer, host_of_unit, not_replayable
from opdiff.workflows.replay.on_workers import MIN_WEIGHT_BYTES, finished_here, in_order, is_unread_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.replay import Replay
    from opdiff.judge.limits import Limits
    from opdiff.run.cluster import Cluster

    Progress = Callable[[int, int], None]


class GraphJob(Struct, frozen=True):
    """An operator, and its position among all."""

    number: int
    chosen: ChosenOperator


class GraphReplayBatch(Struct, frozen=True):
    """The function of the tasks of one replay: its identity, and the limits of the user."""

    run: str
    limits: Limits

    def __call__(self, jobs: Sequence[GraphJob]) -> list[Replay | None]:
        """Return the replayed operators of a batch; `None` for operators of units that this process cannot read."""
        replayer = _replayer(self)
        return [
            replayer.replay_chosen(job.chosen) if replayer.can_read(job.chosen) else None for job in uncancelled(jobs)
        ]


def replay_on_workers(
    chosen: Sequence[ChosenOperator], limits: Limits, progress: Progress, cluster: Cluster
) -> Iterator[Replay]:
    """Replay operators, in order, with results that do not depend on the workers."""
    work: BatchWork[GraphJob, Replay | None] = BatchWork(
        GraphReplayBatch(os.urandom(8).hex(), limits),
        lambda job, reason: not_replayable(job.chosen.unit, job.chosen.name, "", reason),
        lambda _job: MIN_WEIGHT_BYTES,
        place=lambda job: Place(host_of_unit(job.chosen.own) if job.chosen.own is not None else ""),
        is_unread=is_unread_there,
    )
    jobs = [GraphJob(number, item) for number, item in enumerate(chosen)]
    here = GraphReplayer(limits)
    results = finished_here(cluster.run(work, jobs), lambda job: here.replay_chosen(job.chosen))
    yield from in_order(results, len(jobs), progress)


# On a worker: the replay that this thread had last, and its open texts
_current = local()


def _replayer(batch: GraphReplayBatch) -> GraphReplayer:
    if getattr(_current, "run", "") != batch.run:
        _current.run, _current.replayer = batch.run, GraphReplayer(batch.limits)
    found: GraphReplayer = _current.replayer
    return found

"""Jobs on the hosts whose disks have their data. If the sides are on two hosts, the smaller side is sent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.moved_source import move_source
from opdiff.core.remote.urls import host_of
from opdiff.run.task_round import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.dump import SideTensor
    from opdiff.core.moved_source import LocalFiles
    from opdiff.core.source import Source
    from opdiff.workflows.compare.job import Job


def place_of(job: Job) -> Place:
    """Return where a job is measured."""
    target, golden = job.pairing.target, job.pairing.golden
    hosts = host_of(target.path), host_of(golden.path)
    if "" in hosts or hosts[0] == hosts[1]:
        return Place(hosts[0] or hosts[1])
    return Place(*hosts) if target.nbytes >= golden.nbytes else Place(*hosts[::-1])


def move_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs with the data of the side that is on the host of this process, for the host of the other side."""
    return [move_side(job, place_of(job).second_host) for job in jobs]


def move_side(job: Job, host: str) -> Job:
    """Return a job with the data that is on a host, the host of this process."""
    return _with_sources(job, partial(move_source, host=host))


def localize_jobs(jobs: Sequence[Job], files: LocalFiles) -> list[Job]:
    """Return jobs whose data is read from files of this host."""
    return [_with_sources(job, files.localize) for job in jobs]


def _with_sources(job: Job, change: Callable[[Source], Source]) -> Job:
    if not host_of(job.pairing.target.path) and not host_of(job.pairing.golden.path):
        return job
    target, golden = (_with_source(side, change) for side in (job.pairing.target, job.pairing.golden))
    return replace(job, pairing=replace(job.pairing, target=target, golden=golden))


def _with_source(side: SideTensor, change: Callable[[Source], Source]) -> SideTensor:
    if side.tensor is None:
        return side
    return replace(side, tensor=replace(side.tensor, source=change(side.tensor.source)))

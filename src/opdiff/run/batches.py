"""Batches of jobs for a cluster, where every task costs milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Job = TypeVar("Job")

# A task of this size takes tenths of a second. The scheduler needs about two milliseconds for a task.
MAX_BATCH_BYTES = 256 << 20
MAX_BATCH_JOBS = 2000
# Below this size, dividing tasks costs more time than it saves.
_MIN_BATCH_BYTES = 16 << 20
_MIN_BATCH_JOBS = 25
# Batches for each thread, so that all threads end at about the same time.
_BATCHES_PER_THREAD = 4


def make_batches(jobs: Sequence[Job], nbytes: Callable[[Job], int], threads: int) -> list[tuple[Job, ...]]:
    """Return batches of neighbouring jobs, batches with most data first. A large job has a batch of its own."""
    share = max(_BATCHES_PER_THREAD * threads, 1)
    max_bytes = min(max(sum(map(nbytes, jobs)) // share, _MIN_BATCH_BYTES), MAX_BATCH_BYTES)
    max_jobs = min(max(len(jobs) // share, _MIN_BATCH_JOBS), MAX_BATCH_JOBS)
    batches = list(_divide(jobs, nbytes, max_bytes, max_jobs))
    return sorted(batches, key=lambda batch: -sum(map(nbytes, batch)))


def _divide(
    jobs: Sequence[Job], nbytes: Callable[[Job], int], max_bytes: int, max_jobs: int
) -> Iterator[tuple[Job, ...]]:
    batch: list[Job] = []
    size = 0
    for job in jobs:
        if batch and (size + nbytes(job) > max_bytes or len(batch) >= max_jobs):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(job)
        size += nbytes(job)
    if batch:
        yield tuple(batch)

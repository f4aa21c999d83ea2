"""Batches for a cluster: every job once, and no batch with too much data or too many jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.run.cluster import MAX_BATCH_BYTES, MAX_BATCH_JOBS, make_batches


@given(st.lists(st.integers(0, 1 << 30), max_size=50), st.integers(0, 64))
def test_every_job_is_in_one_batch_of_limited_size(sizes: list[int], threads: int) -> None:
    batches = make_batches(range(len(sizes)), lambda job: sizes[job], threads)
    assert sorted(job for batch in batches for job in batch) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or sum(sizes[job] for job in batch) <= MAX_BATCH_BYTES
    amounts = [sum(sizes[job] for job in batch) for batch in batches]
    assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize(
    ("count", "nbytes", "threads", "expected"),
    [
        (0, 1, 2, 0),
        (25, 1000, 2, 1),
        (100_000, 1000, 2, 100_000 // MAX_BATCH_JOBS),
        (1000, 1000, 2, 8),
        (40, 64 << 20, 2, 10),
        (8, 64 << 20, 2, 8),
        (8, 1 << 30, 2, 8),
    ],
    ids=["none", "few small", "many small", "small for all threads", "large", "large for all threads", "very large"],
)
def test_number_of_batches(count: int, nbytes: int, threads: int, expected: int) -> None:
    assert len(make_batches(range(count), lambda _: nbytes, threads)) == expected

"""Equal results for any number of threads, any order of jobs, read or mapped files; and cancellation."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import Stored, any_codes, job, needs_kernel, pair_of, run
from opdiff.core import dtypes
from opdiff.core.strides import StridedView
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel import results as native_results
from opdiff.measure.kernel.results import Failure, measure_all

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

pytestmark = needs_kernel

FLOAT16, FLOAT32, FLOAT64 = dtypes.FLOAT16, dtypes.FLOAT32, dtypes.FLOAT64


def arrays(name: str, size: int, x: DType, y: DType) -> tuple[Stored, Stored]:
    target, golden = pair_of(name, np.random.default_rng(size), size, x, y)
    return Stored(target, x), Stored(golden, y)


@cache
def pairs() -> tuple[tuple[Stored, Stored, tuple[int, ...]], ...]:
    """Return small, empty and large pairs; a large one is tiled."""
    small = [
        (*arrays(name, size, x, y), (size,))
        for name, size, x, y in (
            ("normal", 10, FLOAT32, FLOAT32),
            ("non_finite", 5000, FLOAT16, FLOAT32),
            ("huge_range", 30_000, FLOAT32, FLOAT64),
            ("zeros", 1, dtypes.INT8, dtypes.INT64),
            ("normal", 1_100_000, FLOAT16, dtypes.INT8),
            ("constant", 0, FLOAT32, FLOAT32),
            ("far_from_zero", 7777, FLOAT64, FLOAT64),
        )
    ]
    shape = (1, 70, 310, 300)
    tiled = any_codes(np.random.default_rng(1), dtypes.INT8, 1, 5, 310, 300, 16)
    axes = StridedView(tiled.shape).transpose(0, 1, 4, 2, 3).reshape(1, 80, 310, 300)[:, :70].split_axes()
    golden = any_codes(np.random.default_rng(2), dtypes.INT16, *shape)
    large = [
        (*arrays("far_from_zero", 3_000_000, FLOAT64, FLOAT32), (3000, 1000)),
        (*arrays("non_finite", 5_500_000, FLOAT16, FLOAT32), (2, 2_750_000)),
        (Stored(tiled, dtypes.INT8, tuple(axes)), Stored(golden, dtypes.INT16), shape),
    ]
    return (*small, *large)


def results_as_strings(threads: int, order: AnyArray | None = None) -> list[str]:
    """Return the results as strings, since NaN is not equal to itself, in the order of `pairs`."""
    indices = range(len(pairs())) if order is None else order.tolist()
    found = run([job(*pairs()[index]) for index in indices], threads)
    assert not any(isinstance(result, Failure) for result in found)
    texts = dict(zip(indices, map(repr, found), strict=True))
    return [texts[index] for index in range(len(pairs()))]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads(threads: int) -> None:
    alone = results_as_strings(1)
    for _ in range(2):
        assert results_as_strings(threads) == alone


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_the_jobs(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(pairs()))
    assert results_as_strings(2, order) == results_as_strings(1)


def test_job_alone_has_the_same_result() -> None:
    together = results_as_strings(2)
    for text, pair in zip(together, pairs(), strict=True):
        assert repr(run([job(*pair)], 3)[0]) == text


def in_files(folder: Path, offset: int) -> list[native.NativeJob]:
    jobs = []
    for number, (target, golden, shape) in enumerate(pairs()):
        sides = []
        for name, side in (("target", target), ("golden", golden)):
            path = folder / f"{number}.{name}"
            path.write_bytes(bytes(offset) + side.codes.tobytes() + b"more")
            sides.append(native.Operand(str(path), offset, side.codes.nbytes, side.dtype, side.axes))
        jobs.append(native.NativeJob(sides[0], sides[1], shape))
    return jobs


@pytest.mark.parametrize("offset", [0, 77, 70_000])
def test_files_give_the_same_results_as_memory(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read or mapped, at any offset, with and without early release of mapped pages."""
    jobs = in_files(tmp_path, offset)
    assert [repr(result) for result in run(jobs, 2)] == results_as_strings(1)
    monkeypatch.setattr(native, "_MAX_RESIDENT", 1)
    assert [repr(result) for result in run(jobs, 2)] == results_as_strings(1)


# Stopping


def large(count: int) -> list[native.NativeJob]:
    return [job(*pairs()[-1])] * count


def test_progress_grows_up_to_all_bytes() -> None:
    progress: list[int] = []
    jobs = large(8)
    measure_all(jobs, 2, progress.append, with_kl=True)
    assert progress == sorted(progress)
    assert progress[-1] == sum(one.target.nbytes + one.golden.nbytes for one in jobs)


class StopError(Exception):
    """Raised by the progress callback."""


def test_exception_of_the_caller_stops_the_threads() -> None:
    def stop(done: int) -> None:
        seen.append(done)
        raise StopError

    seen: list[int] = []
    jobs = large(400)
    with pytest.raises(StopError):
        measure_all(jobs, 2, stop, with_kl=True)
    assert len(seen) == 1
    assert seen[0] < sum(one.target.nbytes + one.golden.nbytes for one in jobs)
    # The next call works as usual.
    assert results_as_strings(2) == results_as_strings(1)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_batch_that_is_cancelled_before_it_begins(threads: int) -> None:
    library = native.find_library()
    assert library is not None
    jobs = [job(*pair) for pair in pairs()]
    packed = native.pack(jobs, 1)
    results = (ctypes.c_int64 * (native.ROW // 8 * len(jobs)))()
    batch = packed.batch(ctypes.addressof(results), threads)
    batch.cancelled = 1
    assert library.od_measure(ctypes.byref(batch)) == 0
    assert {results[index] for index in range(0, len(results), native.ROW // 8)} == {native_results._NOT_MEASURED}
    assert batch.done == 0

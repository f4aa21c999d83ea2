"""The kernel makes the same metrics of its sums as the definition does, bit for bit.

`run` of `measure.kernels` holds them equal, so every test of the kernel does; here are the cases that are rare there.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.arrays import codes
from measure.kernels import DATA, DISTINCT, REAL, Stored, job, needs_kernel, pair_of, run, to_codes
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel import results as native_results
from opdiff.measure.kernel.results import Failure, unpack_metrics
from opdiff.measure.metrics import COMPLEX, EMPTY, SCALAR, ZERO_GOLDEN, ZERO_TARGET, metrics_of

if TYPE_CHECKING:
    from opdiff.core.comparison import Metrics
    from opdiff.core.dtypes import DType
    from opdiff.measure.sums import Sums

pytestmark = needs_kernel

FLOAT32, FLOAT64, INT64, UINT64 = dtypes.FLOAT32, dtypes.FLOAT64, dtypes.INT64, dtypes.UINT64


def stored(values: list[float] | list[int], dtype: DType) -> Stored:
    return Stored(np.array(values, dtype.storage), dtype)


def metrics(target: Stored, golden: Stored) -> Metrics:
    """What the kernel makes of two arrays, after that was found equal to the definition."""
    jobs = [job(target, golden)] if target.codes.size else [native.NativeJob(target.operand(), golden.operand(), (0,))]
    run(jobs)
    call = native.Call(jobs, 1, with_kl=True)
    call.wait(lambda _: None)
    (found,) = unpack_metrics(call)
    assert not isinstance(found, Failure)
    return found


@pytest.fixture
def by_definition(monkeypatch: pytest.MonkeyPatch) -> list[Sums]:
    """The sums of the pairs that the kernel left to the definition."""
    left: list[Sums] = []

    def spy(sums: Sums, kl: float | None, *, is_scalar: bool) -> Metrics:
        left.append(sums)
        return metrics_of(sums, kl, is_scalar=is_scalar)

    monkeypatch.setattr(native_results, "metrics_of", spy)
    return left


# Short tensors: most of what can be missing is missing in them


NUMBERS = [0.0, 1.0, -3.0, 1e-20, 7.5, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("x", DISTINCT, ids=str)
def test_all_pairs_of_special_numbers(x: DType) -> None:
    for y, second in product(DISTINCT, ([], [0.0], [2.0], [np.inf])):
        pairs = [(of([a, *second], x), of([b, *second], y)) for a, b in product(NUMBERS, NUMBERS)]
        run([job(*sides) for sides in pairs])


def of(values: list[float], dtype: DType) -> Stored:
    """The nearest codes; those of a type without a sign are of the magnitudes, none of which is infinite."""
    array = np.array(values)
    if dtype is dtypes.FLOAT8_E8M0:
        array = np.nan_to_num(np.abs(array), nan=np.nan, posinf=2.0**127) + 2.0**-100
    return Stored(to_codes(array, dtype), dtype)


@given(st.data(), st.sampled_from(REAL), st.sampled_from(REAL), st.integers(1, 4), st.booleans())
def test_short_tensors_of_any_codes(data: st.DataObject, x: DType, y: DType, size: int, with_kl: bool) -> None:
    target, golden = Stored(data.draw(codes(x, size)), x), Stored(data.draw(codes(y, size)), y)
    run([job(target, golden)], with_kl=with_kl)


@given(st.lists(st.floats(-(2.0**470), 2.0**470), min_size=1, max_size=5), st.sampled_from([0.0, 2.0**-50, 0.1]))
def test_numbers_of_any_size(values: list[float], noise: float) -> None:
    run([job(stored([value * (1 + noise) for value in values], FLOAT64), stored(values, FLOAT64))])


def test_notes() -> None:
    zeros, some = stored([0, 0], FLOAT32), stored([1, 2], FLOAT32)
    assert metrics(some, some).notes == metrics(zeros, zeros).notes == ()
    assert metrics(zeros, some).notes == (ZERO_TARGET,)
    assert metrics(some, zeros).notes == (ZERO_GOLDEN,)
    assert metrics(stored([1], FLOAT32), stored([2], FLOAT32)).notes == (SCALAR,)
    assert metrics(stored([], FLOAT32), stored([], FLOAT32)).notes == (EMPTY,)


# Integers stay exact


@pytest.mark.parametrize("dtype", [dtype for dtype in DISTINCT if dtype.kind is not Kind.FLOAT], ids=str)
def test_integers_are_shown_as_integers(dtype: DType) -> None:
    found = metrics(stored([0, 1, 1], dtype), stored([0, 0, 1], dtype))
    shown = found.max_absolute_error, found.max_ulp, found.worst_target, found.worst_golden, found.target_max
    assert [(type(number), number) for number in shown] == [(int, 1), (int, 1), (int, 1), (int, 0), (int, 1)]
    beside = metrics(stored([0, 1, 1], dtype), stored([0.5, 0, 1], FLOAT32))
    assert [type(number) for number in (beside.max_absolute_error, beside.worst_target, beside.worst_golden)] == [
        float,
        int,
        float,
    ]


@pytest.mark.parametrize("size", [2**52, 2**52 + 1, 2**53 + 1, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("types", [(INT64, INT64), (INT64, UINT64), (UINT64, UINT64), (INT64, dtypes.INT32)], ids=str)
def test_large_integers(types: tuple[DType, DType], size: int, by_definition: list[Sums]) -> None:
    x, y = types
    found = metrics(stored([size, 3, 5], x), stored([7, 3, 5], y))
    assert (found.max_absolute_error, found.worst_target, found.target_max) == (size - 7, size, size)
    assert len(by_definition) == (2 if size > 2**52 else 0)


def test_integers_farther_apart_than_an_integer_of_64_bits_tells() -> None:
    found = metrics(stored([-(2**63), 0], INT64), stored([2**64 - 1, 1], UINT64))
    assert found.max_absolute_error == found.max_ulp == 2**64 + 2**63 - 1
    assert (found.worst_target, found.worst_golden) == (-(2**63), 2**64 - 1)


# Who makes them


@pytest.mark.parametrize("name", DATA)
def test_the_kernel_leaves_nothing_usual_to_the_definition(name: str, by_definition: list[Sums]) -> None:
    rng = np.random.default_rng(5)
    pairs = [(x, y, *pair_of(name, rng, 100, x, y)) for x, y in product(DISTINCT, DISTINCT)]
    run([job(Stored(a, x), Stored(b, y)) for x, y, a, b in pairs])
    for sums in by_definition:
        assert isinstance(sums.target.maximum, int)
        assert isinstance(sums.golden.maximum, int)
        assert max(sums.target.largest, sums.golden.largest) > 2**52


def test_complex_numbers(by_definition: list[Sums]) -> None:
    one = Stored(np.array([1 + 2j], "<c8"), dtypes.COMPLEX64)
    two = Stored(np.array([1 + 2j, 5], "<c8"), dtypes.COMPLEX64)
    other = Stored(np.array([1 + 2j, 5 + 1j], "<c8"), dtypes.COMPLEX64)
    assert metrics(one, one).notes == (SCALAR, COMPLEX)
    found = metrics(two, other)
    assert (found.notes, found.worst_index, found.count) == ((COMPLEX,), 1, 4)
    assert len(by_definition) == 4

"""The native kernel equals the reference: every pair of types, special numbers, unusual memory, sizes around blocks."""

from __future__ import annotations

import ctypes.util
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.arrays import codes, in_memory
from measure.kernels import (
    DATA,
    DECODED_TYPES,
    REAL_TYPES,
    Stored,
    any_codes,
    assert_kernels_agree,
    by_kernel,
    by_numpy,
    job,
    measured,
    needs_kernel,
    pair_of,
    run,
    to_codes,
)
from opdiff.core import dtypes
from opdiff.core.errors import UsageError
from opdiff.measure.kernel import library as native
from opdiff.measure.sums import Extreme

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

pytestmark = needs_kernel

CLASSES = [*DATA, "any_bits"]
SIZES = [1, 31, 63, 64, 65, 1023, 1024, 1025, 3000]
FLOAT32, FLOAT16, FLOAT64 = dtypes.FLOAT32, dtypes.FLOAT16, dtypes.FLOAT64
INT64, UINT64 = dtypes.INT64, dtypes.UINT64


# Every pair of types


@given(st.data(), st.sampled_from(REAL_TYPES), st.sampled_from(REAL_TYPES), st.integers(0, 40))
def test_any_codes(data: st.DataObject, x: DType, y: DType, size: int) -> None:
    assert_kernels_agree(data.draw(codes(x, size)), x, data.draw(codes(y, size)), y)


@pytest.mark.parametrize("x", DECODED_TYPES, ids=str)
def test_every_class_of_data_in_every_pair_of_types(x: DType) -> None:
    rng = np.random.default_rng(DECODED_TYPES.index(x))
    sizes = iter(SIZES * len(DECODED_TYPES) * len(CLASSES))
    for y, name in product(DECODED_TYPES, CLASSES):
        target, golden = pair_of(name, rng, next(sizes), x, y)
        assert_kernels_agree(target, x, golden, y)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_data_in_every_size(name: str, size: int) -> None:
    rng = np.random.default_rng(size)
    for x, y in ((FLOAT32, FLOAT32), (FLOAT16, FLOAT32), (dtypes.BFLOAT16, FLOAT64), (dtypes.INT8, dtypes.UINT64)):
        target, golden = pair_of(name, rng, size, x, y)
        assert_kernels_agree(target, x, golden, y)


@pytest.mark.parametrize("x", DECODED_TYPES, ids=str)
def test_a_tensor_and_itself(x: DType) -> None:
    array = any_codes(np.random.default_rng(3), x, 2500)
    assert_kernels_agree(array, x, array, x)


@pytest.mark.parametrize(
    "dtype", [dtype for dtype in dtypes.BY_NAME.values() if dtype.bits in (8, 16) and dtype in DECODED_TYPES], ids=str
)
def test_every_code(dtype: DType) -> None:
    """All codes of a type against themselves in another order, and against zeros."""
    array = np.arange(1 << dtype.bits, dtype=f"<u{dtype.bits // 8}").view(dtype.storage)
    assert_kernels_agree(array, dtype, np.roll(array, 7), dtype)
    assert_kernels_agree(array, dtype, np.zeros(array.size, "<f4"), FLOAT32)


COMPLEX = [dtypes.COMPLEX32, dtypes.COMPLEX64, dtypes.COMPLEX128]


@pytest.mark.parametrize(("x", "y"), list(product(COMPLEX, COMPLEX)), ids=str)
@pytest.mark.parametrize("size", [1, 513, 2000])
def test_complex_numbers(x: DType, y: DType, size: int) -> None:
    rng = np.random.default_rng(size)
    parts = {dtypes.COMPLEX32: FLOAT16, dtypes.COMPLEX64: FLOAT32, dtypes.COMPLEX128: FLOAT64}
    values = rng.standard_normal(2 * size)
    target = to_codes(values + 1e-3 * rng.standard_normal(2 * size), parts[x]).view(x.storage)
    golden = to_codes(values, parts[y]).view(y.storage)
    assert_kernels_agree(target, x, golden, y)


def test_types_without_elements() -> None:
    for x, y in product(DECODED_TYPES, DECODED_TYPES):
        assert_kernels_agree(np.zeros(0, x.storage), x, np.zeros(0, y.storage), y)


# Memory


@pytest.mark.parametrize("size", [1, 64, 1024, 1500, 5000])
@pytest.mark.parametrize("x", DECODED_TYPES, ids=str)
def test_odd_addresses(x: DType, size: int) -> None:
    rng = np.random.default_rng(size)
    target, golden = any_codes(rng, x, size), to_codes(rng.standard_normal(size), FLOAT32)
    moved = in_memory(target, "misaligned"), in_memory(golden, "misaligned")
    assert moved[1].ctypes.data % 2 == 1
    results_as_strings = [by_kernel(Stored(a, x), Stored(b, FLOAT32)) for a, b in (moved, (target, golden))]
    # Compared as strings, since NaN is not equal to itself.
    assert repr(results_as_strings[0]) == repr(results_as_strings[1])


# Large tensors: several units, several threads


@pytest.mark.parametrize(
    ("x", "y"),
    [(FLOAT32, FLOAT32), (FLOAT16, FLOAT64), (dtypes.INT64, dtypes.INT32), (dtypes.FLOAT8_E5M2, dtypes.BFLOAT16)],
    ids=str,
)
@pytest.mark.parametrize("name", ["normal", "non_finite"])
def test_more_elements_than_one_thread_takes(x: DType, y: DType, name: str) -> None:
    rng = np.random.default_rng(8)
    size = (2 << 20) + 1027
    target, golden = pair_of(name, rng, size, x, y)
    assert_kernels_agree(target, x, golden, y, threads=2)


# Extremes


@pytest.mark.parametrize("x", [FLOAT32, FLOAT64, dtypes.INT32, dtypes.INT64, FLOAT16], ids=str)
@pytest.mark.parametrize(("first", "second"), [(0, 1), (5, 5000), (1023, 1024), (3, 1_500_000), (2047, 1_048_576)])
def test_worst_of_equal_errors_is_the_first(x: DType, first: int, second: int) -> None:
    golden = np.full(1_600_000, 8, x.storage)
    target = golden.copy()
    target[[first, second]] = 12, 4
    sums, _ = measured(by_kernel(Stored(target, x), Stored(golden, x), threads=2))
    for extreme in (sums.worst, sums.worst_relative, sums.worst_ulps):
        assert extreme is not None
        assert (extreme.index, extreme.target, extreme.golden) == (first, 12, 8)
    assert sums.unequal == 2


def test_sides_are_not_swapped() -> None:
    target, golden = np.array([1, 2, np.nan], "<f4"), np.array([1, 4, -np.inf], "<f4")
    sums, _ = measured(by_kernel(Stored(target, FLOAT32), Stored(golden, FLOAT32)))
    assert (sums.target.nans, sums.golden.nans, sums.target.infs, sums.golden.infs) == (1, 0, 0, 1)
    assert (sums.golden.negative_infs, sums.golden.first_inf, sums.target.first_nan) == (1, 2, 2)
    assert (sums.target.maximum, sums.golden.maximum) == (2.0, 4.0)
    assert sums.pairs.errors == -2.0
    assert sums.worst == Extreme(2.0, 1, 2.0, 4.0)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_every_bin_of_both_histograms(dtype: DType) -> None:
    """One error in the middle of each bin, and one on each edge."""
    for start in (1.0, 1.5):
        errors = start * 2.0 ** np.arange(-40, 20)
        golden = np.ones(len(errors), dtype.storage)
        assert_kernels_agree((1 + errors).astype(dtype.storage), dtype, golden, dtype)
        small = np.full(len(errors), 2.0**-20, dtype.storage)
        assert_kernels_agree((small + errors).astype(dtype.storage), dtype, small, dtype)


def test_results_beyond_single_precision() -> None:
    """Sums and quotients beyond float32 in a block of float32 elements."""
    rng = np.random.default_rng(11)
    golden = rng.standard_normal(3000).astype("<f4")
    target = (golden * (1 + 1e-3 * rng.standard_normal(3000))).astype("<f4")
    golden[[100, 2100]] = 3e38, 1e-15
    target[[100, 1500, 2100]] = -3e38, 3.4e38, 3e38
    assert_kernels_agree(target, FLOAT32, golden, FLOAT32)


def on_the_edge() -> tuple[AnyArray, AnyArray]:
    """Pairs whose relative error is 0.001 or 0.005 in single precision, and less than that in double precision."""
    rng = np.random.default_rng(12)
    golden = rng.uniform(1, 2, 4_000_000).astype("<f4")
    edge = rng.choice([0.001, 0.005], golden.size)
    target = (golden * (1 + edge)).astype("<f4")
    exact = (target.astype("f8") - golden) / golden
    rounded = ((target - golden) / golden).astype("<f4")
    kept = (rounded == edge.astype("<f4")) & (exact < edge)
    return target[kept][:50], golden[kept][:50]


@pytest.mark.parametrize("with_large", [False, True], ids=["single precision", "double precision"])
def test_errors_are_counted_in_single_precision(with_large: bool) -> None:
    """Errors of a block that is summed in double precision are counted as in any other block."""
    target, golden = on_the_edge()
    assert target.size > 10
    if with_large:
        target, golden = np.append(target, np.float32(3.4e38)), np.append(golden, np.float32(-3.4e38))
    assert_kernels_agree(target, FLOAT32, golden, FLOAT32)


def test_errors_are_ranked_in_single_precision() -> None:
    """Two relative errors that are equal in single precision only; the first one is smaller."""
    rng = np.random.default_rng(13)
    golden = rng.uniform(1, 2, 300_000).astype("<f4")
    target = (golden * rng.uniform(5, 6, 300_000)).astype("<f4")
    exact, rounded = (target - golden).astype("f8") / golden, (target - golden) / golden
    order = np.lexsort((exact, rounded))
    ties = np.flatnonzero((np.diff(rounded[order]) == 0) & (np.diff(exact[order]) > 0))
    assert ties.size
    for tie in ties[:10]:
        both = order[[tie, tie + 1]]
        x, y = target[both], golden[both]
        for large in (0.0, 3.4e38):
            # Its error is smaller than the two, and its sums need double precision.
            end = np.float32(large)
            assert_kernels_agree(np.append(x, -end), FLOAT32, np.append(y, end), FLOAT32)


def test_small_errors_of_large_numbers() -> None:
    golden = np.array([1e20, -3e20, 1e-3, 2e-3, 5e-3], "<f4")
    target = golden.copy()
    target[2:] *= np.float32(1.125)
    assert_kernels_agree(target, FLOAT32, golden, FLOAT32)
    sums, _ = measured(by_kernel(Stored(target, FLOAT32), Stored(golden, FLOAT32)))
    assert sums.pairs.errors == pytest.approx(1e-3, rel=1e-6)


def test_small_numbers_next_to_large_ones_that_cancel() -> None:
    """The sum of the target is a number that float64 loses next to larger ones that cancel."""
    target, golden = np.zeros(16, "<u4"), np.zeros(16, "<u4")
    target[[10, 12, 13]] = 1, 0x0F800000, 0x8F800000
    golden[11] = 1
    assert_kernels_agree(target.view("<f4"), FLOAT32, golden.view("<f4"), FLOAT32)


def test_deviations_of_pairs_ignore_numbers_paired_with_infinities() -> None:
    target, golden = np.zeros(9, "<f4"), np.zeros(9, "u1")
    target[3], golden[3] = np.inf, 13
    assert_kernels_agree(target, FLOAT32, golden, dtypes.FLOAT8_E8M0)


# Integers stay exact


@pytest.mark.parametrize("size", [1, 2**52, 2**53 + 1, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("types", [(INT64, INT64), (INT64, UINT64), (UINT64, UINT64), (INT64, dtypes.INT32)], ids=str)
def test_extremes_of_integers(types: tuple[DType, DType], size: int) -> None:
    x, y = types
    assert_kernels_agree(np.array([size, 3, 5], x.storage), x, np.array([7, 3, 5], y.storage), y)


def test_differences_of_integers_beyond_64_bits() -> None:
    target, golden = np.array([-(2**63), 0], "<i8"), np.array([2**64 - 1, 1], "<u8")
    sums, _ = by_numpy(target, INT64, golden, UINT64)
    assert sums.worst == Extreme(2**64 + 2**63 - 1, 0, -(2**63), 2**64 - 1)
    assert_kernels_agree(target, INT64, golden, UINT64)


# Options


def test_without_the_divergence() -> None:
    array = Stored(np.arange(5, dtype="<f4"), FLOAT32)
    (result,) = run([job(array, array)], with_kl=False)
    assert measured(result)[1] is None


def test_kernel_selected_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = native.find_library()
    monkeypatch.setenv("OPDIFF_KERNEL", "numpy")
    assert native.find_library() is None
    monkeypatch.setenv("OPDIFF_KERNEL", native._LIBRARY)
    assert library is not None
    assert native.find_library() is not None
    (tmp_path / "kernel.so").write_bytes(b"no library")
    for path in (str(tmp_path / "kernel.so"), str(tmp_path / "nowhere.so"), ctypes.util.find_library("c") or "libc.so"):
        monkeypatch.setenv("OPDIFF_KERNEL", path)
        with pytest.raises(UsageError, match=f"OPDIFF_KERNEL: {path} is not a kernel of this version"):
            native.find_library()

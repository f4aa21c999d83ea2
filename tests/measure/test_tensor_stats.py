"""Statistics and checksum of one tensor, against NumPy and plain arithmetic."""

from __future__ import annotations

import math
import zlib
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import ElementError
from opdiff.measure import tensor_stats as module
from opdiff.measure.graph_metrics import stats_of_sums
from opdiff.measure.reference.blocks import measure
from opdiff.measure.tensor_stats import HISTOGRAM_BINS, FiniteStats, constant_value, crc32, finite_stats, tensor_stats

if TYPE_CHECKING:
    from random import Random

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

SHAPES = nps.array_shapes(max_dims=3, max_side=5)
FLOATS = nps.arrays(np.float32, SHAPES, elements=st.floats(-1000, 1000, width=32))
ANY_FLOATS = nps.arrays(np.float32, SHAPES, elements=st.floats(width=32))
I64, U64 = np.iinfo(np.int64), np.iinfo(np.uint64)
HUGE = float(np.finfo(np.float64).max)


def stats_of(values: AnyArray | list[float], dtype: DType) -> FiniteStats:
    return finite_stats(elements.encode(np.asarray(values), dtype), dtype)


CASES: dict[str, tuple[list[float], DType, FiniteStats]] = {
    "float32": ([1.0, -2.0, 0.0, 3.0], dtypes.FLOAT32, FiniteStats(4, -2.0, 3.0, 0.5, 1, 0, 0)),
    "float16": ([1.0, 2.0], dtypes.FLOAT16, FiniteStats(2, 1.0, 2.0, 1.5, 0, 0, 0)),
    "bfloat16": ([1.0, -10.0], dtypes.BFLOAT16, FiniteStats(2, -10.0, 1.0, -4.5, 0, 0, 0)),
    "nan_inf": ([math.nan, 1, math.inf, -math.inf, 0], dtypes.FLOAT32, FiniteStats(5, 0.0, 1.0, 0.5, 1, 1, 2)),
    "only_nan": ([math.nan] * 3, dtypes.FLOAT16, FiniteStats(3, None, None, None, 0, 3, 0)),
    "only_inf": ([-math.inf], dtypes.FLOAT64, FiniteStats(1, None, None, None, 0, 0, 1)),
    "two_zeros": ([-0.0, 0.0], dtypes.FLOAT32, FiniteStats(2, 0.0, 0.0, 0.0, 2, 0, 0)),
    "sum_beyond_float64": ([HUGE] * 10, dtypes.FLOAT64, FiniteStats(10, HUGE, HUGE, HUGE, 0, 0, 0)),
    "huge_both_ways": ([HUGE, -HUGE], dtypes.FLOAT64, FiniteStats(2, -HUGE, HUGE, 0.0, 0, 0, 0)),
    "largest_float16": ([65504.0] * 4, dtypes.FLOAT16, FiniteStats(4, 65504.0, 65504.0, 65504.0, 0, 0, 0)),
    "smallest_float64": ([5e-324] * 2, dtypes.FLOAT64, FiniteStats(2, 5e-324, 5e-324, 5e-324, 0, 0, 0)),
    "int64_ends": ([I64.min, I64.max], dtypes.INT64, FiniteStats(2, I64.min, I64.max, -0.5, 0, 0, 0)),
    "int64_low": ([I64.min] * 9, dtypes.INT64, FiniteStats(9, I64.min, I64.min, -(2.0**63), 0, 0, 0)),
    "bool": ([True, False, True, True], dtypes.BOOL, FiniteStats(4, 0, 1, 0.75, 1, 0, 0)),
    "int4": ([-8, 7], dtypes.INT4, FiniteStats(2, -8, 7, -0.5, 0, 0, 0)),
    "uint1": ([1, 0, 1], dtypes.UINT1, FiniteStats(3, 0, 1, 2 / 3, 1, 0, 0)),
    "float8": ([448.0, -448.0], dtypes.FLOAT8_E4M3FN, FiniteStats(2, -448.0, 448.0, 0.0, 0, 0, 0)),
    "empty": ([], dtypes.FLOAT32, FiniteStats(0, None, None, None, 0, 0, 0)),
    "empty_int4": ([], dtypes.INT4, FiniteStats(0, None, None, None, 0, 0, 0)),
}


@pytest.mark.parametrize(("values", "dtype", "expected"), CASES.values(), ids=CASES)
def test_finite_stats(values: list[float], dtype: DType, expected: FiniteStats) -> None:
    assert stats_of(values, dtype) == expected


def test_unsigned_numbers_beyond_int64() -> None:
    found = stats_of(np.array([U64.max, U64.max, 0], np.uint64), dtypes.UINT64)
    assert found == FiniteStats(3, 0, int(U64.max), float(Fraction(2 * int(U64.max), 3)), 1, 0, 0)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 0), (3, 4, 5)], ids=str)
def test_every_shape(shape: tuple[int, ...]) -> None:
    found = stats_of(np.ones(shape), dtypes.FLOAT32)
    assert (found.count, found.mean) == (math.prod(shape), 1.0 if math.prod(shape) else None)


@given(
    nps.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64, np.bool_]),
        nps.array_shapes(max_dims=3, max_side=7, min_side=0, min_dims=0),
    ),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_finite_stats_match_numpy(array: AnyArray, block: int, random: Random) -> None:
    """For any block size, and for views that are not contiguous."""
    dtype = dtypes.BY_NAME[array.dtype.name]
    axes = list(range(array.ndim))
    random.shuffle(axes)
    codes = elements.encode(array, dtype).transpose(axes)[..., ::-1] if array.ndim else elements.encode(array, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = finite_stats(codes, dtype)
    kept = array[np.isfinite(array)]
    assert (found.count, found.nans, found.infs) == (array.size, np.isnan(array).sum(), np.isinf(array).sum())
    assert found.zeros == np.count_nonzero(kept == 0)
    if not kept.size:
        assert (found.minimum, found.maximum, found.mean) == (None, None, None)
        return
    assert (found.minimum, found.maximum) == (kept.min(), kept.max())
    exact = float(sum(map(Fraction, kept.tolist()), Fraction()) / kept.size)
    scale = max(abs(float(kept.min())), abs(float(kept.max())))
    assert found.mean == pytest.approx(exact, rel=1e-15 * kept.size, abs=1e-15 * kept.size * min(scale, 1e300))
    assert kept.dtype.kind == "f" or found.mean == exact


def test_complex_numbers_have_no_finite_stats() -> None:
    with pytest.raises(ElementError, match="element type complex64: complex numbers have no minimum and maximum"):
        stats_of([1.0], dtypes.COMPLEX64)


def test_views_are_not_copied() -> None:
    import tracemalloc

    codes = np.zeros((2048, 2048), np.float32).T[:-1, :-1]
    tracemalloc.start()
    try:
        finite_stats(codes, dtypes.FLOAT32)
        constant_value(codes, dtypes.FLOAT32)
        assert tracemalloc.get_traced_memory()[1] < codes.nbytes / 8
    finally:
        tracemalloc.stop()


# Constant tensors

SAME: dict[Kind, list[complex]] = {
    Kind.FLOAT: [0.0, 1.0, 0.5, 2.0],
    Kind.INTEGER: [0, 1],
    Kind.BOOL: [False, True],
    Kind.COMPLEX: [0j, 1 + 2j],
}
ALL_TYPES = [dtype for dtype in dtypes.BY_NUMBER.values() if dtype.kind is not Kind.OPAQUE]


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_constant_of_every_type(dtype: DType) -> None:
    for number in SAME[dtype.kind]:
        codes = elements.encode(np.full((2, 3), number), dtype)
        value = elements.decode(codes, dtype)[0, 0].item()
        assert constant_value(codes, dtype) == value


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        pytest.param([1.0, 1.0, 2.0], dtypes.FLOAT32, None, id="different"),
        pytest.param([0.0, -0.0], dtypes.FLOAT32, 0.0, id="two_zeros"),
        pytest.param([0.0, -0.0], dtypes.BFLOAT16, 0.0, id="two_zeros_of_bfloat16"),
        pytest.param([math.nan, 1.0], dtypes.FLOAT32, None, id="nan_and_a_number"),
        pytest.param([1.0, math.nan], dtypes.FLOAT32, None, id="a_number_and_nan"),
        pytest.param([math.inf, -math.inf], dtypes.FLOAT32, None, id="infinities"),
        pytest.param([math.inf, math.inf], dtypes.FLOAT32, math.inf, id="infinity"),
        pytest.param([7], dtypes.INT32, 7, id="one_element"),
        pytest.param([], dtypes.INT32, None, id="empty"),
        pytest.param([I64.max, I64.max - 1], dtypes.INT64, None, id="equal_as_floats"),
    ],
)
def test_constant_value(values: list[float], dtype: DType, expected: float | None) -> None:
    assert constant_value(elements.encode(np.asarray(values), dtype), dtype) == expected


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT8_E5M2], ids=str)
def test_constant_nan(dtype: DType) -> None:
    value = constant_value(elements.encode(np.full(5, math.nan), dtype), dtype)
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("index", [0, 65535, 65536, 99999])
def test_difference_in_any_block_is_found(index: int) -> None:
    codes = np.zeros(100_000, np.float32)
    codes[index] = 1e-45
    assert constant_value(codes, dtypes.FLOAT32) is None


# All elements


def same(found: float | None, expected: float) -> bool:
    return found is not None and bool(found == pytest.approx(expected, rel=1e-12, nan_ok=True))


@given(ANY_FLOATS)
def test_tensor_stats_match_numpy(values: AnyArray) -> None:
    wide = values.astype(np.float64)
    found = tensor_stats(values, dtypes.FLOAT32)
    with np.errstate(all="ignore"):
        expected = (wide.min(), wide.max(), wide.mean(), np.sqrt(np.square(wide).sum()))
    if np.isnan(wide).any():
        expected = (math.nan,) * 4
    for value, number in zip((found.minimum, found.maximum, found.mean, found.norm), expected, strict=True):
        assert same(value, float(number))
    assert (found.nans, found.infs) == (np.isnan(wide).sum(), np.isinf(wide).sum())
    assert (found.dtype, found.shape) == ("float32", values.shape)


@given(ANY_FLOATS)
def test_sums_give_the_same_stats(values: AnyArray) -> None:
    sums = measure(values, dtypes.FLOAT32, values, dtypes.FLOAT32)
    found = stats_of_sums(sums.target, "float32", values.shape)
    expected = tensor_stats(values, dtypes.FLOAT32)
    for name in ("minimum", "maximum", "mean", "norm"):
        assert same(getattr(found, name), getattr(expected, name)), name
    assert found.infs == (expected.infs if not expected.nans else sums.target.infs)


def test_large_integers_stay_exact() -> None:
    values = np.array([-(1 << 62) - 1, (1 << 62) + 1])
    found = tensor_stats(values, dtypes.INT64)
    assert (found.minimum, found.maximum) == (-(1 << 62) - 1, (1 << 62) + 1)


def test_empty_tensors_have_no_stats() -> None:
    found = tensor_stats(np.zeros((0, 3), np.float32), dtypes.FLOAT32, ("mean", "histogram", "crc32"))
    assert (found.minimum, found.mean, found.histogram, found.crc32) == (None, None, (), "00000000")


def test_only_requested_stats_are_computed() -> None:
    found = tensor_stats(np.ones(3, np.float32), dtypes.FLOAT32, ())
    assert (found.maximum, found.mean, found.norm, found.nans, found.crc32) == (1.0, None, None, None, "")


@given(FLOATS)
def test_histogram_counts_finite_numbers(values: AnyArray) -> None:
    values = values.copy()
    values.flat[0] = math.nan
    found = tensor_stats(values, dtypes.FLOAT32, ("histogram",)).histogram
    kept = values[np.isfinite(values)].astype(np.float64)
    if kept.size:
        assert list(found) == list(np.histogram(kept, HISTOGRAM_BINS, (kept.min(), kept.max()))[0])
    else:
        assert found == ()


@given(FLOATS)
def test_checksums_are_row_major(values: AnyArray) -> None:
    assert crc32(values.T, dtypes.FLOAT32) == f"{zlib.crc32(values.T.tobytes()):08x}"


def test_checksums_of_many_blocks() -> None:
    values = np.arange((1 << 20) + 3, dtype=np.float32)
    codes = elements.encode(values, dtypes.BFLOAT16)
    assert crc32(values, dtypes.FLOAT32) == f"{zlib.crc32(values.tobytes()):08x}"
    assert crc32(codes, dtypes.BFLOAT16) == f"{zlib.crc32(elements.decode(codes, dtypes.BFLOAT16).tobytes()):08x}"

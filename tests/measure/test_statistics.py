"""Figures of one tensor, against NumPy and plain arithmetic."""

from __future__ import annotations

import math
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
from opdiff.measure import statistics
from opdiff.measure.statistics import Statistics, constant_value, describe

if TYPE_CHECKING:
    from random import Random

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

I64, U64 = np.iinfo(np.int64), np.iinfo(np.uint64)
HUGE = float(np.finfo(np.float64).max)


def figures(values: AnyArray | list[float], dtype: DType) -> Statistics:
    return describe(elements.encode(np.asarray(values), dtype), dtype)


FIGURES: dict[str, tuple[list[float], DType, Statistics]] = {
    "float32": ([1.0, -2.0, 0.0, 3.0], dtypes.FLOAT32, Statistics(4, -2.0, 3.0, 0.5, 1, 0, 0)),
    "float16": ([1.0, 2.0], dtypes.FLOAT16, Statistics(2, 1.0, 2.0, 1.5, 0, 0, 0)),
    "bfloat16": ([1.0, -10.0], dtypes.BFLOAT16, Statistics(2, -10.0, 1.0, -4.5, 0, 0, 0)),
    "nan_inf": ([math.nan, 1, math.inf, -math.inf, 0], dtypes.FLOAT32, Statistics(5, 0.0, 1.0, 0.5, 1, 1, 2)),
    "only_nan": ([math.nan] * 3, dtypes.FLOAT16, Statistics(3, None, None, None, 0, 3, 0)),
    "only_inf": ([-math.inf], dtypes.FLOAT64, Statistics(1, None, None, None, 0, 0, 1)),
    "two_zeros": ([-0.0, 0.0], dtypes.FLOAT32, Statistics(2, 0.0, 0.0, 0.0, 2, 0, 0)),
    "sum_beyond_float64": ([HUGE] * 10, dtypes.FLOAT64, Statistics(10, HUGE, HUGE, HUGE, 0, 0, 0)),
    "huge_both_ways": ([HUGE, -HUGE], dtypes.FLOAT64, Statistics(2, -HUGE, HUGE, 0.0, 0, 0, 0)),
    "largest_float16": ([65504.0] * 4, dtypes.FLOAT16, Statistics(4, 65504.0, 65504.0, 65504.0, 0, 0, 0)),
    "smallest_float64": ([5e-324] * 2, dtypes.FLOAT64, Statistics(2, 5e-324, 5e-324, 5e-324, 0, 0, 0)),
    "int64_ends": ([I64.min, I64.max], dtypes.INT64, Statistics(2, I64.min, I64.max, -0.5, 0, 0, 0)),
    "int64_low": ([I64.min] * 9, dtypes.INT64, Statistics(9, I64.min, I64.min, -(2.0**63), 0, 0, 0)),
    "bool": ([True, False, True, True], dtypes.BOOL, Statistics(4, 0, 1, 0.75, 1, 0, 0)),
    "int4": ([-8, 7], dtypes.INT4, Statistics(2, -8, 7, -0.5, 0, 0, 0)),
    "uint1": ([1, 0, 1], dtypes.UINT1, Statistics(3, 0, 1, 2 / 3, 1, 0, 0)),
    "float8": ([448.0, -448.0], dtypes.FLOAT8_E4M3FN, Statistics(2, -448.0, 448.0, 0.0, 0, 0, 0)),
    "empty": ([], dtypes.FLOAT32, Statistics(0, None, None, None, 0, 0, 0)),
    "empty_int4": ([], dtypes.INT4, Statistics(0, None, None, None, 0, 0, 0)),
}


@pytest.mark.parametrize(("values", "dtype", "expected"), FIGURES.values(), ids=FIGURES)
def test_figures(values: list[float], dtype: DType, expected: Statistics) -> None:
    assert figures(values, dtype) == expected


def test_unsigned_numbers_beyond_int64() -> None:
    found = figures(np.array([U64.max, U64.max, 0], np.uint64), dtypes.UINT64)
    assert found == Statistics(3, 0, int(U64.max), float(Fraction(2 * int(U64.max), 3)), 1, 0, 0)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 0), (3, 4, 5)], ids=str)
def test_every_shape(shape: tuple[int, ...]) -> None:
    found = figures(np.ones(shape), dtypes.FLOAT32)
    assert (found.count, found.mean) == (math.prod(shape), 1.0 if math.prod(shape) else None)


@given(
    nps.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64, np.bool_]),
        nps.array_shapes(max_dims=3, max_side=7, min_side=0, min_dims=0),
    ),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_the_figures_are_those_of_numpy(array: AnyArray, block: int, random: Random) -> None:
    """Whatever the size of the blocks, and for arrays that do not lie in memory as they are read."""
    dtype = dtypes.BY_NAME[array.dtype.name]
    axes = list(range(array.ndim))
    random.shuffle(axes)
    codes = elements.encode(array, dtype).transpose(axes)[..., ::-1] if array.ndim else elements.encode(array, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_BLOCK", block)
        found = describe(codes, dtype)
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


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ElementError, match="element type complex64: complex numbers have no smallest and largest"):
        figures([1.0], dtypes.COMPLEX64)


def test_a_view_is_not_copied_as_a_whole() -> None:
    import tracemalloc

    codes = np.zeros((2048, 2048), np.float32).T[:-1, :-1]
    tracemalloc.start()
    try:
        describe(codes, dtypes.FLOAT32)
        constant_value(codes, dtypes.FLOAT32)
        assert tracemalloc.get_traced_memory()[1] < codes.nbytes / 8
    finally:
        tracemalloc.stop()


# One number throughout

SAME: dict[Kind, list[complex]] = {
    Kind.FLOAT: [0.0, 1.0, 0.5, 2.0],
    Kind.INTEGER: [0, 1],
    Kind.BOOL: [False, True],
    Kind.COMPLEX: [0j, 1 + 2j],
}
ALL_TYPES = [dtype for dtype in dtypes.BY_NUMBER.values() if dtype.kind is not Kind.OPAQUE]


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_one_number_of_every_type(dtype: DType) -> None:
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
def test_one_number(values: list[float], dtype: DType, expected: float | None) -> None:
    assert constant_value(elements.encode(np.asarray(values), dtype), dtype) == expected


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT8_E5M2], ids=str)
def test_nan_throughout_is_one_number(dtype: DType) -> None:
    value = constant_value(elements.encode(np.full(5, math.nan), dtype), dtype)
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("place", [0, 65535, 65536, 99999])
def test_one_other_number_in_any_block_is_seen(place: int) -> None:
    codes = np.zeros(100_000, np.float32)
    codes[place] = 1e-45
    assert constant_value(codes, dtypes.FLOAT32) is None

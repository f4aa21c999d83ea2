"""The sums against exact arithmetic: every pair of types, special numbers, unusual memory, any division into parts."""

from __future__ import annotations

import pickle
import platform
import subprocess
import sys
import warnings
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measure.arrays import INTEGERS, MEMORY_LAYOUTS, REAL_TYPES, WIDE_FLOATS, codes, finite_codes, in_memory
from measure.plain_formulas import Reference, count_infs, count_nans, values_of
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.errors import ElementError
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.measure.reference import blocks
from opdiff.measure.reference.blocks import BLOCK, measure, measure_exact
from opdiff.measure.reference.exact_sums import ExactPairSums, ExactSums

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

RNG = np.random.default_rng(20)


def near(found: Fraction, expected: Fraction, size: Fraction) -> bool:
    """Return whether two sums agree within float64 precision; `magnitude` is the sum of the summands' magnitudes."""
    return abs(found - expected) <= size * Fraction(2) ** -48


@given(st.data(), st.sampled_from(REAL_TYPES), st.sampled_from(REAL_TYPES), st.integers(1, 12))
def test_sums_match_exact_arithmetic(data: st.DataObject, x: DType, y: DType, size: int) -> None:
    target, golden = data.draw(codes(x, size)), data.draw(codes(y, size))
    sums = measure_exact(target, x, golden, y)
    expected = Reference(values_of(target, x), values_of(golden, y))
    pairs = sums.pairs
    assert pairs.count == len(expected.pairs)
    assert near(pairs.target, expected.total(0), sum((abs(a) for a, _ in expected.pairs), Fraction()))
    assert near(pairs.target_squares, expected.squares(0), expected.squares(0))
    assert near(pairs.golden_squares, expected.squares(1), expected.squares(1))
    assert (pairs.products - expected.products()) ** 2 <= expected.squares(0) * expected.squares(1) * Fraction(2) ** -96
    assert near(pairs.errors, sum(expected.errors(), Fraction()), sum(map(abs, expected.errors()), Fraction()))
    assert near(pairs.absolute_errors, sum(map(abs, expected.errors()), Fraction()), pairs.absolute_errors)
    assert near(pairs.squared_errors, sum((error**2 for error in expected.errors()), Fraction()), pairs.squared_errors)
    huge = Fraction(np.finfo(np.float64).max.item())
    relative = sum((min(error, huge) for error in expected.relative()), Fraction())
    assert near(pairs.relative, relative, relative)


@given(st.data(), st.sampled_from(REAL_TYPES), st.sampled_from(REAL_TYPES), st.integers(1, 12))
def test_counts_and_indices_are_exact(data: st.DataObject, x: DType, y: DType, size: int) -> None:
    target, golden = data.draw(codes(x, size)), data.draw(codes(y, size))
    sums = measure(target, x, golden, y)
    expected = Reference(values_of(target, x), values_of(golden, y))
    assert sums.count == size
    assert sums.unequal == expected.unequal()
    assert (sums.target.nans, sums.target.infs) == (count_nans(expected.target), count_infs(expected.target))
    assert (sums.golden.nans, sums.golden.infs) == (count_nans(expected.golden), count_infs(expected.golden))
    mismatches = expected.mismatches()
    assert sums.non_finite.mismatches == len(mismatches)
    assert sums.non_finite.first_mismatch == (mismatches[0] if mismatches else None)
    for side, numbers in ((sums.target, expected.target), (sums.golden, expected.golden)):
        finite = [number for number in numbers if np.isfinite(float(number))]
        assert (side.finite, side.minimum, side.maximum) == (
            len(finite),
            min(finite, default=None),
            max(finite, default=None),
        )
    assert sum(sums.distribution.relative) == sum(sums.distribution.ulps) == sums.pairs.count


@given(
    st.data(), st.sampled_from([*INTEGERS, dtypes.BOOL]), st.sampled_from([*INTEGERS, dtypes.BOOL]), st.integers(1, 9)
)
def test_the_largest_error_of_integers_is_exact(data: st.DataObject, x: DType, y: DType, size: int) -> None:
    target, golden = data.draw(codes(x, size)), data.draw(codes(y, size))
    worst = measure(target, x, golden, y).worst
    errors = [abs(a - b) for a, b in zip(values_of(target, x), values_of(golden, y), strict=True)]
    index = errors.index(max(errors))
    assert worst is not None
    assert (worst.value, worst.index) == (errors[index], index)
    assert (worst.target, worst.golden) == (values_of(target, x)[index], values_of(golden, y)[index])
    assert isinstance(worst.value, int)
    assert measure(target, x, golden, y).worst_ulps == worst


LIMITS = [
    (dtypes.INT64, [-(2**63)], dtypes.UINT64, [2**64 - 1], 2**63 + 2**64 - 1),
    (dtypes.UINT64, [2**64 - 1, 0], dtypes.INT64, [-(2**63), 0], 2**63 + 2**64 - 1),
    (dtypes.INT64, [-(2**63), 2**63 - 1], dtypes.INT64, [2**63 - 1, -(2**63)], 2**64 - 1),
    (dtypes.INT64, [2**53 + 1, 7], dtypes.INT64, [2**53, 7], 1),
    (dtypes.INT64, [2**62, 2**62 + 1], dtypes.INT64, [0, 0], 2**62 + 1),
    (dtypes.INT64, [2**62 + 1, 2**62 + 2], dtypes.INT64, [0, 1], 2**62 + 1),
    (dtypes.INT64, [-(2**62), -(2**62) - 3], dtypes.UINT8, [0, 0], 2**62 + 3),
    (dtypes.INT8, [-128], dtypes.UINT8, [255], 383),
]


@pytest.mark.parametrize(("x", "target", "y", "golden", "error"), LIMITS, ids=[str(row[1]) for row in LIMITS])
def test_integers_neither_wrap_nor_lose_digits(
    x: DType, target: list[int], y: DType, golden: list[int], error: int
) -> None:
    sums = measure(np.array(target, x.storage), x, np.array(golden, y.storage), y)
    assert sums.worst is not None
    assert sums.worst.value == error
    assert sums.unequal == sum(a != b for a, b in zip(target, golden, strict=True))


def test_small_integers_against_floats_are_not_rounded() -> None:
    sums = measure_exact(np.array([-1]), dtypes.INT64, np.array([2.0**-47]), dtypes.FLOAT64)
    assert sums.pairs.errors == -1 - Fraction(2) ** -47


def test_large_integers_against_floats_are_not_rounded() -> None:
    sums = measure(np.array([2**53 + 1, 2**63 - 1]), dtypes.INT64, np.array([2.0**53, 2.0**63]), dtypes.FLOAT64)
    assert sums.unequal == 2
    assert sums.pairs.errors == 0
    assert sums.pairs.absolute_errors == 2


@given(
    st.data(),
    st.sampled_from(WIDE_FLOATS),
    st.integers(1, 12),
    st.sampled_from(MEMORY_LAYOUTS),
    st.sampled_from(MEMORY_LAYOUTS),
)
def test_memory_layout_does_not_matter(data: st.DataObject, dtype: DType, size: int, first: str, second: str) -> None:
    target, golden = data.draw(codes(dtype, size)), data.draw(codes(dtypes.INT32, size))
    expected = measure(target, dtype, golden, dtypes.INT32)
    assert measure(in_memory(target, first), dtype, in_memory(golden, second), dtypes.INT32) == expected


@pytest.mark.parametrize("dtype", REAL_TYPES, ids=str)
def test_equal_data_is_equal(dtype: DType) -> None:
    array = RNG.integers(0, 1 << dtype.bits, 5000, np.uint64, endpoint=False).astype(f"<u{max(dtype.bits, 8) // 8}")
    sums = measure(array.view(dtype.storage), dtype, array.copy().view(dtype.storage), dtype)
    assert sums.unequal == sums.non_finite.mismatches == sums.pairs.absolute_errors == sums.pairs.relative == 0
    assert sums.pairs.products == sums.pairs.target_squares == sums.pairs.golden_squares
    assert sums.target == sums.golden
    assert sums.distribution.relative[0] == sums.distribution.ulps[0] == sums.pairs.count


def test_a_narrow_and_a_wide_type_with_the_same_numbers_are_equal() -> None:
    narrow = np.arange(1 << 16).astype("<u2")
    for dtype in (dtypes.FLOAT16, dtypes.BFLOAT16):
        values = elements.decode(narrow.view(dtype.storage), dtype)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            golden = values.astype("<f8")
        sums = measure(narrow.view(dtype.storage), dtype, golden, dtypes.FLOAT64)
        assert sums.unequal == 0


def test_there_are_no_warnings() -> None:
    hard = np.array([np.nan, np.inf, -np.inf, 0, 5e-324, 1.7e308, -1.7e308, 1])
    target, golden = (side.reshape(-1) for side in np.meshgrid(hard, hard))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert measure(target, dtypes.FLOAT64, golden, dtypes.FLOAT64).count == 64


def test_empty_tensors() -> None:
    assert measure_exact(np.empty((0, 4), "<f4"), dtypes.FLOAT32, np.empty((2, 0), "<i8"), dtypes.INT64) == ExactSums()
    assert ExactSums().pairs == ExactPairSums()


# Splitting


def measure_parts(target: AnyArray, golden: AnyArray, cuts: list[int]) -> list[ExactSums]:
    bounds = [0, *sorted(cuts), len(target)]
    return [measure_exact(target[a:b], dtypes.FLOAT32, golden[a:b], dtypes.FLOAT64) for a, b in pairwise(bounds)]


def special_pair(size: int) -> tuple[AnyArray, AnyArray]:
    golden = RNG.standard_normal(size) * 10.0 ** RNG.integers(-30, 30, size)
    target = (golden * (1 + 1e-3 * RNG.standard_normal(size))).astype("<f4")
    golden[RNG.integers(0, size, 9)] = [np.nan, np.inf, -np.inf, 0, 1e300, -1e300, 1e-300, np.nan, np.inf]
    return target, golden


def test_parts_of_whole_blocks_merge_to_the_same_sums() -> None:
    target, golden = special_pair(4 * BLOCK + 77)
    whole = measure_exact(target, dtypes.FLOAT32, golden, dtypes.FLOAT64)
    for cuts in ([BLOCK], [2 * BLOCK], [BLOCK, 3 * BLOCK], [BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK]):
        assert reduce(ExactSums.merge, measure_parts(target, golden, cuts)) == whole


@given(st.data(), st.integers(2, 40))
@settings(max_examples=50)
def test_merging_is_associative_and_has_a_neutral_element(data: st.DataObject, size: int) -> None:
    target, golden = data.draw(codes(dtypes.FLOAT32, size)), data.draw(codes(dtypes.FLOAT64, size))
    cuts = [data.draw(st.integers(0, size)) for _ in range(2)]
    a, b, c = measure_parts(target, golden, cuts)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(ExactSums()) == ExactSums().merge(a) == a


@given(st.data(), st.integers(1, 40), st.sampled_from(WIDE_FLOATS))
@settings(max_examples=50)
def test_small_blocks_find_the_same_indices(data: st.DataObject, size: int, dtype: DType) -> None:
    target, golden = data.draw(codes(dtype, size)), data.draw(codes(dtypes.FLOAT32, size))
    whole = measure(target, dtype, golden, dtypes.FLOAT32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 3)
        split = measure(target, dtype, golden, dtypes.FLOAT32)
    assert (split.worst, split.worst_relative, split.worst_ulps) == (
        whole.worst,
        whole.worst_relative,
        whole.worst_ulps,
    )
    assert (split.distribution, split.non_finite, split.unequal) == (
        whole.distribution,
        whole.non_finite,
        whole.unequal,
    )
    assert (split.target.first_nan, split.golden.first_inf) == (whole.target.first_nan, whole.golden.first_inf)


def test_sums_can_be_pickled() -> None:
    target, golden = special_pair(1000)
    sums = measure(target, dtypes.FLOAT32, golden, dtypes.FLOAT64)
    assert pickle.loads(pickle.dumps(sums)) == sums  # noqa: S301 (made here)


AGAIN = """
import resource
import numpy as np
from opdiff.core import dtypes
from opdiff.measure.reference.blocks import BLOCK, measure
golden = np.ones(16 * BLOCK, "<f4")
target = golden.astype("<f2")
found = []
for _ in range(3):
    measure(target, dtypes.FLOAT16, golden, dtypes.FLOAT32)
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(found[2] - found[1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has habits of its own")
def test_memory_is_retained_between_blocks() -> None:
    """Memory returned to the system costs a page fault per 4 KB, and a tenth of the time."""
    outcome = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)
    assert int(outcome.stdout) < 16 * 16


# Distribution of errors


def test_relative_errors_are_counted() -> None:
    golden = np.array([1, 1, 1, 1000, 0, 0, 1e-20, -2])
    target = np.array([1, 1.001, 1.0051, 1000.5, 0, 3, 0, 2])
    distribution = measure(target, dtypes.FLOAT64, golden, dtypes.FLOAT64).distribution
    assert (distribution.over_5_permille, distribution.zero_golden) == (4, 2)
    assert distribution.over_1_permille == 5 - (1.001 - 1 < 0.001)
    assert distribution.relative[0] == 2
    assert distribution.relative[-1] == 2
    assert distribution.relative[RELATIVE_EDGES.index(2.0**-11) + 2] == 1 + (1.001 - 1 < 2.0**-9)
    assert distribution.relative[RELATIVE_EDGES.index(2.0**1) + 2] == 1


def test_index_of_the_largest_relative_error() -> None:
    golden, target = np.array([0.0, np.nan, 4, 2, 2]), np.array([9.0, 1, 5, 3, 1])
    worst = measure(target, dtypes.FLOAT64, golden, dtypes.FLOAT64).worst_relative
    assert worst is not None
    assert (worst.value, worst.index, worst.target, worst.golden) == (0.5, 3, 3.0, 2.0)


@given(st.data(), st.sampled_from([dtypes.FLOAT16, dtypes.FLOAT32, dtypes.FLOAT64]))
def test_neighbouring_floats_are_one_ulp_apart(data: st.DataObject, dtype: DType) -> None:
    golden = data.draw(finite_codes(dtype, 1).filter(lambda drawn: abs(drawn[0]) < np.finfo(dtype.storage).max))
    target = np.nextafter(golden, np.array(np.inf, dtype.storage), dtype=dtype.storage)
    worst = measure(target, dtype, golden, dtype).worst_ulps
    assert worst is not None
    # Below a power of two the unit is half of that above.
    assert worst.value in (0.5, 1)


def test_ulps_are_those_of_the_coarser_type() -> None:
    target, golden = np.array([1.0, 2049.0, 8.0], "<f2"), np.array([1.0 + 2**-12, 2054.5, 8.0], "<f4")
    sums = measure(target, dtypes.FLOAT16, golden, dtypes.FLOAT32)
    assert sums.distribution.ulps[:6] == (1, 1, 0, 0, 1, 0)
    assert sums.worst_ulps is not None
    # float16 rounds 2049 to 2048, where the unit is 2.
    assert (sums.worst_ulps.value, sums.worst_ulps.index) == (3.25, 1)
    assert ULP_EDGES[:4] == (0.5, 1, 2, 4)


@pytest.mark.parametrize(
    ("target", "x", "golden", "y", "ulps"),
    [
        pytest.param(3 * 2.0**-24, dtypes.FLOAT16, 2.0**-24, dtypes.FLOAT64, 2, id="below the smallest normal number"),
        pytest.param(7, dtypes.INT16, -5, dtypes.INT32, 12, id="integers are one apart"),
        pytest.param(1.0, dtypes.BFLOAT16, 1 + 2**-6, dtypes.FLOAT16, 2, id="bfloat16 is coarser than float16"),
    ],
)
def test_distance_in_ulps(target: float, x: DType, golden: float, y: DType, ulps: float) -> None:
    sides = elements.encode(np.array([target]), x), elements.encode(np.array([golden]), y)
    worst = measure(sides[0], x, sides[1], y).worst_ulps
    assert worst is not None
    assert worst.value == ulps


def test_infinity_against_a_64_bit_integer() -> None:
    target, golden = np.array([np.inf, -np.inf, np.inf]), np.array([5, -(1 << 40), 0], "<i8")
    non_finite = measure(target, dtypes.FLOAT64, golden, dtypes.INT64).non_finite
    assert (non_finite.target_infs, non_finite.mismatches) == (2, 3)


# Complex numbers, and types that cannot be measured


def test_complex_numbers_are_measured_by_parts() -> None:
    target, golden = np.array([1 + 2j, 3 + 4j], "<c8"), np.array([1 + 2j, 3 + 9j], "<c16")
    sums = measure(target, dtypes.COMPLEX64, golden, dtypes.COMPLEX128)
    assert (sums.count, sums.parts, sums.unequal) == (4, 2, 1)
    assert sums.worst is not None
    assert (sums.worst.value, sums.worst.index) == (5.0, 3)


def test_complex_numbers_cannot_be_compared_with_real_ones() -> None:
    target, golden = np.array([1j], "<c8"), np.array([1.0], "<f4")
    with pytest.raises(ElementError, match="complex64: complex numbers cannot be compared with float32"):
        measure(target, dtypes.COMPLEX64, golden, dtypes.FLOAT32)
    with pytest.raises(ElementError, match="complex64: complex numbers cannot be compared with float32"):
        measure(golden, dtypes.FLOAT32, target, dtypes.COMPLEX64)


def test_opaque_types_have_no_numbers() -> None:
    with pytest.raises(ElementError, match="element type string: strings are not numbers"):
        measure(np.zeros(1, "u1"), dtypes.STRING, np.zeros(1), dtypes.FLOAT64)


def test_sizes_must_be_equal() -> None:
    with pytest.raises(ValueError, match="3 elements cannot be compared with 2"):
        measure(np.zeros(3), dtypes.FLOAT64, np.zeros(2), dtypes.FLOAT64)

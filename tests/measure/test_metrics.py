"""The metrics: formulas on ordinary data, and their values for zeros, NaNs, infinities and unusual sizes."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isnan, log, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from measure.arrays import REAL_TYPES, WIDE_FLOATS, finite_codes
from measure.kernels import Stored, by_kernel, measured
from measure.plain_formulas import Reference, plain_metrics, ratio_root, values_of
from opdiff.core import dtypes
from opdiff.core.metrics import Metrics
from opdiff.core.reasons import because
from opdiff.measure.metrics import COMPLEX, EMPTY, SCALAR, metrics_of
from opdiff.measure.reference.blocks import BLOCK, measure
from opdiff.measure.reference.second_pass import measure_kl

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.sums import Sums

RNG = np.random.default_rng(5)
DOCUMENTED = [
    "cosine",
    "max_absolute_error",
    "accumulated_relative_error",
    "relative_euclidean_distance",
    "kl_divergence",
    "mean_absolute_error",
    "root_mean_square_error",
    "max_relative_error",
    "mean_relative_error",
]


def compare(target: AnyArray, x: DType, golden: AnyArray, y: DType, *, is_scalar: bool = False) -> Metrics:
    sums = measure(target, x, golden, y)
    return metrics_of(sums, measure_kl(target, x, golden, y, sums=sums), is_scalar=is_scalar)


def of(target: Any, golden: Any, *, is_scalar: bool = False) -> Metrics:
    """Return the metrics of two lists of floats."""
    arrays = np.array(target, "<f8"), np.array(golden, "<f8")
    return compare(arrays[0], dtypes.FLOAT64, arrays[1], dtypes.FLOAT64, is_scalar=is_scalar)


def close(expected: float) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-15)


# Every metric is in the field of its name, on data that tells them apart

TARGET = np.array([1, 2.004, -3.25, 4.125, 0.25, 101, 8.0625, 0.75, 120.25], "<f2")
GOLDEN = np.array([1, 2, -3, 4, 0, 100, 8, 0.625, 120.5], "<f4")
# Five finite pairs, the same NaN, the same infinity, and six mismatches.
TARGET_WITH_SPECIALS = np.array([1, 2, 3, 4, 5, nan, inf, -inf, 2, 3, 1, 4, 5], "<f2")
GOLDEN_WITH_SPECIALS = np.array([1, 2, 4, 4, 7, nan, inf, 2, nan, nan, inf, -inf, inf], "<f4")
FINITE_COSINE = float(np.dot([1, 2, 3, 4, 5], [1, 2, 4, 4, 7]) / sqrt(55 * 86))
SPECIALS: dict[str, Any] = {
    "count": 13,
    "is_equal": False,
    "target_nans": 1,
    "target_infs": 2,
    "golden_nans": 3,
    "golden_infs": 4,
    "finite_count": 5,
    "special_mismatches": 6,
    "first_special_mismatch": 7,
    "finite_cosine": FINITE_COSINE,
}


def fields(target: AnyArray, golden: AnyArray) -> dict[str, Any]:
    """Return the metrics of a half-precision target by name."""
    return asdict(compare(target, dtypes.FLOAT16, golden, dtypes.FLOAT32))


def random_pair(size: int) -> tuple[AnyArray, AnyArray]:
    random = np.random.default_rng(size)
    golden = random.standard_normal(size).astype("<f4")
    return (golden + 0.01 * random.standard_normal(size)).astype("<f2"), golden


@pytest.mark.parametrize(
    ("target", "golden"),
    [(TARGET, GOLDEN), *(random_pair(size) for size in (1000, BLOCK, 2 * BLOCK + 3))],
    ids=["few elements", "1000 elements", "a block", "several blocks"],
)
def test_fields_of_finite_data(target: AnyArray, golden: AnyArray) -> None:
    found, expected = fields(target, golden), plain_metrics(target, golden)
    assert expected.keys() == set(Metrics.__struct_fields__)
    for name, value in expected.items():
        assert found[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def test_fields_of_data_with_nans_and_infinities() -> None:
    found = fields(TARGET_WITH_SPECIALS, GOLDEN_WITH_SPECIALS)
    assert {name: found[name] for name in SPECIALS} == pytest.approx(SPECIALS, rel=1e-12)
    assert isnan(found["cosine"])


def test_no_two_fields_are_expected_to_be_the_same() -> None:
    expected = plain_metrics(TARGET, GOLDEN)
    seen: dict[tuple[str, str], str] = {}
    for name, value in expected.items():
        other = seen.setdefault((rounded(value), rounded(SPECIALS.get(name))), name)
        assert other == name, (name, other)


def rounded(value: object) -> str:
    return f"{float(value):.6g}" if isinstance(value, float | int) else repr(value)


# Formulas


@given(st.data(), st.sampled_from(WIDE_FLOATS), st.sampled_from(REAL_TYPES), st.integers(2, 10))
def test_ratios_are_correct_for_any_magnitude(data: st.DataObject, x: DType, y: DType, size: int) -> None:
    target, golden = data.draw(finite_codes(x, size)), data.draw(finite_codes(y, size))
    found = compare(target, x, golden, y)
    expected = Reference(values_of(target, x), values_of(golden, y))
    if expected.squares(0) and expected.squares(1):
        assert found.finite_cosine == pytest.approx(expected.cosine(), abs=1e-13)
        assert found.norm_ratio == pytest.approx(ratio_root(expected.squares(0), expected.squares(1)), rel=1e-13)
    for side, deviation in enumerate((found.target_std, found.golden_std)):
        # Deviations below the last digits of the mean are lost: rounding errors are relative to the magnitude.
        size_of = ratio_root(expected.squares(side), Fraction(size)) if expected.squares(side) else 0.0
        root = ratio_root(expected.variance(side), Fraction(1)) if expected.variance(side) else 0.0
        assert deviation == pytest.approx(root, rel=1e-12, abs=size_of * 1e-15)
    assert found.error_bias is not None
    assert -1 <= found.error_bias <= 1


@given(st.data(), st.sampled_from(REAL_TYPES), st.integers(2, 10))
def test_equal_tensors_are_perfect(data: st.DataObject, dtype: DType, size: int) -> None:
    array = data.draw(finite_codes(dtype, size))
    found = compare(array, dtype, array.copy(), dtype)
    values = asdict(found)
    assert [values[name] for name in DOCUMENTED] == [1.0] + [0] * 8
    assert (found.is_equal, found.snr_db, found.error_bias) == (True, inf, 0.0)
    assert (found.centred_cosine, found.norm_ratio, found.max_ulp, found.worst_index) == (1.0, 1.0, 0, None)


def test_a_small_spread_around_a_large_mean_keeps_its_digits() -> None:
    noise = RNG.integers(-1000, 1000, 3 * BLOCK) / 1024
    found = of(2.0**40 + noise, 2.0**40 - noise)
    assert found.target_std == found.golden_std == pytest.approx(float(noise.std()), rel=1e-12)
    assert found.centred_cosine == close(-1)
    assert found.cosine == close(1)


def test_squares_need_not_fit_in_a_float() -> None:
    for size in (1e-310, 1e-170, 1e170, 1.7e308):
        found = of([size, size / 2, -size], [size, size / 4, size])
        cosine = (1 + 1 / 8 - 1) / sqrt((2 + 1 / 4) * (2 + 1 / 16))
        # The smallest numbers have few digits.
        assert found.finite_cosine == pytest.approx(cosine, rel=1e-9)
        assert found.relative_euclidean_distance in (0.0, close(sqrt((4 + 1 / 16) / (2 + 1 / 16))))
        assert found.norm_ratio == pytest.approx(sqrt((2 + 1 / 4) / (2 + 1 / 16)), rel=1e-9)
        assert found.root_mean_square_error == (inf if size > 1e308 else close(sqrt((4 + 1 / 16) / 3) * size))


def test_relative_errors_do_not_cancel() -> None:
    golden = np.full(1000, 1000.0)
    target = golden + 2.0**-30
    assert of(target, golden).accumulated_relative_error == close(2.0**-30)


# Zeros, NaN and infinity

PERFECT: dict[str, object] = {name: 1.0 if name == "cosine" else 0 for name in DOCUMENTED}
SPECIAL: dict[str, tuple[list[float], list[float], dict[str, object]]] = {
    "both zero": ([0, 0], [0, -0.0], {**PERFECT, "is_equal": True, "notes": ()}),
    "a target of zeros": ([0, 0], [3, 4], {
        "cosine": None, "centred_cosine": None, "notes": (because("measure.zero_side", side="target"),),
        "relative_euclidean_distance": 1, "accumulated_relative_error": 2, "max_relative_error": 1,
        "norm_ratio": 0, "snr_db": 0,
    }),
    "a golden tensor of zeros": ([3, 0], [0, 0], {
        "cosine": None, "notes": (because("measure.zero_side", side="golden"),), "max_absolute_error": 3,
        "relative_euclidean_distance": inf, "accumulated_relative_error": inf, "max_relative_error": inf,
        "mean_relative_error": inf, "norm_ratio": inf, "snr_db": -inf, "over_5_permille": 0.5,
    }),
    "a single golden zero": ([1, 1], [0, 2], {
        "accumulated_relative_error": 0.5, "max_relative_error": 0.5, "mean_relative_error": 0.25, "over_5_permille": 1,
    }),
    "tiny numbers": ([1e-25, 2e-25], [2e-25, 1e-25], {
        "cosine": 1, "relative_euclidean_distance": 0, "accumulated_relative_error": 0, "finite_cosine": 0.8,
    }),
    "a NaN in the target": ([1, nan], [1, 3], {
        **dict.fromkeys(DOCUMENTED, nan), "golden_mean": 2, "golden_std": 1, "norm_ratio": 1, "target_nans": 1,
        "special_mismatches": 1, "first_special_mismatch": 1,
    }),
    "a NaN in the golden tensor": ([1, 2, 3], [1, nan, 3], dict.fromkeys(DOCUMENTED, nan)),
    "the same NaN": ([nan, 1], [nan, 1], {
        **dict.fromkeys(DOCUMENTED, nan), "is_equal": True, "special_mismatches": 0, "finite_cosine": 1,
    }),
    "the same infinity": ([inf, 1], [inf, 1], {
        "is_equal": True, "special_mismatches": 0, "finite_cosine": 1, "max_ulp": 0,
    }),
    "infinities of both signs": ([inf, 1], [-inf, 1], {
        "target_mean": inf, "golden_mean": -inf, "target_std": nan, "golden_std": nan,
    }),
    "infinities of both signs on one side": ([inf, -inf], [1, 2], {"target_mean": nan}),
    "no finite pair": ([nan], [1], dict.fromkeys(
        ("finite_cosine", "centred_cosine", "norm_ratio", "snr_db", "error_bias", "over_1_permille", "over_5_permille",
         "max_ulp", "worst_index"),
    )),
    "no elements": ([], [], {
        **dict.fromkeys((*DOCUMENTED, "target_mean", "golden_std", "snr_db")), "count": 0, "is_equal": True,
        "notes": (EMPTY,),
    }),
}  # fmt: skip


@pytest.mark.parametrize(("target", "golden", "expected"), SPECIAL.values(), ids=SPECIAL)
def test_special_tensors(target: list[float], golden: list[float], expected: dict[str, object]) -> None:
    found = asdict(of(target, golden))
    for name, value in expected.items():
        is_number = isinstance(value, int | float)
        assert found[name] == (pytest.approx(value, rel=1e-12, nan_ok=True) if is_number else value), name


INFINITE = [
    ([1, inf], [1, 2], [nan, inf, inf, inf, nan, inf, inf, inf, inf]),
    ([1, -inf], [1, 2], [nan, inf, inf, inf, nan, inf, inf, inf, inf]),
    ([1, 2], [1, inf], [nan, inf, 1, nan, nan, inf, inf, 1, 0.5]),
    ([1, 2], [1, -inf], [nan, inf, 1, nan, nan, inf, inf, 1, 0.5]),
    ([1, inf], [1, inf], [nan] * 9),
    ([1, inf], [1, -inf], [nan, inf, nan, nan, nan, inf, inf, nan, nan]),
    ([1, inf], [1, 0], [nan, inf, 0, inf, nan, inf, inf, 0, 0]),
    ([1, inf], [0, 0], [nan, inf, inf, inf, nan, inf, inf, inf, inf]),
]


@pytest.mark.parametrize(("target", "golden", "expected"), INFINITE, ids=[f"{row[0]} {row[1]}" for row in INFINITE])
def test_infinity_in_the_data(target: list[float], golden: list[float], expected: list[float]) -> None:
    found = of(target, golden)
    values = asdict(found)
    assert [values[name] for name in DOCUMENTED] == pytest.approx(expected, nan_ok=True)
    assert found.finite_count == 1
    assert found.notes == ()


# Sizes and types


def test_a_scalar_has_a_cosine_of_one() -> None:
    found = of([3], [-4], is_scalar=True)
    assert (found.cosine, found.notes, found.max_absolute_error) == (1.0, (SCALAR,), 7)
    assert str(SCALAR) == "this tensor is scalar."
    assert of([0], [4], is_scalar=True).cosine == 1.0
    assert isnan(of([nan], [4], is_scalar=True).cosine or 0)
    assert of([3], [-4]).cosine == -1.0


def test_bools_are_zeros_and_ones() -> None:
    target, golden = np.array([1, 1, 0, 0], "u1"), np.array([1, 7, 1, 0], "u1")
    found = compare(target, dtypes.BOOL, golden, dtypes.BOOL)
    assert (found.max_absolute_error, found.mean_absolute_error, found.max_ulp) == (1, 0.25, 1)
    assert found.cosine == close(2 / sqrt(6))
    assert (found.relative_euclidean_distance, found.golden_mean) == (close(sqrt(1 / 3)), 0.75)


def test_integers_are_exact() -> None:
    target, golden = np.array([2**63 - 1, 5]), np.array([2**64 - 1, 5], "u8")
    found = compare(target, dtypes.INT64, golden, dtypes.UINT64)
    assert (found.max_absolute_error, found.max_ulp) == (2**63, 2**63)
    assert (found.worst_index, found.worst_target, found.worst_golden) == (0, 2**63 - 1, 2**64 - 1)


def test_indices_count_complex_numbers_once() -> None:
    target, golden = np.array([1, nan + 0j, 5 + 9j], "<c8"), np.array([1, 2, 5 + 7j], "<c8")
    found = compare(target, dtypes.COMPLEX64, golden, dtypes.COMPLEX64)
    assert (found.worst_index, found.first_special_mismatch, found.notes) == (2, 1, (COMPLEX,))


# Divergence


def test_divergence_of_constant_tensors() -> None:
    assert of([5, 5, 5], [-3, -3, -3]).kl_divergence == 0
    # P is 1/2 each; Q is 2**-23 and 1, divided by their sum.
    small, total = 2.0**-23, 1 + 2.0**-23
    expected = 0.5 * log(0.5 / (small / total)) + 0.5 * log(0.5 / (1 / total))
    assert of([7, 7], [0, 4]).kl_divergence == close(expected)
    assert of([1e308, 1e308], [0, 4]).kl_divergence == close(expected)


def test_divergence_of_numbers_at_the_ends_of_the_range() -> None:
    wide, narrow = [-1.7e308, 0, 1.7e308], [-1.7, 0, 1.7]
    assert of(wide, [1, 2, 4]).kl_divergence == close(of(narrow, [1, 2, 4]).kl_divergence or 0)
    large = np.array([2**62, 2**62 + 1, 2**62 + 3])
    sums = measure(large, dtypes.INT64, large - 2**62, dtypes.INT64)
    assert measure_kl(large, dtypes.INT64, large - 2**62, dtypes.INT64, sums=sums) == 0


@given(st.data(), st.sampled_from(WIDE_FLOATS), st.integers(1, 10))
def test_divergence_is_never_negative(data: st.DataObject, dtype: DType, size: int) -> None:
    target, golden = data.draw(finite_codes(dtype, size)), data.draw(finite_codes(dtypes.INT16, size))
    assert (compare(target, dtype, golden, dtypes.INT16).kl_divergence or 0) >= 0


# Linear fit


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_fit_finds_scale_and_offset(kernel: str) -> None:
    golden = np.linspace(-3, 5, 4001)
    found = metrics_of(sums_by(kernel, 1.25 * golden - 0.5, golden), None)
    assert found.fit_scale == pytest.approx(1.25)
    assert found.fit_offset == pytest.approx(-0.5)
    assert found.fit_distance == pytest.approx(0, abs=1e-7)
    assert (found.target_min, found.target_max) == (-4.25, 5.75)
    assert (found.golden_min, found.golden_max) == (-3.0, 5.0)


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_fit_has_a_residual(kernel: str) -> None:
    golden = np.linspace(-1, 1, 2001)
    noise = np.where(np.arange(2001) % 2, 0.1, -0.1)
    found = metrics_of(sums_by(kernel, golden + noise, golden), None)
    expected = np.linalg.norm(noise) / np.linalg.norm(golden)
    assert found.fit_distance == pytest.approx(expected, rel=1e-3)


def test_constant_golden_has_no_fit() -> None:
    found = metrics_of(measure(np.arange(5.0), dtypes.FLOAT64, np.full(5, 2.0), dtypes.FLOAT64), None)
    assert (found.fit_scale, found.fit_offset, found.fit_distance) == (None, None, None)


def sums_by(kernel: str, target: AnyArray, golden: AnyArray) -> Sums:
    if kernel == "numpy":
        return measure(target, dtypes.FLOAT64, golden, dtypes.FLOAT64)
    return measured(by_kernel(Stored(target, dtypes.FLOAT64), Stored(golden, dtypes.FLOAT64)))[0]

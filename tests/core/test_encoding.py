"""Encoding of numbers: rounding, saturation, and unrepresentable values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from element_types import (
    OPAQUE,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    all_codes,
    typed_codes,
)
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import DType, Kind
from opdiff.core.errors import ElementError

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray


@given(typed_codes())
def test_encode_inverts_decode(typed: tuple[DType, AnyArray]) -> None:
    dtype, codes = typed
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    parts = (numbers.real, numbers.imag) if dtype.kind is Kind.COMPLEX else (numbers,)
    whole = ~np.any([np.isnan(part) for part in parts], axis=0)
    expected = np.not_equal(codes, 0) if dtype is dtypes.BOOL else codes
    np.testing.assert_array_equal(back[whole], expected[whole])
    np.testing.assert_array_equal(elements.decode(back, dtype), numbers)


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, *SMALL_INTEGERS, dtypes.BFLOAT16], ids=str)
def test_encode_inverts_decode_for_all_codes_of_small_types(dtype: DType) -> None:
    codes = all_codes(dtype)
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    whole = ~np.isnan(numbers)
    np.testing.assert_array_equal(back[whole], codes[whole])
    assert np.isnan(elements.decode(back[~whole], dtype)).all()


# Ties in both directions, the largest and smallest numbers, NaNs that rounding could make infinite.
BIT_PATTERNS = (0x3F80_8000, 0x3F81_8000, 0x7F7F_FFFF, 0x7F7F_8000, 0x0000_8001, 0x7F80_0001, 0x7FFF_FFFF, 0xFFFF_FFFF)


@given(hnp.arrays(np.uint32, st.integers(0, 8)))
@example(np.array(BIT_PATTERNS, np.uint32))
def test_bfloat16_rounds_like_ml_dtypes(patterns: AnyArray) -> None:
    values = patterns.view(np.float32)
    codes = elements.encode(values, dtypes.BFLOAT16)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(codes[numbers], values[numbers].astype(ml_dtypes.bfloat16).view(np.uint16))
    nans = elements.decode(codes[~numbers], dtypes.BFLOAT16)
    assert np.isnan(nans).all()
    np.testing.assert_array_equal(np.signbit(nans), np.signbit(values[~numbers]))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        # Slightly above the middle of 1 and the next number: rounded to float32 first, it would be a tie and go down.
        (1 + 2.0**-8 + 2.0**-40, 0x3F81),
        (1 + 2.0**-8, 0x3F80),
        (1 + 3 * 2.0**-8 - 2.0**-40, 0x3F81),
        (1 + 3 * 2.0**-8, 0x3F82),
        (-1 - 2.0**-8 - 2.0**-40, 0xBF81),
        (1e300, 0x7F80),
        (-1e300, 0xFF80),
        (-1e-300, 0x8000),
        (2.0**-134, 0x0000),
        (2.0**-134 + 2.0**-180, 0x0001),
    ],
)
def test_float64_to_bfloat16_avoids_double_rounding(value: float, code: int) -> None:
    assert elements.encode(np.array([value]), dtypes.BFLOAT16).tolist() == [code]


def test_complex128_to_complex32_avoids_double_rounding() -> None:
    value = np.array([complex(1 + 2.0**-11 + 2.0**-40, -1 - 2.0**-11)])
    assert elements.encode(value, dtypes.COMPLEX32).tolist() == [0xBC00_3C01]


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (dtypes.FLOAT16, 65520.0, math.inf),
        (dtypes.FLOAT16, -1e300, -math.inf),
        (dtypes.FLOAT32, 1e300, math.inf),
        (dtypes.COMPLEX32, 1e6 - 1e6j, complex(math.inf, -math.inf)),
        (dtypes.COMPLEX64, 1e300 + 0j, complex(math.inf, 0)),
    ],
    ids=str,
)
def test_floats_overflow_to_infinity(dtype: DType, value: complex, expected: complex) -> None:
    assert elements.decode(elements.encode(np.array([value]), dtype), dtype).tolist() == [expected]


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_small_floats_round_to_nearest_even_code(dtype: DType) -> None:
    table = elements.value_table(dtype)
    codes = np.flatnonzero(np.isfinite(table) & ~(np.signbit(table) & (table == 0)))
    codes = codes[np.argsort(table[codes])]
    for left, right in zip(codes[:-1].tolist(), codes[1:].tolist(), strict=True):
        middle = (table[left] + table[right]) / 2
        even = next(code for code in (left, right) if code % 2 == 0)
        around = np.array([np.nextafter(middle, -math.inf), middle, np.nextafter(middle, math.inf)])
        chosen = elements.decode(elements.encode(around, dtype), dtype)
        assert chosen.tolist() == [table[left], table[even], table[right]]


@given(st.sampled_from(SMALL_FLOATS), st.floats(allow_nan=False, allow_infinity=False), st.integers(-24, 16))
def test_encode_returns_the_nearest_code(dtype: DType, value: float, exponent: int) -> None:
    # Most floats are out of range of these types; scale the significand.
    value = math.ldexp(math.frexp(value)[0], exponent)
    if dtype is dtypes.FLOAT8_E8M0:
        value = abs(value)
    chosen = elements.decode(elements.encode(np.array([value]), dtype), dtype)[0]
    table = elements.value_table(dtype)
    distances = [abs(Fraction(number) - Fraction(value)) for number in table[np.isfinite(table)].tolist()]
    assert abs(Fraction(float(chosen)) - Fraction(value)) == min(distances)


@given(st.floats(-57344, 57344))
def test_8_bit_floats_round_like_ml_dtypes(value: float) -> None:
    values = np.array([value], np.float32)
    assert elements.encode(values, dtypes.FLOAT8_E5M2) == values.astype(ml_dtypes.float8_e5m2).view(np.uint8)
    values /= 128
    assert elements.encode(values, dtypes.FLOAT8_E4M3FN) == values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


LARGEST = {
    "hifloat8": (32768.0, math.inf), "float8_e5m2": (57344.0, math.inf), "float8_e4m3fn": (448.0, 448.0),
    "float8_e8m0": (2.0**127, 2.0**127), "float6_e3m2": (28.0, 28.0), "float6_e2m3": (7.5, 7.5),
    "float4_e2m1": (6.0, 6.0), "float4_e1m2": (1.75, 1.75),
}  # fmt: skip


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_small_floats_saturate(dtype: DType) -> None:
    largest, infinite = LARGEST[dtype.name]
    values, expected = [largest, 1e300, math.inf], [largest, largest, infinite]
    if dtype is not dtypes.FLOAT8_E8M0:
        values, expected = values + [-v for v in values], expected + [-v for v in expected]
    assert elements.decode(elements.encode(np.array(values), dtype), dtype).tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        (dtypes.HIFLOAT8, 0x00),  # 0x80 is its NaN: the sign of a zero is lost
        (dtypes.FLOAT8_E5M2, 0x80),
        (dtypes.FLOAT8_E4M3FN, 0x80),
        (dtypes.FLOAT6_E3M2, 0x20),
        (dtypes.FLOAT6_E2M3, 0x20),
        (dtypes.FLOAT4_E2M1, 0x08),
        (dtypes.FLOAT4_E1M2, 0x08),
        (dtypes.BFLOAT16, 0x8000),
    ],
    ids=str,
)
def test_negative_zero(dtype: DType, code: int) -> None:
    assert (
        elements.encode(np.array([-0.0, -1e-30]) if dtype.bits <= 8 else np.array([-0.0] * 2), dtype).tolist()
        == [code] * 2
    )


def test_float8_e8m0_has_no_zero() -> None:
    assert elements.encode(np.array([0.0, 1e-300]), dtypes.FLOAT8_E8M0).tolist() == [0, 0]


@pytest.mark.parametrize(
    "dtype", [dtypes.HIFLOAT8, dtypes.FLOAT8_E5M2, dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E8M0], ids=str
)
@pytest.mark.parametrize("nan", [math.nan, -math.nan], ids=["plus", "minus"])
def test_nan_of_either_sign_stays_nan(dtype: DType, nan: float) -> None:
    assert np.isnan(elements.decode(elements.encode(np.array([nan]), dtype), dtype)).all()


def test_integers_round_to_even() -> None:
    values = np.array([-8.4, -1.5, -0.5, 0.5, 1.5, 2.5, 7.4])
    assert elements.decode(elements.encode(values, dtypes.INT4), dtypes.INT4).tolist() == [-8, -2, 0, 0, 2, 2, 7]
    assert elements.encode(values, dtypes.INT32).tolist() == [-8, -2, 0, 0, 2, 2, 7]


REFUSED: list[tuple[DType, list[Any], str]] = [
    (dtypes.FLOAT8_E8M0, [1.0, -1.0], "cannot represent negative numbers"),
    (dtypes.FLOAT6_E3M2, [math.nan], "cannot represent NaN"),
    (dtypes.FLOAT6_E2M3, [math.nan], "cannot represent NaN"),
    (dtypes.FLOAT4_E2M1, [0.0, math.nan], "cannot represent NaN"),
    (dtypes.FLOAT4_E1M2, [math.nan], "cannot represent NaN"),
    (dtypes.INT4, [-9, 3], "represents -8..7, the values are -9..3"),
    (dtypes.INT4, [8], "represents -8..7, the values are 8..8"),
    (dtypes.UINT1, [2], "represents 0..1, the values are 2..2"),
    (dtypes.UINT2, [-1], "represents 0..3, the values are -1..-1"),
    (dtypes.INT2, [2], "represents -2..1, the values are 2..2"),
    (dtypes.UINT8, [256], "represents 0..255, the values are 256..256"),
    (dtypes.INT64, [2.0**63], f"represents {-(2**63)}..{2**63 - 1}, the values are {2.0**63}..{2.0**63}"),
    (dtypes.QUINT16, [-1], "represents 0..65535, the values are -1..-1"),
    (dtypes.INT32, [math.nan], "cannot represent NaN or infinity"),
    (dtypes.INT4, [-math.inf], "cannot represent NaN or infinity"),
    (dtypes.FLOAT32, [1j], "cannot represent complex numbers"),
    (dtypes.BFLOAT16, [1j], "cannot represent complex numbers"),
    (dtypes.INT8, [1j], "cannot represent complex numbers"),
]


@pytest.mark.parametrize(("dtype", "values", "problem"), REFUSED, ids=str)
def test_encode_rejects_unrepresentable_values(dtype: DType, values: list[Any], problem: str) -> None:
    with pytest.raises(ElementError) as caught:
        elements.encode(np.array(values), dtype)
    assert str(caught.value) == f"element type {dtype}: {problem}"


@pytest.mark.parametrize("dtype", OPAQUE, ids=str)
def test_opaque_types_are_rejected(dtype: DType) -> None:
    for attempt in (
        lambda: elements.unpack(bytes(64), dtype, 1),
        lambda: elements.pack(np.array([1], np.uint8), dtype),
        lambda: elements.decode(np.array([1], np.uint8), dtype),
        lambda: elements.encode(np.array([1], np.uint8), dtype),
    ):
        with pytest.raises(ElementError) as caught:
            attempt()
        assert str(caught.value) == f"element type {dtype}: {dtype.opaque}"


@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=5).filter(lambda dims: 20_000 < np.prod(dims) < 400_000),
    seed=st.integers(0, 2**16),
)
def test_contiguous_copies_any_view_in_row_major_order(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = np.arange(np.prod(shape), dtype=np.int32).reshape(shape).transpose(rng.permutation(len(shape)))
    view = whole[tuple(slice(int(rng.integers(0, 2)), None, int(rng.integers(1, 3))) for _ in shape)]
    view = view[::-1] if seed % 2 else view
    result = elements.contiguous(view)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, view)


def test_contiguous_returns_a_row_major_array_itself() -> None:
    array = np.zeros((300, 300))
    assert elements.contiguous(array) is array
    assert elements.contiguous(np.zeros((0, 3)).T).shape == (3, 0)

"""How the codes of each element type are packed and what they mean, against independent oracles."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import en_dtypes
import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opdiff import dtypes, elements
from opdiff.dtypes import DType, Kind
from opdiff.errors import ElementError

if TYPE_CHECKING:
    from opdiff.elements import AnyArray

ALL = tuple(dtypes.BY_NUMBER.values())
KNOWN = [dtype for dtype in ALL if dtype.kind is not Kind.OPAQUE]
OPAQUE = [dtype for dtype in ALL if dtype.kind is Kind.OPAQUE]
SMALL_FLOATS = [dtype for dtype in KNOWN if dtype.kind is Kind.FLOAT and dtype.bits <= 8]
SMALL_INTEGERS = [dtypes.INT4, dtypes.INT2, dtypes.UINT2, dtypes.UINT1]
UNDER_A_BYTE = [dtype for dtype in KNOWN if dtype.bits < 8]

any_known = st.sampled_from(KNOWN)


@st.composite
def codes_of(draw: st.DrawFn, dtype: DType) -> AnyArray:
    """Codes of `dtype`, every bit pattern possible, in arrays of any rank, empty ones included."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
    raw = draw(st.binary(min_size=dtype.nbytes(math.prod(shape)), max_size=dtype.nbytes(math.prod(shape))))
    return elements.unpack(raw, dtype, math.prod(shape)).reshape(shape)


@st.composite
def typed_codes(draw: st.DrawFn) -> tuple[DType, AnyArray]:
    dtype = draw(any_known)
    return dtype, draw(codes_of(dtype))


def assert_same_numbers(actual: AnyArray, expected: AnyArray) -> None:
    """Equal in value and, where they are floats, in the sign of every zero."""
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


def all_codes(dtype: DType) -> AnyArray:
    return np.arange(1 << dtype.bits, dtype=dtype.storage)


# From bytes to codes and back.


def _codes(*codes: int) -> AnyArray:
    return np.array(codes, np.uint8)


PACKED: list[tuple[DType, str, list[int]]] = [
    # Highest bit first.
    (dtypes.UINT1, "b2", [1, 0, 1, 1, 0, 0, 1, 0]),
    (dtypes.UINT1, "80", [1]),
    (dtypes.UINT1, "0180", [0, 0, 0, 0, 0, 0, 0, 1, 1]),
    # Lowest bits first.
    (dtypes.INT4, "21", [0x1, 0x2]),
    (dtypes.INT4, "2103", [0x1, 0x2, 0x3]),
    (dtypes.FLOAT4_E2M1, "7f", [0xF, 0x7]),
    (dtypes.FLOAT4_E1M2, "08", [0x8]),
    (dtypes.INT2, "e4", [0, 1, 2, 3]),
    (dtypes.UINT2, "1b", [3, 2, 1, 0]),
    (dtypes.UINT2, "e401", [0, 1, 2, 3, 1]),
    # Four 6-bit codes in three bytes: 1, 2, 3, 63 = 0x01 | 0x02 << 6 | 0x03 << 12 | 0x3f << 18.
    (dtypes.FLOAT6_E3M2, "8130fc", [1, 2, 3, 63]),
    (dtypes.FLOAT6_E2M3, "3f", [63]),
    (dtypes.FLOAT6_E2M3, "c10f", [1, 63]),
    (dtypes.FLOAT6_E2M3, "8130fc2a", [1, 2, 3, 63, 0x2A]),
    (dtypes.BOOL, "0001ff", [0, 1, 255]),
    (dtypes.BFLOAT16, "803f20c1", [0x3F80, 0xC120]),
    (dtypes.COMPLEX32, "003c00c0", [0xC000_3C00]),
    (dtypes.UINT64, "ffffffffffffffff", [2**64 - 1]),
    (dtypes.RESOURCE, "ffffffffffffffff", [-1]),
]


@pytest.mark.parametrize(("dtype", "stored", "codes"), PACKED, ids=str)
def test_bytes_and_codes(dtype: DType, stored: str, codes: list[int]) -> None:
    unpacked = elements.unpack(bytes.fromhex(stored), dtype, len(codes))
    assert (unpacked.tolist(), unpacked.dtype) == (codes, np.dtype(dtype.storage))
    assert elements.pack(np.array(codes, dtype.storage), dtype).hex() == stored


@given(typed_codes())
def test_unpack_undoes_pack(typed: tuple[DType, AnyArray]) -> None:
    dtype, codes = typed
    packed = elements.pack(codes, dtype)
    assert len(packed) == dtype.nbytes(codes.size)
    assert elements.unpack(packed, dtype, codes.size).tobytes() == codes.tobytes()


@given(st.data(), any_known)
def test_pack_undoes_unpack_of_whole_bytes(data: st.DataObject, dtype: DType) -> None:
    # lcm(bits, 8) bits are the least that hold whole elements in whole bytes.
    unit = math.lcm(dtype.bits, 8) // 8
    raw = data.draw(st.binary(max_size=4).map(lambda head: head * unit))
    assert elements.pack(elements.unpack(raw, dtype, len(raw) * 8 // dtype.bits), dtype) == raw


@given(st.data(), any_known)
def test_bytes_behind_the_last_element_are_not_looked_at(data: st.DataObject, dtype: DType) -> None:
    codes = data.draw(codes_of(dtype))
    padded = elements.pack(codes, dtype) + data.draw(st.binary(max_size=20))
    assert elements.unpack(padded, dtype, codes.size).tobytes() == codes.tobytes()


@pytest.mark.parametrize("dtype", UNDER_A_BYTE, ids=str)
def test_unused_bits_of_the_last_byte_are_not_looked_at(dtype: DType) -> None:
    count = 1 if dtype.bits != 6 else 3
    np.testing.assert_array_equal(
        elements.unpack(b"\xff" * dtype.nbytes(count), dtype, count), np.full(count, (1 << dtype.bits) - 1)
    )


@pytest.mark.parametrize("dtype", [dtypes.FLOAT32, dtypes.BFLOAT16, dtypes.HIFLOAT8], ids=str)
def test_whole_byte_codes_are_a_view_of_the_bytes(dtype: DType) -> None:
    raw = bytearray(16)
    codes = elements.unpack(memoryview(raw), dtype, 4)
    raw[0] = 1
    assert codes.view(np.uint8)[0] == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_pack_is_row_major_whatever_the_memory_order(order: Any) -> None:
    assert elements.pack(np.array([[1, 2], [3, 4]], np.uint8, order=order), dtypes.INT4).hex() == "2143"
    assert elements.pack(np.array([[1, 2], [3, 4]], "<i2", order=order), dtypes.INT16).hex() == "0100020003000400"


def test_pack_stores_little_endian() -> None:
    assert elements.pack(np.array([1], ">i4"), dtypes.INT32).hex() == "01000000"


@pytest.mark.parametrize(
    ("dtype", "nbytes", "wanted", "stored"),
    [
        (dtypes.FLOAT32, 11, 3, 2),
        (dtypes.FLOAT32, 3, 1, 0),
        (dtypes.UINT1, 1, 9, 8),
        (dtypes.INT4, 1, 3, 2),
        (dtypes.FLOAT6_E2M3, 2, 3, 2),
        (dtypes.COMPLEX128, 15, 1, 0),
        (dtypes.INT8, 0, 1, 0),
        (dtypes.INT8, 1, 2**70, 1),
    ],
    ids=str,
)
def test_too_few_bytes_are_refused_with_both_counts(dtype: DType, nbytes: int, wanted: int, stored: int) -> None:
    with pytest.raises(ElementError) as caught:
        elements.unpack(bytes(nbytes), dtype, wanted)
    assert str(caught.value) == f"element type {dtype}: {stored} elements are stored, {wanted} are wanted"


# From codes to numbers.

# Bit patterns of each type as others decode them.
ORACLES: list[tuple[DType, type]] = [
    (dtypes.FLOAT8_E5M2, ml_dtypes.float8_e5m2),
    (dtypes.FLOAT8_E4M3FN, ml_dtypes.float8_e4m3fn),
    (dtypes.FLOAT8_E8M0, ml_dtypes.float8_e8m0fnu),
    (dtypes.FLOAT8_E8M0, en_dtypes.float8_e8m0),
    (dtypes.FLOAT6_E3M2, ml_dtypes.float6_e3m2fn),
    (dtypes.FLOAT6_E3M2, en_dtypes.float6_e3m2),
    (dtypes.FLOAT6_E2M3, ml_dtypes.float6_e2m3fn),
    (dtypes.FLOAT6_E2M3, en_dtypes.float6_e2m3),
    (dtypes.FLOAT4_E2M1, ml_dtypes.float4_e2m1fn),
    (dtypes.FLOAT4_E2M1, en_dtypes.float4_e2m1),
    (dtypes.FLOAT4_E1M2, en_dtypes.float4_e1m2),
    (dtypes.HIFLOAT8, en_dtypes.hifloat8),
    (dtypes.INT4, ml_dtypes.int4),
    (dtypes.INT2, ml_dtypes.int2),
    (dtypes.UINT2, ml_dtypes.uint2),
    (dtypes.UINT1, ml_dtypes.uint1),
    (dtypes.BFLOAT16, ml_dtypes.bfloat16),
]


@pytest.mark.parametrize(("dtype", "oracle"), ORACLES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_code_decodes_as_the_oracle_has_it(dtype: DType, oracle: type) -> None:
    codes = all_codes(dtype)
    decoded = elements.decode(codes, dtype)
    assert decoded.dtype == dtype.decoded
    # Not every oracle converts to every type; float32 holds all of these numbers.
    wide = np.int8 if dtype.kind is Kind.INTEGER else np.float32
    assert_same_numbers(decoded, codes.view(oracle).astype(wide).astype(dtype.decoded))


def test_every_small_type_has_an_oracle() -> None:
    assert {dtype.name for dtype in SMALL_FLOATS + SMALL_INTEGERS} <= {dtype.name for dtype, _ in ORACLES}


INFINITY, NAN = math.inf, math.nan
# Written down from the published descriptions, as a check on the oracles too.
LANDMARKS: list[tuple[DType, dict[int, float]]] = [
    (
        dtypes.HIFLOAT8,
        {
            0x00: 0.0, 0x80: NAN, 0x6F: INFINITY, 0xEF: -INFINITY, 0x01: 2.0**-22, 0x07: 2.0**-16, 0x81: -(2.0**-22),
            0x08: 1.0, 0x0F: 1.875, 0x88: -1.0, 0x10: 2.0, 0x17: 3.75, 0x18: 0.5, 0x1F: 0.9375, 0x9F: -0.9375,
            0x20: 4.0, 0x2F: 15.0, 0x30: 0.25, 0x38: 0.125, 0x40: 16.0, 0x4F: 224.0, 0x50: 0.0625, 0x60: 256.0,
            0x6E: 32768.0, 0x70: 2.0**-8, 0x7E: 2.0**-15, 0x7F: 1.5 * 2.0**-15,
        },
    ),
    (
        dtypes.FLOAT8_E5M2,
        {
            0x00: 0.0, 0x80: -0.0, 0x01: 2.0**-16, 0x04: 2.0**-14, 0x3C: 1.0, 0x7B: 57344.0, 0x7C: INFINITY,
            0xFC: -INFINITY, 0x7D: NAN, 0x7F: NAN, 0xFD: NAN,
        },
    ),
    (
        dtypes.FLOAT8_E4M3FN,
        {
            0x00: 0.0, 0x80: -0.0, 0x01: 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0x7E: 448.0, 0xFE: -448.0, 0x7F: NAN,
            0xFF: NAN,
        },
    ),
    (dtypes.FLOAT8_E8M0, {0x00: 2.0**-127, 0x7F: 1.0, 0x80: 2.0, 0xFE: 2.0**127, 0xFF: NAN}),
    (dtypes.FLOAT6_E3M2, {0x00: 0.0, 0x20: -0.0, 0x01: 0.0625, 0x04: 0.25, 0x0C: 1.0, 0x1F: 28.0, 0x3F: -28.0}),
    (dtypes.FLOAT6_E2M3, {0x00: 0.0, 0x20: -0.0, 0x01: 0.125, 0x08: 1.0, 0x1F: 7.5, 0x3F: -7.5}),
    (dtypes.FLOAT4_E2M1, dict(enumerate([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]))),
    (
        dtypes.FLOAT4_E1M2,
        dict(enumerate([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, -0.0, -0.25, -0.5, -0.75, -1, -1.25, -1.5, -1.75])),
    ),
    (
        dtypes.BFLOAT16,
        {0x0000: 0.0, 0x8000: -0.0, 0x0001: 2.0**-133, 0x3F80: 1.0, 0xC120: -10.0, 0x7F80: INFINITY, 0x7FC0: NAN},
    ),
    (dtypes.BOOL, {0: False, 1: True, 2: True, 255: True}),
    (dtypes.INT4, {0: 0, 7: 7, 8: -8, 15: -1}),
    (dtypes.QUINT8, {0: 0, 255: 255}),
    (dtypes.DUAL_SUB_UINT8, {0: 0, 255: 255}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "landmarks"), LANDMARKS, ids=lambda value: str(value) if isinstance(value, DType) else ""
)
def test_published_codes(dtype: DType, landmarks: dict[int, float]) -> None:
    decoded = elements.decode(np.array(list(landmarks), dtype.storage), dtype)
    assert_same_numbers(decoded, np.array(list(landmarks.values()), dtype.decoded))


def test_bfloat16_keeps_every_bit_of_every_nan() -> None:
    codes = all_codes(dtypes.BFLOAT16)
    np.testing.assert_array_equal(
        elements.decode(codes, dtypes.BFLOAT16).view(np.uint32), codes.astype(np.uint32) << 16
    )


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (dtypes.INT64, -(2**63), 2**63 - 1),
        (dtypes.RESOURCE, -(2**63), 2**63 - 1),
        (dtypes.UINT64, 0, 2**64 - 1),
        (dtypes.QINT32, -(2**31), 2**31 - 1),
        (dtypes.QINT16, -(2**15), 2**15 - 1),
        (dtypes.QUINT16, 0, 2**16 - 1),
        (dtypes.UINT32, 0, 2**32 - 1),
        (dtypes.QINT8, -128, 127),
        (dtypes.UNDEFINED, -128, 127),
        (dtypes.DUAL_SUB_INT8, -128, 127),
    ],
    ids=str,
)
def test_integers_stay_whole_numbers_to_their_last_digit(dtype: DType, low: int, high: int) -> None:
    raw = low.to_bytes(dtype.bits // 8, "little", signed=low < 0) + high.to_bytes(dtype.bits // 8, "little")
    assert elements.decode(elements.unpack(raw, dtype, 2), dtype).tolist() == [low, high]


def test_complex32_is_two_float16_the_real_part_first() -> None:
    raw = np.array([1.5, -2.0, math.inf, -0.0, 65504, 2**-24], "<f2").tobytes()
    decoded = elements.decode(elements.unpack(raw, dtypes.COMPLEX32, 3), dtypes.COMPLEX32)
    assert decoded.tolist() == [1.5 - 2j, complex(math.inf, -0.0), complex(65504, 2**-24)]
    assert np.signbit(decoded[1].imag)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)], ids=str)
def test_arrays_stay_arrays_of_their_shape(dtype: DType, shape: tuple[int, ...]) -> None:
    codes = np.zeros(shape, dtype.storage)
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    assert isinstance(numbers, np.ndarray)
    assert isinstance(back, np.ndarray)
    assert (numbers.shape, numbers.dtype) == (shape, np.dtype(dtype.decoded))
    assert (back.shape, back.dtype) == (shape, np.dtype(dtype.storage))


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_memory_order_of_codes_does_not_matter(dtype: DType) -> None:
    codes = elements.unpack(bytes(range(0, 200, 2)), dtype, 6).reshape(2, 3)
    plain = elements.decode(codes, dtype)
    for order in (np.asfortranarray, lambda array: array[::-1, ::-1].copy()[::-1, ::-1]):
        np.testing.assert_array_equal(elements.decode(order(codes), dtype), plain)
        np.testing.assert_array_equal(elements.encode(order(plain), dtype), elements.encode(plain, dtype))


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.FLOAT64, dtypes.INT32, dtypes.COMPLEX64], ids=str)
def test_codes_that_are_numbers_already_are_not_copied(dtype: DType) -> None:
    codes = np.zeros(3, dtype.storage)
    assert elements.decode(codes, dtype) is codes


def test_value_tables_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        elements.value_table(dtypes.HIFLOAT8)[0] = 1


# From numbers to codes.


@given(typed_codes())
def test_encode_undoes_decode(typed: tuple[DType, AnyArray]) -> None:
    dtype, codes = typed
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    parts = (numbers.real, numbers.imag) if dtype.kind is Kind.COMPLEX else (numbers,)
    whole = ~np.any([np.isnan(part) for part in parts], axis=0)
    expected = np.not_equal(codes, 0) if dtype is dtypes.BOOL else codes
    np.testing.assert_array_equal(back[whole], expected[whole])
    np.testing.assert_array_equal(elements.decode(back, dtype), numbers)


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, *SMALL_INTEGERS, dtypes.BFLOAT16], ids=str)
def test_encode_undoes_decode_for_every_code(dtype: DType) -> None:
    codes = all_codes(dtype)
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    whole = ~np.isnan(numbers)
    np.testing.assert_array_equal(back[whole], codes[whole])
    assert np.isnan(elements.decode(back[~whole], dtype)).all()


# Beyond random patterns: ties both ways, the largest numbers, the smallest, NaNs that rounding could make infinite.
BIT_PATTERNS = (0x3F80_8000, 0x3F81_8000, 0x7F7F_FFFF, 0x7F7F_8000, 0x0000_8001, 0x7F80_0001, 0x7FFF_FFFF, 0xFFFF_FFFF)


@given(hnp.arrays(np.uint32, st.integers(0, 8)))
@example(np.array(BIT_PATTERNS, np.uint32))
def test_bfloat16_rounds_as_the_oracle(patterns: AnyArray) -> None:
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
        # A hair above the middle of 1 and the next number: rounded to float32 first, it would be a tie and go down.
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
def test_float64_is_rounded_once_to_bfloat16(value: float, code: int) -> None:
    assert elements.encode(np.array([value]), dtypes.BFLOAT16).tolist() == [code]


def test_complex_numbers_are_rounded_once_to_complex32() -> None:
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
def test_wider_floats_become_infinite_beyond_their_range(dtype: DType, value: complex, expected: complex) -> None:
    assert elements.decode(elements.encode(np.array([value]), dtype), dtype).tolist() == [expected]


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_between_two_numbers_the_nearer_is_taken_and_halfway_the_even_code(dtype: DType) -> None:
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
def test_no_other_code_is_nearer(dtype: DType, value: float, exponent: int) -> None:
    # Most floats are far beyond these types; bring the significand into their range.
    value = math.ldexp(math.frexp(value)[0], exponent)
    if dtype is dtypes.FLOAT8_E8M0:
        value = abs(value)
    chosen = elements.decode(elements.encode(np.array([value]), dtype), dtype)[0]
    table = elements.value_table(dtype)
    distances = [abs(Fraction(number) - Fraction(value)) for number in table[np.isfinite(table)].tolist()]
    assert abs(Fraction(float(chosen)) - Fraction(value)) == min(distances)


@given(st.floats(-57344, 57344))
def test_float8_e5m2_rounds_as_the_oracle(value: float) -> None:
    values = np.array([value], np.float32)
    assert elements.encode(values, dtypes.FLOAT8_E5M2) == values.astype(ml_dtypes.float8_e5m2).view(np.uint8)


@given(st.floats(-448, 448))
def test_float8_e4m3fn_rounds_as_the_oracle(value: float) -> None:
    values = np.array([value], np.float32)
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
def test_minus_zero(dtype: DType, code: int) -> None:
    assert (
        elements.encode(np.array([-0.0, -1e-30]) if dtype.bits <= 8 else np.array([-0.0] * 2), dtype).tolist()
        == [code] * 2
    )


def test_the_scale_type_has_no_zero() -> None:
    assert elements.encode(np.array([0.0, 1e-300]), dtypes.FLOAT8_E8M0).tolist() == [0, 0]


@pytest.mark.parametrize(
    "dtype", [dtypes.HIFLOAT8, dtypes.FLOAT8_E5M2, dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E8M0], ids=str
)
@pytest.mark.parametrize("nan", [math.nan, -math.nan], ids=["plus", "minus"])
def test_nan_stays_nan_whatever_its_sign(dtype: DType, nan: float) -> None:
    assert np.isnan(elements.decode(elements.encode(np.array([nan]), dtype), dtype)).all()


def test_integers_round_to_even() -> None:
    values = np.array([-8.4, -1.5, -0.5, 0.5, 1.5, 2.5, 7.4])
    assert elements.decode(elements.encode(values, dtypes.INT4), dtypes.INT4).tolist() == [-8, -2, 0, 0, 2, 2, 7]
    assert elements.encode(values, dtypes.INT32).tolist() == [-8, -2, 0, 0, 2, 2, 7]


REFUSED: list[tuple[DType, list[Any], str]] = [
    (dtypes.FLOAT8_E8M0, [1.0, -1.0], "cannot hold negative numbers"),
    (dtypes.FLOAT6_E3M2, [math.nan], "cannot hold NaN"),
    (dtypes.FLOAT6_E2M3, [math.nan], "cannot hold NaN"),
    (dtypes.FLOAT4_E2M1, [0.0, math.nan], "cannot hold NaN"),
    (dtypes.FLOAT4_E1M2, [math.nan], "cannot hold NaN"),
    (dtypes.INT4, [-9, 3], "holds -8..7, the values are -9..3"),
    (dtypes.INT4, [8], "holds -8..7, the values are 8..8"),
    (dtypes.UINT1, [2], "holds 0..1, the values are 2..2"),
    (dtypes.UINT2, [-1], "holds 0..3, the values are -1..-1"),
    (dtypes.INT2, [2], "holds -2..1, the values are 2..2"),
    (dtypes.UINT8, [256], "holds 0..255, the values are 256..256"),
    (dtypes.INT64, [2.0**63], f"holds {-(2**63)}..{2**63 - 1}, the values are {2.0**63}..{2.0**63}"),
    (dtypes.QUINT16, [-1], "holds 0..65535, the values are -1..-1"),
    (dtypes.INT32, [math.nan], "cannot hold NaN or infinity"),
    (dtypes.INT4, [-math.inf], "cannot hold NaN or infinity"),
    (dtypes.FLOAT32, [1j], "cannot hold complex numbers"),
    (dtypes.BFLOAT16, [1j], "cannot hold complex numbers"),
    (dtypes.INT8, [1j], "cannot hold complex numbers"),
]


@pytest.mark.parametrize(("dtype", "values", "problem"), REFUSED, ids=str)
def test_what_a_type_cannot_hold_is_refused(dtype: DType, values: list[Any], problem: str) -> None:
    with pytest.raises(ElementError) as caught:
        elements.encode(np.array(values), dtype)
    assert str(caught.value) == f"element type {dtype}: {problem}"


@pytest.mark.parametrize("dtype", OPAQUE, ids=str)
def test_types_without_numbers_are_refused_everywhere(dtype: DType) -> None:
    for attempt in (
        lambda: elements.unpack(bytes(64), dtype, 1),
        lambda: elements.pack(_codes(1), dtype),
        lambda: elements.decode(_codes(1), dtype),
        lambda: elements.encode(_codes(1), dtype),
    ):
        with pytest.raises(ElementError) as caught:
            attempt()
        assert str(caught.value) == f"element type {dtype}: {dtype.why}"


@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=5).filter(lambda dims: 20_000 < np.prod(dims) < 400_000),
    seed=st.integers(0, 2**16),
)
def test_contiguous_is_a_row_major_copy_of_any_view(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = np.arange(np.prod(shape), dtype=np.int32).reshape(shape).transpose(rng.permutation(len(shape)))
    view = whole[tuple(slice(int(rng.integers(0, 2)), None, int(rng.integers(1, 3))) for _ in shape)]
    view = view[::-1] if seed % 2 else view
    result = elements.contiguous(view)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, view)


def test_contiguous_leaves_a_row_major_array_alone() -> None:
    array = np.zeros((300, 300))
    assert elements.contiguous(array) is array
    assert elements.contiguous(np.zeros((0, 3)).T).shape == (3, 0)

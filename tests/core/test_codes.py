"""Unpacking, packing and decoding of all element types, against independent oracles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import en_dtypes
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from element_types import (
    KNOWN,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    UNDER_A_BYTE,
    all_codes,
    any_known,
    assert_same_numbers,
    codes_of,
    typed_codes,
)
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import DType, Kind
from opdiff.core.errors import ElementError

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray


# Bytes and codes

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
def test_pack_and_unpack_of_known_bytes(dtype: DType, stored: str, codes: list[int]) -> None:
    unpacked = elements.unpack(bytes.fromhex(stored), dtype, len(codes))
    assert (unpacked.tolist(), unpacked.dtype) == (codes, np.dtype(dtype.storage))
    assert elements.pack(np.array(codes, dtype.storage), dtype).hex() == stored


@given(typed_codes())
def test_unpack_inverts_pack(typed: tuple[DType, AnyArray]) -> None:
    dtype, codes = typed
    packed = elements.pack(codes, dtype)
    assert len(packed) == dtype.nbytes(codes.size)
    assert elements.unpack(packed, dtype, codes.size).tobytes() == codes.tobytes()


@given(st.data(), any_known)
def test_pack_inverts_unpack_of_whole_bytes(data: st.DataObject, dtype: DType) -> None:
    # lcm(bits, 8) bits are the least that hold whole elements in whole bytes.
    unit = math.lcm(dtype.bits, 8) // 8
    raw = data.draw(st.binary(max_size=4).map(lambda head: head * unit))
    assert elements.pack(elements.unpack(raw, dtype, len(raw) * 8 // dtype.bits), dtype) == raw


@given(st.data(), any_known)
def test_bytes_after_the_last_element_are_ignored(data: st.DataObject, dtype: DType) -> None:
    codes = data.draw(codes_of(dtype))
    padded = elements.pack(codes, dtype) + data.draw(st.binary(max_size=20))
    assert elements.unpack(padded, dtype, codes.size).tobytes() == codes.tobytes()


@pytest.mark.parametrize("dtype", UNDER_A_BYTE, ids=str)
def test_unused_bits_of_the_last_byte_are_ignored(dtype: DType) -> None:
    count = 1 if dtype.bits != 6 else 3
    np.testing.assert_array_equal(
        elements.unpack(b"\xff" * dtype.nbytes(count), dtype, count), np.full(count, (1 << dtype.bits) - 1)
    )


@pytest.mark.parametrize("dtype", [dtypes.FLOAT32, dtypes.BFLOAT16, dtypes.HIFLOAT8], ids=str)
def test_codes_of_whole_bytes_are_a_view(dtype: DType) -> None:
    raw = bytearray(16)
    codes = elements.unpack(memoryview(raw), dtype, 4)
    raw[0] = 1
    assert codes.view(np.uint8)[0] == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_pack_is_row_major_for_any_memory_order(order: Any) -> None:
    assert elements.pack(np.array([[1, 2], [3, 4]], np.uint8, order=order), dtypes.INT4).hex() == "2143"
    for descr in ("<i2", ">i2"):
        codes = np.array([[1, 2], [3, 4]], descr, order=order)
        assert elements.pack(codes, dtypes.INT16).hex() == "0100020003000400"


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
def test_unpack_of_too_few_bytes_raises(dtype: DType, nbytes: int, wanted: int, stored: int) -> None:
    with pytest.raises(ElementError) as caught:
        elements.unpack(bytes(nbytes), dtype, wanted)
    assert str(caught.value) == f"element type {dtype}: {stored} elements are stored, {wanted} are needed"


# Codes and numbers

# Independent implementations of the types.
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
def test_all_codes_decode_like_the_oracle(dtype: DType, oracle: type) -> None:
    codes = all_codes(dtype)
    decoded = elements.decode(codes, dtype)
    assert decoded.dtype == dtype.decoded
    # Oracles do not convert to all types; float32 represents all of these numbers.
    wide = np.int8 if dtype.kind is Kind.INTEGER else np.float32
    assert_same_numbers(decoded, codes.view(oracle).astype(wide).astype(dtype.decoded))


def test_every_small_type_has_an_oracle() -> None:
    assert {dtype.name for dtype in SMALL_FLOATS + SMALL_INTEGERS} <= {dtype.name for dtype, _ in ORACLES}


INFINITY, NAN = math.inf, math.nan
# From the published descriptions, as a check of the oracles.
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
def test_codes_of_the_published_formats(dtype: DType, landmarks: dict[int, float]) -> None:
    decoded = elements.decode(np.array(list(landmarks), dtype.storage), dtype)
    assert_same_numbers(decoded, np.array(list(landmarks.values()), dtype.decoded))


def test_bfloat16_keeps_nan_payloads() -> None:
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
def test_integers_decode_exactly(dtype: DType, low: int, high: int) -> None:
    raw = low.to_bytes(dtype.bits // 8, "little", signed=low < 0) + high.to_bytes(dtype.bits // 8, "little")
    assert elements.decode(elements.unpack(raw, dtype, 2), dtype).tolist() == [low, high]


def test_complex32_is_two_float16_values() -> None:
    raw = np.array([1.5, -2.0, math.inf, -0.0, 65504, 2**-24], "<f2").tobytes()
    decoded = elements.decode(elements.unpack(raw, dtypes.COMPLEX32, 3), dtypes.COMPLEX32)
    assert decoded.tolist() == [1.5 - 2j, complex(math.inf, -0.0), complex(65504, 2**-24)]
    assert np.signbit(decoded[1].imag)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)], ids=str)
def test_decode_and_encode_keep_the_shape(dtype: DType, shape: tuple[int, ...]) -> None:
    codes = np.zeros(shape, dtype.storage)
    numbers = elements.decode(codes, dtype)
    back = elements.encode(numbers, dtype)
    assert isinstance(numbers, np.ndarray)
    assert isinstance(back, np.ndarray)
    assert (numbers.shape, numbers.dtype) == (shape, np.dtype(dtype.decoded))
    assert (back.shape, back.dtype) == (shape, np.dtype(dtype.storage))


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_decode_and_encode_of_any_memory_order(dtype: DType) -> None:
    codes = elements.unpack(bytes(range(0, 200, 2)), dtype, 6).reshape(2, 3)
    plain = elements.decode(codes, dtype)
    for order in (np.asfortranarray, lambda array: array[::-1, ::-1].copy()[::-1, ::-1]):
        np.testing.assert_array_equal(elements.decode(order(codes), dtype), plain)
        np.testing.assert_array_equal(elements.encode(order(plain), dtype), elements.encode(plain, dtype))


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.FLOAT64, dtypes.INT32, dtypes.COMPLEX64], ids=str)
def test_decode_does_not_copy_native_numbers(dtype: DType) -> None:
    codes = np.zeros(3, dtype.storage)
    assert elements.decode(codes, dtype) is codes


def test_value_tables_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        elements.value_table(dtypes.HIFLOAT8)[0] = 1

"""Table of the element types of dumps, and the values of small floats; see `codes` for conversions of arrays.

Sizes are in bits, because types of 1, 2, 4 and 6 bits exist. Nano dumps number the types differently.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.reasons import Reason


class Kind(StrEnum):
    """Kinds of element types."""

    FLOAT = "float"
    INTEGER = "integer"
    BOOL = "bool"
    COMPLEX = "complex"
    OPAQUE = "opaque"


class FloatFormat(Struct, frozen=True):
    """Bit fields of a float of at most 8 bits: sign, exponent, mantissa, from the highest bit down.

    `specials` are the codes that are not finite: "ieee" (highest exponent: infinity and NaN), "nan" (all bits set is
    NaN, no infinity) or "none".
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str
    signed: bool = True


class DType(Struct, frozen=True, cache_hash=True):
    """An element type.

    Attributes:
        name: name in results and file names.
        bits: stored bits of an element; 0 if elements have no fixed size.
        kind: kind of numbers.
        storage: NumPy type of a code; types under 8 bits use a byte for each code. Empty if opaque.
        decoded: NumPy type of the numbers, in which every code is exact. Empty if opaque.
        float_format: bit fields of floats of at most 8 bits; `None` for other types and HiFloat8.
        opaque: why codes of this type cannot be decoded; `None` if they can.
    """

    name: str
    bits: int
    kind: Kind
    storage: str = ""
    decoded: str = ""
    float_format: FloatFormat | None = None
    opaque: Reason | None = None

    @property
    def is_native(self) -> bool:
        """Whether stored codes are NumPy numbers, which need no decoding."""
        plain = BY_NAME.get(self.decoded)
        return plain is not None and plain.storage == self.storage and self.bits >= 8 and self.kind is not Kind.BOOL

    def nbytes(self, count: int) -> int:
        """Return the size of `count` elements in bytes, rounded up."""
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[..., DType], tuple[object, ...]]:
        """Unpickle types of the table to the same object, so that they can be compared by `is` in any process."""
        if BY_NAME.get(self.name) is self:
            return _from_table, (self.name,)
        return DType, (self.name, self.bits, self.kind, self.storage, self.decoded, self.float_format, self.opaque)


def _from_table(name: str) -> DType:
    return BY_NAME[name]


def _plain(name: str, kind: Kind, storage: str) -> DType:
    return DType(name, int(storage[2:]) * 8, kind, storage, name)


def _small(name: str, bits: int, fields: FloatFormat | None) -> DType:
    return DType(name, bits, Kind.FLOAT, "|u1", "float64", fields)


def _opaque(name: str, bits: int, reason: Reason) -> DType:
    return DType(name, bits, Kind.OPAQUE, opaque=reason)


FLOAT16 = _plain("float16", Kind.FLOAT, "<f2")
FLOAT32 = _plain("float32", Kind.FLOAT, "<f4")
FLOAT64 = _plain("float64", Kind.FLOAT, "<f8")
INT8 = _plain("int8", Kind.INTEGER, "|i1")
INT16 = _plain("int16", Kind.INTEGER, "<i2")
INT32 = _plain("int32", Kind.INTEGER, "<i4")
INT64 = _plain("int64", Kind.INTEGER, "<i8")
UINT8 = _plain("uint8", Kind.INTEGER, "|u1")
UINT16 = _plain("uint16", Kind.INTEGER, "<u2")
UINT32 = _plain("uint32", Kind.INTEGER, "<u4")
UINT64 = _plain("uint64", Kind.INTEGER, "<u8")
COMPLEX64 = _plain("complex64", Kind.COMPLEX, "<c8")
COMPLEX128 = _plain("complex128", Kind.COMPLEX, "<c16")
BOOL = DType("bool", 8, Kind.BOOL, "|u1", "bool")
BFLOAT16 = DType("bfloat16", 16, Kind.FLOAT, "<u2", "float32")
COMPLEX32 = DType("complex32", 32, Kind.COMPLEX, "<u4", "complex64")
UNDEFINED = DType("undefined", 8, Kind.INTEGER, "|i1", "int8")
RESOURCE = DType("resource", 64, Kind.INTEGER, "<i8", "int64")
DUAL_SUB_INT8 = DType("dual_sub_int8", 8, Kind.INTEGER, "|i1", "int8")
DUAL_SUB_UINT8 = DType("dual_sub_uint8", 8, Kind.INTEGER, "|u1", "uint8")
QINT8 = DType("qint8", 8, Kind.INTEGER, "|i1", "int8")
QINT16 = DType("qint16", 16, Kind.INTEGER, "<i2", "int16")
QINT32 = DType("qint32", 32, Kind.INTEGER, "<i4", "int32")
QUINT8 = DType("quint8", 8, Kind.INTEGER, "|u1", "uint8")
QUINT16 = DType("quint16", 16, Kind.INTEGER, "<u2", "uint16")
INT4 = DType("int4", 4, Kind.INTEGER, "|u1", "int8")
INT2 = DType("int2", 2, Kind.INTEGER, "|u1", "int8")
UINT2 = DType("uint2", 2, Kind.INTEGER, "|u1", "uint8")
UINT1 = DType("uint1", 1, Kind.INTEGER, "|u1", "uint8")
HIFLOAT8 = _small("hifloat8", 8, None)
FLOAT8_E5M2 = _small("float8_e5m2", 8, FloatFormat(5, 2, 15, "ieee"))
FLOAT8_E4M3FN = _small("float8_e4m3fn", 8, FloatFormat(4, 3, 7, "nan"))
FLOAT8_E8M0 = _small("float8_e8m0", 8, FloatFormat(8, 0, 127, "nan", signed=False))
FLOAT6_E3M2 = _small("float6_e3m2", 6, FloatFormat(3, 2, 3, "none"))
FLOAT6_E2M3 = _small("float6_e2m3", 6, FloatFormat(2, 3, 1, "none"))
FLOAT4_E2M1 = _small("float4_e2m1", 4, FloatFormat(2, 1, 1, "none"))
FLOAT4_E1M2 = _small("float4_e1m2", 4, FloatFormat(1, 2, 1, "none"))
STRING = _opaque("string", 0, because("core.string_elements"))
STRING_REF = _opaque("string_ref", 0, because("core.string_elements"))
DUAL = _opaque("dual", 40, because("core.private_pair"))
VARIANT = _opaque("variant", 64, because("core.object_handle"))
HIFLOAT4 = _opaque("hifloat4", 4, because("core.private_encoding"))
HIFLOAT4_SCALE = _opaque("hifloat4_scale", 0, because("core.private_encoding"))

BY_NUMBER: dict[int, DType] = dict(
    enumerate(
        (
            UNDEFINED, FLOAT32, FLOAT16, INT8, UINT8, INT16, UINT16, INT32, INT64, UINT32,
            UINT64, BOOL, FLOAT64, STRING, DUAL_SUB_INT8, DUAL_SUB_UINT8, COMPLEX64, COMPLEX128, QINT8, QINT16,
            QINT32, QUINT8, QUINT16, RESOURCE, STRING_REF, DUAL, VARIANT, BFLOAT16, INT4, UINT1,
            INT2, UINT2, COMPLEX32, HIFLOAT8, FLOAT8_E5M2, FLOAT8_E4M3FN, FLOAT8_E8M0, FLOAT6_E3M2, FLOAT6_E2M3,
            FLOAT4_E2M1, FLOAT4_E1M2, HIFLOAT4, HIFLOAT4_SCALE,
        )
    )
)  # fmt: skip

NANO_BY_NUMBER: dict[int, DType] = {
    0: FLOAT32, 1: FLOAT16, 2: INT8, 3: INT32, 4: UINT8, 6: INT16, 7: UINT16, 8: UINT32, 9: INT64, 10: UINT64,
    11: FLOAT64, 12: BOOL, 13: STRING, 14: DUAL_SUB_INT8, 15: DUAL_SUB_UINT8, 16: COMPLEX64, 17: COMPLEX128,
    18: QINT8, 19: QINT16, 20: QINT32, 21: QUINT8, 22: QUINT16, 23: RESOURCE, 24: STRING_REF, 25: DUAL, 26: VARIANT,
    27: BFLOAT16, 28: UNDEFINED, 29: INT4, 30: UINT1, 31: INT2, 32: UINT2,
}  # fmt: skip

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in BY_NUMBER.values()}

_BY_NUMPY: dict[str, DType] = {
    dtype.storage[1:]: dtype
    for dtype in (
        FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, COMPLEX64, COMPLEX128,
    )
} | {"b1": BOOL, "V2": BFLOAT16}  # fmt: skip


def unknown(number: int) -> DType:
    """Return an opaque type for an unknown type number, so that the rest of the file can be read."""
    return _opaque(f"type_{number}", 0, because("core.unknown_type_number", number=number))


def find_numpy(descr: str) -> DType | None:
    """Return the element type of a NumPy type string such as `<f4`; `None` if its elements are not numbers."""
    return _BY_NUMPY.get(descr[1:])


_GRAPH_NAMES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_BF16": "bfloat16"}


def name_in_graph(text: str) -> str:
    """Return the name of an element type that rule files and graph texts write as `DT_FLOAT16`."""
    return _GRAPH_NAMES.get(text, text.removeprefix("DT_").lower())


_LARGEST_FINITE = {
    FLOAT16: 65504.0,
    BFLOAT16: (2 - 2.0**-7) * 2.0**127,
    FLOAT32: (2 - 2.0**-23) * 2.0**127,
    FLOAT64: (2 - 2.0**-52) * 2.0**1023,
}


@lru_cache(maxsize=32)
def largest_finite(dtype: DType) -> float | None:
    """Return the largest finite number of a float type; `None` for other types."""
    if dtype.kind is not Kind.FLOAT:
        return None
    if dtype in _LARGEST_FINITE:
        return _LARGEST_FINITE[dtype]
    return max(value for code in range(1 << dtype.bits) if isfinite(value := small_float_value(code, dtype)))


def small_float_value(code: int, dtype: DType) -> float:
    """Return the number of a code of a float type of at most 8 bits."""
    return _hifloat8(code) if dtype.float_format is None else _small_float(code, dtype.float_format)


def _small_float(code: int, fields: FloatFormat) -> float:
    width = fields.exponent_bits + fields.mantissa_bits
    sign = -1.0 if fields.signed and code >> width else 1.0
    exponent = code >> fields.mantissa_bits & ((1 << fields.exponent_bits) - 1)
    fraction = code & ((1 << fields.mantissa_bits) - 1)
    if fields.specials == "nan" and code & ((1 << width) - 1) == (1 << width) - 1:
        return float("nan")
    if fields.specials == "ieee" and exponent == (1 << fields.exponent_bits) - 1:
        return float("nan") if fraction else sign * float("inf")
    if exponent == 0 and fields.mantissa_bits:
        return sign * float(fraction) * 2.0 ** (1 - fields.bias - fields.mantissa_bits)
    significand = fraction + (1 << fields.mantissa_bits)
    return sign * float(significand) * 2.0 ** (exponent - fields.bias - fields.mantissa_bits)


def _hifloat8(code: int) -> float:
    """Decode HiFloat8, in which a prefix gives the number of exponent bits: precision decreases with magnitude."""
    sign = -1.0 if code & 0x80 else 1.0
    low = code & 0x7F
    if low == 0:
        return float("nan") if code else 0.0
    if low == 0x6F:
        return sign * float("inf")
    if low < 0x08:
        return sign * 2.0 ** (low - 23)
    if low < 0x10:
        return sign * (1 + (low & 7) / 8)
    width = 1 if low < 0x20 else 1 + (low >> 5)
    mantissa_bits = min(3, 5 - width)
    field = low >> mantissa_bits & ((1 << width) - 1)
    magnitude = (1 << (width - 1)) + (field & ((1 << (width - 1)) - 1))
    exponent = -magnitude if field >> (width - 1) else magnitude
    fraction = (low & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    return sign * 2.0**exponent * (1 + fraction)

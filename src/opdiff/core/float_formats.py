"""Floats of at most 8 bits, code by code, and the ends of the float types."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING

from opdiff.core import dtypes

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType, SmallFloat

_LARGEST = {
    dtypes.FLOAT16: 65504.0,
    dtypes.BFLOAT16: (2 - 2.0**-7) * 2.0**127,
    dtypes.FLOAT32: (2 - 2.0**-23) * 2.0**127,
    dtypes.FLOAT64: (2 - 2.0**-52) * 2.0**1023,
}


@lru_cache(maxsize=32)
def largest(dtype: DType) -> float | None:
    """The largest finite number of a float type; `None` for other types."""
    if dtype.kind is not dtypes.Kind.FLOAT:
        return None
    if dtype in _LARGEST:
        return _LARGEST[dtype]
    return max(value for code in range(1 << dtype.bits) if isfinite(value := small_value(code, dtype)))


def small_value(code: int, dtype: DType) -> float:
    """The number of a code of a float type of at most 8 bits."""
    return _hifloat8(code) if dtype.small is None else _small_float(code, dtype.small)


def _small_float(code: int, fields: SmallFloat) -> float:
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
    """HiFloat8: a prefix tells how many of the lower bits are exponent, so precision tapers off at the ends."""
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

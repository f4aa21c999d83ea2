"""Distances between two numbers in units of the last place of a float type."""

from __future__ import annotations

from math import frexp, ldexp
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core import dtypes
from opdiff.core.dtypes import Kind

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType

# Fraction bits, and the exponent of the smallest normal number. HiFloat8 with its highest precision, around 1.
_FIELDS = {
    dtypes.FLOAT64: (52, -1022),
    dtypes.FLOAT32: (23, -126),
    dtypes.FLOAT16: (10, -14),
    dtypes.BFLOAT16: (7, -126),
    dtypes.HIFLOAT8: (3, -15),
}


class UlpScale(NamedTuple):
    """Unit in the last place of a float type; 1 for integers, whose `digits` are -1.

    Attributes:
        digits: fraction bits.
        min_exponent: exponent of the smallest normal number; below it the unit is constant.
    """

    digits: int = -1
    min_exponent: int = 0

    def distance(self, target: float, golden: float) -> float:
        """Return |target - golden| in units at the larger of both."""
        size = abs(target - golden)
        if self.digits < 0:
            return size
        larger = max(abs(target), abs(golden))
        exponent = max(frexp(larger)[1] - 1 if larger else self.min_exponent, self.min_exponent)
        try:
            return ldexp(size, self.digits - exponent)
        except OverflowError:
            return float("inf")


def find_scale(target: DType, golden: DType) -> UlpScale:
    """Return the unit of the float type with fewer digits, of the target if equal; of integers without floats."""
    floats = [dtype for dtype in (target, golden) if dtype.kind is Kind.FLOAT]
    return min((_scale(dtype) for dtype in floats), key=lambda scale: scale.digits, default=UlpScale())


def _scale(dtype: DType) -> UlpScale:
    if dtype.float_format is not None:
        return UlpScale(dtype.float_format.mantissa_bits, max(1 - dtype.float_format.bias, -126))
    return UlpScale(*_FIELDS[dtype])

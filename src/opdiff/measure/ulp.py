"""How many representable numbers lie between two numbers: the distance in units of the last place."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opdiff import dtypes, elements
from opdiff.dtypes import Kind

if TYPE_CHECKING:
    from opdiff.dtypes import DType
    from opdiff.measure.numbers import Floats

Distances = npt.NDArray[np.uint64]

_FRACTION_BITS = {dtypes.FLOAT64: 52, dtypes.FLOAT32: 23, dtypes.FLOAT16: 10, dtypes.BFLOAT16: 7, dtypes.HIFLOAT8: 3}


def find_coarser(target: DType, golden: DType) -> DType | None:
    """The float type with fewer digits, the target's when both have as many; `None` when neither is a float type."""
    floats = [dtype for dtype in (target, golden) if dtype.kind is Kind.FLOAT]
    return min(floats, key=_fraction_bits, default=None)


def distances(target: Floats, golden: Floats, dtype: DType) -> Distances:
    """Steps from the one number to the other among the numbers of `dtype`, to which both are rounded first."""
    first, second = _place(target, dtype), _place(golden, dtype)
    if dtype is not dtypes.FLOAT64:
        return np.asarray(np.abs(first - second)).view(np.uint64)
    # From the lowest to the highest float64 is more than an int64 holds.
    sizes = np.abs(first).view(np.uint64), np.abs(second).view(np.uint64)
    opposite = (first < 0) != (second < 0)
    return np.where(opposite, sizes[0] + sizes[1], np.maximum(*sizes) - np.minimum(*sizes))


def _fraction_bits(dtype: DType) -> int:
    return dtype.small.mantissa_bits if dtype.small else _FRACTION_BITS[dtype]


def _place(values: Floats, dtype: DType) -> npt.NDArray[np.int64]:
    """The place of each number in the row of all numbers of the type; 0 is at place 0."""
    if dtype.bits <= 8:
        numbers, borders = _row(dtype)
        zero = int(np.searchsorted(numbers, 0.0))
        return np.searchsorted(borders, values) - zero
    if dtype is dtypes.BFLOAT16:
        bits: npt.NDArray[Any] = elements.encode(values, dtype).view(np.int16)
    else:
        bits = values.astype(dtype.storage).view(f"<i{dtype.bits // 8}")
    # Codes are a sign and a size: below zero they run backwards.
    wide = bits.astype(np.int64)
    size, sign = wide & np.iinfo(bits.dtype).max, wide >> 63
    return np.asarray((size ^ sign) - sign)


@lru_cache(maxsize=16)
def _row(dtype: DType) -> tuple[Floats, Floats]:
    """All finite numbers of a small type, ascending, and the borders between them."""
    table = elements.value_table(dtype)
    numbers = np.unique(table[np.isfinite(table)])
    return numbers, (numbers[1:] + numbers[:-1]) / 2

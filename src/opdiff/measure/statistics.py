"""What the values of one tensor are like, in one pass over blocks, so that memory does not grow with the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opdiff import elements
from opdiff.dtypes import Kind
from opdiff.errors import ElementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.dtypes import DType
    from opdiff.elements import AnyArray

# Small enough for the caches, large enough that calls do not matter.
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures over the finite values; `None` where there are none. Integers stay exact."""

    count: int
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    zeros: int
    nans: int
    infs: int


def describe(codes: AnyArray, dtype: DType) -> Statistics:
    """Statistics of the numbers that `codes` stand for.

    Raises:
        ElementError: complex numbers have no order, opaque types no numbers.
    """
    if dtype.kind is Kind.COMPLEX:
        raise ElementError(dtype.name, "complex numbers have no smallest and largest")
    lows: list[float | int] = []
    highs: list[float | int] = []
    sums: list[float | int] = []
    zeros = nans = infs = finite = 0
    for values in _blocks(codes, dtype):
        kept = values[np.isfinite(values)] if dtype.kind is Kind.FLOAT else values
        nans += int(np.count_nonzero(np.isnan(values))) if dtype.kind is Kind.FLOAT else 0
        infs += int(np.count_nonzero(np.isinf(values))) if dtype.kind is Kind.FLOAT else 0
        zeros += int(kept.size - np.count_nonzero(kept))
        finite += kept.size
        if kept.size:
            lows.append(kept.min().item())
            highs.append(kept.max().item())
            sums.append(_sum(kept, dtype))
    mean = sum(sums) / finite if finite else None
    return Statistics(codes.size, min(lows, default=None), max(highs, default=None), mean, zeros, nans, infs)


def constant_value(codes: AnyArray, dtype: DType) -> float | int | complex | None:
    """The one number that all elements are, or `None` when they differ. Ends at the first difference."""
    flat = codes.reshape(-1)
    if not flat.size or any(np.any(flat[start : start + _BLOCK] != flat[0]) for start in range(0, flat.size, _BLOCK)):
        return None
    value: float | int | complex = elements.decode(flat[:1], dtype)[0].item()
    return value


def _blocks(codes: AnyArray, dtype: DType) -> Iterator[AnyArray]:
    flat = codes.reshape(-1)
    return (elements.decode(flat[start : start + _BLOCK], dtype) for start in range(0, flat.size, _BLOCK))


def _sum(values: AnyArray, dtype: DType) -> float | int:
    if dtype.kind is Kind.FLOAT:
        with np.errstate(over="ignore"):
            return float(values.sum(dtype=np.float64))
    if dtype.bits < 64:
        return int(values.sum(dtype=np.int64))
    # A block of 64-bit integers can exceed 64 bits: add the halves.
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())

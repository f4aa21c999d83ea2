"""What the values of one tensor are like, in one pass over blocks, so that memory does not grow with the tensor."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.errors import ElementError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

# Small enough for the caches, large enough that calls do not matter.
_BLOCK = 1 << 16


class Statistics(NamedTuple):
    """Figures over the finite values; `None` where there are none. Integers stay exact."""

    count: int  # type: ignore[assignment]  # hides tuple.count
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
    total = Fraction()
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
            total += _sum(kept, dtype)
    if not finite:
        return Statistics(codes.size, None, None, None, zeros, nans, infs)
    low, high = min(lows), max(highs)
    # Rounding may carry a sum of floats past the ends of the range.
    mean = float(min(max(total / finite, Fraction(low)), Fraction(high)))
    return Statistics(codes.size, low, high, mean, zeros, nans, infs)


def constant_value(codes: AnyArray, dtype: DType) -> float | int | complex | None:
    """The one number that all elements are, NaN included, or `None` when they differ. Ends at the first difference."""
    first: AnyArray | None = None
    for values in _blocks(codes, dtype):
        first = values[:1].copy() if first is None else first
        is_nan = dtype.kind in (Kind.FLOAT, Kind.COMPLEX) and bool(np.isnan(first[0]))
        if not (np.isnan(values) if is_nan else values == first).all():
            return None
    return None if first is None else first[0].item()


def _blocks(codes: AnyArray, dtype: DType) -> Iterator[AnyArray]:
    """The numbers in the order in which they lie in memory; a block is gone when the next one comes."""
    flags: list[Any] = ["external_loop", "buffered", "zerosize_ok"]
    parts = np.nditer(codes, flags, order="K", buffersize=_BLOCK)
    return (elements.decode(np.asarray(part), dtype) for part in parts)


def _sum(values: AnyArray, dtype: DType) -> Fraction:
    """The sum of a block, exact for integers; for floats what float64 gives, beyond its range too."""
    if dtype.kind is Kind.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(values.sum(dtype=np.float64))
        return Fraction(total) if isfinite(total) else Fraction(float((values / _BLOCK).sum())) * _BLOCK
    if dtype.bits < 64:
        return Fraction(int(values.sum(dtype=np.int64)))
    # A block of 64-bit integers can exceed 64 bits: add the halves.
    return Fraction((int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum()))

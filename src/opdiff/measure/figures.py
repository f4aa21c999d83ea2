"""What the numbers of one tensor are like, block by block: extremes, mean, norm, what is not finite, a histogram."""

from __future__ import annotations

import math
from math import nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.statistics import Figures
from opdiff.measure.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

BINS = 64
"""Equal parts of the range in a histogram."""

_BLOCK = 1 << 16


def figures_of(codes: AnyArray, dtype: DType, wanted: Collection[str] = ("mean", "l2norm", "specials")) -> Figures:
    """The figures of a tensor in its logical shape.

    Smallest and largest are always there; `wanted` adds `mean`, `l2norm`, `specials`, `crc32` and `histogram`. Complex
    numbers are taken as their parts. A NaN makes the first four NaN, as in NumPy.

    Raises:
        ElementError: the type has no numbers.
    """
    lows: list[float | int] = []
    highs: list[float | int] = []
    count = nans = infs = 0
    total = squares = 0.0
    for block in _blocks(codes, dtype):
        count += block.size
        wide = block.astype(np.float64)
        # Integers of 64 bits would be rounded; floats of 16 bits are slow to work with.
        exact = wide if block.dtype.kind == "f" else block
        low, high = exact.min().item(), exact.max().item()
        lows.append(low)
        highs.append(high)
        if not (math.isfinite(low) and math.isfinite(high)):
            nans += int(np.count_nonzero(np.isnan(wide)))
            infs += int(np.count_nonzero(np.isinf(wide)))
        with np.errstate(all="ignore"):
            total += float(wide.sum())
            squares += float(np.square(wide, out=wide).sum())
    low, high, mean, norm = _together(lows, highs, total, squares, count, has_nan=nans > 0)
    return Figures(
        low,
        high,
        mean if "mean" in wanted else None,
        norm if "l2norm" in wanted else None,
        nans if "specials" in wanted else None,
        infs if "specials" in wanted else None,
        crc32(codes, dtype) if "crc32" in wanted else "",
        dtype.name,
        codes.shape,
        _histogram(codes, dtype) if "histogram" in wanted else (),
    )


def _together(
    lows: list[float | int], highs: list[float | int], total: float, squares: float, count: int, *, has_nan: bool
) -> tuple[float | int | None, float | int | None, float | None, float | None]:
    if not count:
        return None, None, None, None
    if has_nan:
        return nan, nan, nan, nan
    return min(lows), max(highs), total / count, sqrt(squares)


def _blocks(codes: AnyArray, dtype: DType) -> Iterator[AnyArray]:
    """The numbers in row-major order; a block is gone when the next one comes."""
    flat = elements.contiguous(codes).reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        numbers = elements.decode(flat[start : start + _BLOCK], dtype)
        if dtype.kind is Kind.COMPLEX:
            numbers = np.ascontiguousarray(numbers).view(numbers.real.dtype)
        elif dtype.kind is Kind.BOOL:
            numbers = numbers.astype(np.uint8)
        yield numbers


def _histogram(codes: AnyArray, dtype: DType) -> tuple[int, ...]:
    finite = (block[np.isfinite(block)].astype(np.float64) for block in _blocks(codes, dtype))
    parts = [(float(block.min()), float(block.max())) for block in finite if block.size]
    if not parts:
        return ()
    low, high = min(part[0] for part in parts), max(part[1] for part in parts)
    if not np.isfinite(high - low):
        return ()
    counts = np.zeros(BINS, np.int64)
    for block in _blocks(codes, dtype):
        wide = block.astype(np.float64)
        counts += np.histogram(wide[np.isfinite(wide)], BINS, (low, high))[0]
    return tuple(counts.tolist())

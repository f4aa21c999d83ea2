"""Statistics and checksum of one tensor, block by block, so that memory does not grow with the tensor."""

from __future__ import annotations

import zlib
from fractions import Fraction
from math import isfinite, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind, largest_finite
from opdiff.core.errors import ElementError
from opdiff.core.metrics import TensorStats
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

HISTOGRAM_BINS = 64
"""Equal parts of the range in a histogram."""

# Fits in the caches; the overhead of calls is negligible.
_BLOCK = 1 << 16
_CHECKSUM_BLOCK = 1 << 20


# Over all elements


def tensor_stats(
    codes: AnyArray, dtype: DType, requested: Collection[str] = ("mean", "l2norm", "specials")
) -> TensorStats:
    """Return the statistics of a tensor in its logical shape.

    Minimum and maximum are always included; `requested` adds `mean`, `l2norm`, `specials`, `crc32` and `histogram`.
    Complex numbers are taken as their parts. A NaN makes the first four NaN, as in NumPy.

    Raises:
        ElementError: the type has no numbers.
    """
    lows: list[float | int] = []
    highs: list[float | int] = []
    count = nans = infs = 0
    total = squares = 0.0
    for block in _iter_rows(codes, dtype):
        count += block.size
        wide = block.astype(np.float64)
        # 64-bit integers would be rounded; 16-bit floats are slow.
        exact = wide if block.dtype.kind == "f" else block
        low, high = exact.min().item(), exact.max().item()
        lows.append(low)
        highs.append(high)
        if not (isfinite(low) and isfinite(high)):
            nans += int(np.count_nonzero(np.isnan(wide)))
            infs += int(np.count_nonzero(np.isinf(wide)))
        with np.errstate(all="ignore"):
            total += float(wide.sum())
            squares += float(np.square(wide, out=wide).sum())
    minimum, maximum, mean, norm = None, None, None, None
    if count:
        numbers = (nan,) * 4 if nans else (min(lows), max(highs), total / count, sqrt(squares))
        minimum, maximum, mean, norm = numbers
    return TensorStats(
        minimum,
        maximum,
        mean if "mean" in requested else None,
        norm if "l2norm" in requested else None,
        nans if "specials" in requested else None,
        infs if "specials" in requested else None,
        crc32(codes, dtype) if "crc32" in requested else "",
        dtype.name,
        codes.shape,
        _histogram(codes, dtype) if "histogram" in requested else (),
    )


def _iter_rows(codes: AnyArray, dtype: DType) -> Iterator[AnyArray]:
    """Yield the numbers in row-major order."""
    flat = elements.contiguous(codes).reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        numbers = elements.decode(flat[start : start + _BLOCK], dtype)
        if dtype.kind is Kind.COMPLEX:
            numbers = np.ascontiguousarray(numbers).view(numbers.real.dtype)
        elif dtype.kind is Kind.BOOL:
            numbers = numbers.astype(np.uint8)
        yield numbers


def _histogram(codes: AnyArray, dtype: DType) -> tuple[int, ...]:
    finite = (block[np.isfinite(block)].astype(np.float64) for block in _iter_rows(codes, dtype))
    parts = [(float(block.min()), float(block.max())) for block in finite if block.size]
    if not parts:
        return ()
    low, high = min(part[0] for part in parts), max(part[1] for part in parts)
    if not np.isfinite(high - low):
        return ()
    counts = np.zeros(HISTOGRAM_BINS, np.int64)
    for block in _iter_rows(codes, dtype):
        wide = block.astype(np.float64)
        counts += np.histogram(wide[np.isfinite(wide)], HISTOGRAM_BINS, (low, high))[0]
    return tuple(counts.tolist())


def crc32(codes: AnyArray, dtype: DType) -> str:
    """Return eight hexadecimal digits: the CRC-32 of the values in row-major order, little-endian.

    bfloat16 is widened to float32, as frameworks without bfloat16 store it.
    """
    value = 0
    flat = elements.contiguous(codes).reshape(-1)
    for start in range(0, flat.size, _CHECKSUM_BLOCK):
        block = flat[start : start + _CHECKSUM_BLOCK]
        numbers = elements.decode(block, dtype) if dtype is dtypes.BFLOAT16 else block
        value = zlib.crc32(np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")).data, value)
    return f"{value:08x}"


# Over finite elements


class FiniteStats(Struct, frozen=True):
    """Statistics of the finite values; `None` if there are none. Integers stay exact."""

    count: int
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    zeros: int
    nans: int
    infs: int


def finite_stats(codes: AnyArray, dtype: DType) -> FiniteStats:
    """Return the statistics of the finite numbers.

    Raises:
        ElementError: complex numbers have no order, opaque types no numbers.
    """
    if dtype.kind is Kind.COMPLEX:
        raise ElementError(dtype.name, because("measure.complex_order"))
    lows: list[float | int] = []
    highs: list[float | int] = []
    total = Fraction()
    zeros = nans = infs = finite = 0
    for values in _iter_stored(codes, dtype):
        chosen = values[np.isfinite(values)] if dtype.kind is Kind.FLOAT else values
        nans += int(np.count_nonzero(np.isnan(values))) if dtype.kind is Kind.FLOAT else 0
        infs += int(np.count_nonzero(np.isinf(values))) if dtype.kind is Kind.FLOAT else 0
        zeros += int(chosen.size - np.count_nonzero(chosen))
        finite += chosen.size
        if chosen.size:
            lows.append(chosen.min().item())
            highs.append(chosen.max().item())
            total += _sum(chosen, dtype)
    if not finite:
        return FiniteStats(codes.size, None, None, None, zeros, nans, infs)
    low, high = min(lows), max(highs)
    # Rounding may carry a sum of floats beyond the range.
    mean = float(min(max(total / finite, Fraction(low)), Fraction(high)))
    return FiniteStats(codes.size, low, high, mean, zeros, nans, infs)


def constant_value(codes: AnyArray, dtype: DType) -> float | int | complex | None:
    """Return the number that all elements have, NaN included; `None` if they differ. Stops at the first difference."""
    first: AnyArray | None = None
    for values in _iter_stored(codes, dtype):
        first = values[:1].copy() if first is None else first
        is_nan = dtype.kind in (Kind.FLOAT, Kind.COMPLEX) and bool(np.isnan(first[0]))
        if not (np.isnan(values) if is_nan else values == first).all():
            return None
    return None if first is None else first[0].item()


def _iter_stored(codes: AnyArray, dtype: DType) -> Iterator[AnyArray]:
    """Yield the numbers in the order of memory, without a copy of the whole tensor."""
    flags: list[Any] = ["external_loop", "buffered", "zerosize_ok"]
    parts = np.nditer(codes, flags, order="K", buffersize=_BLOCK)
    return (elements.decode(np.asarray(part), dtype) for part in parts)


def _sum(values: AnyArray, dtype: DType) -> Fraction:
    """Return the sum of a block: exact for integers, in float64 for floats, without overflow."""
    if dtype.kind is Kind.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(values.sum(dtype=np.float64))
        return Fraction(total) if isfinite(total) else Fraction(float((values / _BLOCK).sum())) * _BLOCK
    if dtype.bits < 64:
        return Fraction(int(values.sum(dtype=np.int64)))
    # A block of 64-bit integers can exceed 64 bits: add the halves.
    return Fraction((int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum()))


# Outside the range of the type


class OutOfRange(Struct, frozen=True):
    """Number of elements beyond or at the limit of a float type, and the index of the first in storage order."""

    count: int = 0
    nans: int = 0
    infs: int = 0
    saturated: int = 0
    first: int | None = None

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.first is not None

    def merge(self, later: OutOfRange) -> OutOfRange:
        """Return the counts of two parts of a tensor; `later` follows this one."""
        first = self.first
        if first is None and later.first is not None:
            first = self.count + later.first
        return OutOfRange(
            self.count + later.count,
            self.nans + later.nans,
            self.infs + later.infs,
            self.saturated + later.saturated,
            first,
        )


def find_out_of_range(codes: AnyArray, dtype: DType) -> OutOfRange:
    """Count NaNs, infinities and saturated values in a block of flat codes; other types than floats have none."""
    limit = largest_finite(dtype)
    if limit is None:
        return OutOfRange(int(codes.size))
    numbers = elements.decode(codes, dtype)
    with np.errstate(invalid="ignore"):
        magnitudes = np.abs(numbers)
        bad = ~(magnitudes < limit)
    if not bad.any():
        return OutOfRange(int(codes.size))
    infs, nans = int(np.count_nonzero(np.isinf(magnitudes))), int(np.count_nonzero(np.isnan(magnitudes)))
    saturated = int(np.count_nonzero(bad)) - infs - nans
    return OutOfRange(int(codes.size), nans, infs, saturated, int(bad.argmax()))

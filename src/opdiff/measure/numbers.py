"""Numbers of any real element type as float64, without losing a digit of 64-bit integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from opdiff import dtypes, elements
from opdiff.dtypes import Kind
from opdiff.errors import ElementError
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from opdiff.dtypes import DType
    from opdiff.elements import AnyArray

Floats = npt.NDArray[np.float64]

_PARTS = {
    dtypes.COMPLEX32: dtypes.FLOAT16,
    dtypes.COMPLEX64: dtypes.FLOAT32,
    dtypes.COMPLEX128: dtypes.FLOAT64,
}
_LOW = 0xFFFF_FFFF
# Below this every integer is a float64, and none is rounded to one.
_EXACT = float(1 << 53)


class Numbers(NamedTuple):
    """Numbers of one block, each the sum of two floats.

    Attributes:
        high: the number, or for 64-bit integers its upper 32 bits.
        low: the lower 32 bits of 64-bit integers; `None` for all other types.
        are_integers: whether the element type has integers or bools only.
    """

    high: Floats
    low: Floats | None
    are_integers: bool

    @property
    def values(self) -> Floats:
        """The numbers, rounded where 64-bit integers have more than 53 digits."""
        return self.high if self.low is None else self.high + self.low

    def minus(self, other: Numbers) -> Floats:
        """The differences; between integers each is rounded once, and zero only when they are equal."""
        if self.low is None and other.low is None:
            return self.high - other.high
        high, low = self.halves_minus(other)
        halves = high + low
        if self.are_integers and other.are_integers:
            return halves
        # Beside a float, the halves of a small integer are larger than their sum, and so would round off more.
        integers = self if self.are_integers else other
        return np.where(np.abs(integers.values) < _EXACT, self.values - other.values, halves)

    def halves_minus(self, other: Numbers) -> tuple[Floats, Floats]:
        """The differences as sums of two floats, which are exact between integers."""
        (high, low), (other_high, other_low) = self._halves(), other._halves()
        return high - other_high, low - other_low

    def _halves(self) -> tuple[Floats, Floats]:
        if self.low is not None:
            return self.high, self.low
        zeros = np.zeros_like(self.high)
        return (zeros, self.high) if self.are_integers else (self.high, zeros)

    def at(self, index: int) -> float | int:
        """One of the numbers, exactly."""
        if not self.are_integers:
            return float(self.high[index])
        return int(self.high[index]) + (0 if self.low is None else int(self.low[index]))

    def listed(self) -> list[float] | list[int]:
        """All of the numbers, exactly."""
        if not self.are_integers:
            return list(map(float, self.high.tolist()))
        highs = map(int, self.high.tolist())
        if self.low is None:
            return list(highs)
        return [high + int(low) for high, low in zip(highs, self.low.tolist(), strict=True)]

    def extremes(self) -> tuple[float | int, float | int]:
        """The smallest and the largest number, exactly."""
        lowest, highest = self.high.min(), self.high.max()
        if self.low is None:
            return (int(lowest), int(highest)) if self.are_integers else (float(lowest), float(highest))
        low = self.low[self.high == lowest].min()
        high = self.low[self.high == highest].max()
        return int(lowest) + int(low), int(highest) + int(high)

    def above(self, value: float) -> Floats:
        """How much each number is above `value`, which is one of them."""
        if self.low is None:
            return self.high - value
        return (self.high - float(int(value) & ~_LOW)) + (self.low - float(int(value) & _LOW))

    def where(self, mask: npt.NDArray[np.bool_]) -> Numbers:
        """The numbers at which `mask` is true."""
        return Numbers(self.high[mask], None if self.low is None else self.low[mask], self.are_integers)


def to_numbers(codes: AnyArray, dtype: DType) -> Numbers:
    """The numbers that `codes` of a real type stand for."""
    values = elements.decode(codes, dtype)
    is_integer = values.dtype.kind in "iub"
    if is_integer and values.dtype.itemsize == 8:
        high = np.multiply(values >> 32, float(1 << 32), dtype=np.float64)
        return Numbers(high, (values & _LOW).astype(np.float64), are_integers=True)
    # A signalling NaN is an invalid operation to the processor, and a NaN to us.
    with np.errstate(invalid="ignore"):
        return Numbers(values.astype(np.float64), None, is_integer)


def is_narrow(dtype: DType) -> bool:
    """Whether single precision holds every number of a real type."""
    return (
        dtype.decoded not in {"float64", "int32", "uint32", "int64", "uint64"}
        or dtype.small is not None
        or (dtype is dtypes.HIFLOAT8)
    )


def real_type(dtype: DType, other: DType) -> DType:
    """The type in which `dtype` is measured against `other`: itself, or for complex numbers that of their parts.

    Raises:
        ElementError: `dtype` is complex and `other` is not, or it has no numbers.
    """
    if dtype.kind is Kind.OPAQUE:
        raise ElementError(dtype.name, dtype.why)
    if dtype.kind is not Kind.COMPLEX:
        return dtype
    if other.kind is not Kind.COMPLEX:
        raise ElementError(dtype.name, f"complex numbers cannot be compared with {other.name}")
    return _PARTS[dtype]


def real_codes(codes: AnyArray, dtype: DType) -> AnyArray:
    """Flat codes of real numbers, in row-major order; of a complex number its real and its imaginary part."""
    flat = elements.contiguous(codes).reshape(-1)
    return flat.view(_PARTS[dtype].storage) if dtype.kind is Kind.COMPLEX else flat

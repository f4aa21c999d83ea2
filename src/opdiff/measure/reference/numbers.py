"""Numbers of any real element type as float64, without losing a digit of 64-bit integers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import ElementError

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

_PARTS = {
    dtypes.COMPLEX32: dtypes.FLOAT16,
    dtypes.COMPLEX64: dtypes.FLOAT32,
    dtypes.COMPLEX128: dtypes.FLOAT64,
}
_LOW = 0xFFFF_FFFF
# Below this every integer is a float64, and none is rounded to one.
_EXACT = float(1 << 53)


class Numbers(NamedTuple):
    """Numbers of one block, as floats, integers or bools that hold them."""

    decoded: AnyArray

    @property
    def are_integers(self) -> bool:
        """Whether the element type has integers or bools only."""
        return self.decoded.dtype.kind in "iub"

    @property
    def are_long(self) -> bool:
        """Whether they are integers that may have more digits than a float64."""
        return self.are_integers and self.decoded.dtype.itemsize == 8

    def values(self) -> Floats:
        """The numbers, rounded where 64-bit integers have more than 53 digits; an array of its own."""
        # A signalling NaN is an invalid operation to the processor, and a NaN to us.
        with np.errstate(invalid="ignore"):
            return self.decoded.astype(np.float64)

    def minus(self, other: Numbers) -> Floats:
        """The differences; between integers each is rounded once, and zero only when they are equal."""
        if not (self.are_long or other.are_long):
            return self.values() - other.values()
        high, low = self.halves_minus(other)
        halves = high + low
        if self.are_integers and other.are_integers:
            return halves
        # Beside a float, the halves of a small integer are larger than their sum, and so would round off more.
        integers = self if self.are_integers else other
        return np.where(np.abs(integers.values()) < _EXACT, self.values() - other.values(), halves)

    def halves_minus(self, other: Numbers) -> tuple[Floats, Floats]:
        """The differences as sums of two floats, which are exact between integers."""
        (high, low), (other_high, other_low) = self._halves(), other._halves()
        return high - other_high, low - other_low

    def _halves(self) -> tuple[Floats, Floats]:
        """Each number as the sum of two floats: of a 64-bit integer, its upper and its lower 32 bits."""
        if self.are_long:
            high = np.multiply(self.decoded >> 32, float(1 << 32), dtype=np.float64)
            return high, (self.decoded & _LOW).astype(np.float64)
        values = self.values()
        zeros = np.zeros_like(values)
        return (zeros, values) if self.are_integers else (values, zeros)

    def singles(self) -> Singles:
        """The numbers of a type that `is_narrow`, in single precision."""
        return self.decoded.astype(np.float32, copy=False)

    def at(self, index: int) -> float | int:
        """One of the numbers, exactly."""
        return self._exact(self.decoded[index])

    def listed(self) -> list[float] | list[int]:
        """All of the numbers, exactly."""
        return list(map(self._exact, self.decoded.tolist()))

    def extremes(self) -> tuple[float | int, float | int]:
        """The smallest and the largest number, exactly; NaN when one of them is NaN."""
        return self._exact(self.decoded.min()), self._exact(self.decoded.max())

    @property
    def _exact(self) -> type[int | float]:
        return int if self.are_integers else float

    def above(self, value: float) -> Floats:
        """How much each number is above `value`, which is one of them."""
        if self.are_long:
            high, low = self._halves()
            return (high - float(int(value) & ~_LOW)) + (low - float(int(value) & _LOW))
        values = self.values()
        values -= value
        return values

    def where(self, chosen: npt.NDArray[np.bool_ | np.intp]) -> Numbers:
        """The numbers at which a mask is true, or at these places."""
        return Numbers(self.decoded[chosen])


def to_numbers(codes: AnyArray, dtype: DType) -> Numbers:
    """The numbers that `codes` of a real type stand for."""
    return Numbers(_half_numbers(codes) if dtype is dtypes.FLOAT16 else elements.decode(codes, dtype))


def _half_numbers(codes: AnyArray) -> Singles:
    """Numbers of float16, looked up: NumPy converts them one by one, and slowly where zeros are among them."""
    return np.take(_half_table(), codes.view("<u2"), mode="wrap")


@lru_cache(maxsize=1)
def _half_table() -> Singles:
    with np.errstate(invalid="ignore"):
        return np.arange(1 << 16, dtype="<u2").view("<f2").astype(np.float32)


def is_narrow(dtype: DType) -> bool:
    """Whether single precision holds every number of a real type."""
    return (
        dtype.decoded not in {"float64", "int32", "uint32", "int64", "uint64"}
        or dtype.small is not None
        or (dtype is dtypes.HIFLOAT8)
    )


def is_long(dtype: DType) -> bool:
    """Whether a real type has integers with more digits than a float64."""
    return dtype.decoded in {"int64", "uint64"}


def real_type(dtype: DType, other: DType) -> DType:
    """The type in which `dtype` is measured against `other`: itself, or for complex numbers that of their parts.

    Raises:
        ElementError: `dtype` is complex and `other` is not, or it has no numbers.
    """
    if dtype.opaque is not None:
        raise ElementError(dtype.name, dtype.opaque)
    if dtype.kind is not Kind.COMPLEX:
        return dtype
    if other.kind is not Kind.COMPLEX:
        raise ElementError(dtype.name, f"complex numbers cannot be compared with {other.name}")
    return _PARTS[dtype]


def real_codes(codes: AnyArray, dtype: DType) -> AnyArray:
    """Flat codes of real numbers, in row-major order; of a complex number its real and its imaginary part."""
    flat = elements.contiguous(codes).reshape(-1)
    return flat.view(_PARTS[dtype].storage) if dtype.kind is Kind.COMPLEX else flat

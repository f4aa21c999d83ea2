"""Numbers of one block of any real element type, with exact differences of 64-bit integers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import ElementError
from opdiff.core.reasons import because
from opdiff.measure.sums import COMPLEX_PARTS

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

_LOW = 0xFFFF_FFFF
# Every integer below this magnitude is exact in float64.
_MAX_EXACT = float(1 << 53)


class BlockValues(Struct, frozen=True):
    """Numbers of one block as floats, integers or bools."""

    decoded: AnyArray

    @property
    def are_integers(self) -> bool:
        """Whether they are integers or bools."""
        return self.decoded.dtype.kind in "iub"

    @property
    def are_wide_integers(self) -> bool:
        """Whether they are integers that may exceed the precision of float64."""
        return self.are_integers and self.decoded.dtype.itemsize == 8

    def values(self) -> Floats:
        """Return the numbers as a new float64 array; 64-bit integers of more than 53 digits are rounded."""
        # Signalling NaNs raise an invalid operation; they count as NaN.
        with np.errstate(invalid="ignore"):
            return self.decoded.astype(np.float64)

    def subtract(self, other: BlockValues) -> Floats:
        """Return the differences; between integers each is rounded once, and zero only if they are equal."""
        if not (self.are_wide_integers or other.are_wide_integers):
            return self.values() - other.values()
        high, low = self.subtract_halves(other)
        halves = high + low
        if self.are_integers and other.are_integers:
            return halves
        # The halves of a small integer are larger than their sum and would round more against a float.
        integers = self if self.are_integers else other
        return np.where(np.abs(integers.values()) < _MAX_EXACT, self.values() - other.values(), halves)

    def subtract_halves(self, other: BlockValues) -> tuple[Floats, Floats]:
        """Return the differences as sums of two floats, which are exact between integers."""
        (high, low), (other_high, other_low) = self._halves(), other._halves()
        return high - other_high, low - other_low

    def _halves(self) -> tuple[Floats, Floats]:
        """Return each number as the sum of two floats: upper and lower 32 bits of a 64-bit integer."""
        if self.are_wide_integers:
            high = np.multiply(self.decoded >> 32, float(1 << 32), dtype=np.float64)
            return high, (self.decoded & _LOW).astype(np.float64)
        values = self.values()
        zeros = np.zeros_like(values)
        return (zeros, values) if self.are_integers else (values, zeros)

    def float32(self) -> Singles:
        """Return the numbers of a type that `fits_float32` in single precision."""
        return self.decoded.astype(np.float32, copy=False)

    def item(self, index: int) -> float | int:
        """Return one of the numbers, exactly."""
        return self._exact(self.decoded[index])

    def to_list(self) -> list[float] | list[int]:
        """Return all numbers, exactly."""
        return list(map(self._exact, self.decoded.tolist()))

    def extremes(self) -> tuple[float | int, float | int]:
        """Return minimum and maximum, exactly; NaN if there is a NaN."""
        return self._exact(self.decoded.min()), self._exact(self.decoded.max())

    @property
    def _exact(self) -> type[int | float]:
        return int if self.are_integers else float

    def offsets_from(self, value: float) -> Floats:
        """Return each number minus `value`, which is one of them."""
        if self.are_wide_integers:
            high, low = self._halves()
            return (high - float(int(value) & ~_LOW)) + (low - float(int(value) & _LOW))
        values = self.values()
        values -= value
        return values

    def select(self, chosen: npt.NDArray[np.bool_ | np.intp]) -> BlockValues:
        """Return the numbers where a mask is true, or at these indices."""
        return BlockValues(self.decoded[chosen])


def decode_block(codes: AnyArray, dtype: DType) -> BlockValues:
    """Decode codes of a real type."""
    if dtype is dtypes.FLOAT16:
        return BlockValues(np.take(_half_table(), codes.view("<u2"), mode="wrap"))
    return BlockValues(elements.decode(codes, dtype))


@lru_cache(maxsize=1)
def _half_table() -> Singles:
    """Return the numbers of all float16 codes: NumPy converts them one by one, and slowly if there are zeros."""
    with np.errstate(invalid="ignore"):
        return np.arange(1 << 16, dtype="<u2").view("<f2").astype(np.float32)


def decode_pair(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> tuple[BlockValues, BlockValues]:
    """Return the numbers of both sides in row-major order; raises like `real_type`."""
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    x, y = real_codes(target, target_dtype), real_codes(golden, golden_dtype)
    return decode_block(x, types[0]), decode_block(y, types[1])


def absolute_errors(x: Floats, y: Floats) -> Floats:
    """Return |x - y|; 0 for equal infinities, and for NaN on both sides."""
    with np.errstate(all="ignore"):
        errors = np.abs(x - y)
    errors[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
    return errors


def fits_float32(dtype: DType) -> bool:
    """Return whether single precision represents every number of a real type."""
    return (
        dtype.decoded not in {"float64", "int32", "uint32", "int64", "uint64"}
        or dtype.float_format is not None
        or (dtype is dtypes.HIFLOAT8)
    )


def exceeds_float64(dtype: DType) -> bool:
    """Return whether a real type has integers beyond the precision of float64."""
    return dtype.decoded in {"int64", "uint64"}


def real_type(dtype: DType, other: DType) -> DType:
    """Return the type in which `dtype` is measured against `other`: itself, or that of the parts of complex numbers.

    Raises:
        ElementError: `dtype` is complex and `other` is not, or it has no numbers.
    """
    if dtype.opaque is not None:
        raise ElementError(dtype.name, dtype.opaque)
    if dtype.kind is not Kind.COMPLEX:
        return dtype
    if other.kind is not Kind.COMPLEX:
        raise ElementError(dtype.name, because("measure.complex_with_real", dtype=other.name))
    return COMPLEX_PARTS[dtype]


def real_codes(codes: AnyArray, dtype: DType) -> AnyArray:
    """Return flat codes of real numbers in row-major order; complex numbers as real and imaginary part."""
    flat = elements.contiguous(codes).reshape(-1)
    return flat.view(COMPLEX_PARTS[dtype].storage) if dtype.kind is Kind.COMPLEX else flat

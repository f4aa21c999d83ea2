"""Conversions between bytes, codes and numbers of all element types.

    bytes ──unpack──► codes ──decode──► numbers          codes: the stored bits of each element,
    bytes ◄──pack──── codes ◄──encode── numbers                 as an array of unsigned integers or numbers

Layouts are converted on codes, which are as small as the stored data; numbers are decoded last.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import dtypes
from opdiff.core.dtypes import small_float_value
from opdiff.core.errors import ElementError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from opdiff.core.dtypes import DType

    AnyArray = npt.NDArray[Any]


# Blocks of this size fit into the level-1 or level-2 cache together with their copy.
_BLOCK_NBYTES = 1 << 16


def contiguous(array: AnyArray) -> AnyArray:
    """Return the array in row-major order; a copy only if it is not contiguous.

    A transposed array is copied block by block, so that each cache line is read once. NumPy would read all memory of
    the array once for each element of its innermost stored axis.
    """
    if array.flags.c_contiguous or array.nbytes <= _BLOCK_NBYTES:
        return np.ascontiguousarray(array)
    result = np.empty(array.shape, array.dtype)
    innermost = min(range(array.ndim), key=lambda axis: (array.shape[axis] == 1, abs(array.strides[axis])))
    later = array.shape[innermost + 1 :]
    longest = max(later, default=0)
    row_nbytes = array.itemsize * array.shape[innermost] * prod(later) // max(longest, 1)
    if row_nbytes * longest <= _BLOCK_NBYTES:
        result[...] = array
        return result
    axis, step = later.index(longest) + 1, max(_BLOCK_NBYTES // row_nbytes, 1)
    for outer in np.ndindex(array.shape[:innermost]):
        source, target = array[outer], result[outer]
        for start in range(0, longest, step):
            block = (*[slice(None)] * axis, slice(start, start + step))
            target[block] = source[block]
    return result


def unpack(raw: bytes | memoryview, dtype: DType, count: int) -> AnyArray:
    """Return the first `count` codes in `raw` as a flat array; a view of `raw` for types of at least 8 bits.

    Bits of the 1-bit type are stored from the highest bit on, other types under 8 bits from the lowest bits on.
    """
    _require_known(dtype)
    available = memoryview(raw).nbytes * 8 // dtype.bits
    if count > available:
        raise ElementError(dtype.name, because("core.elements_missing", stored=available, needed=count))
    if dtype.bits >= 8:
        return np.frombuffer(raw, dtype.storage, count)
    packed = np.frombuffer(raw, np.uint8, dtype.nbytes(count))
    if dtype.bits == 1:
        return np.unpackbits(packed, count=count, bitorder="big")
    if dtype.bits in (2, 4):
        return _unpack_parts(packed, dtype.bits, count)
    bits = np.unpackbits(packed, count=count * dtype.bits, bitorder="little").reshape(count, dtype.bits)
    return np.packbits(bits, axis=1, bitorder="little").reshape(count)


def _unpack_parts(packed: AnyArray, bits: int, count: int) -> AnyArray:
    """Unpack codes whose size divides a byte."""
    codes = np.empty((packed.size, 8 // bits), np.uint8)
    for part in range(8 // bits):
        np.bitwise_and(packed >> np.uint8(part * bits), np.uint8((1 << bits) - 1), out=codes[:, part])
    return codes.reshape(-1)[:count]


def pack(codes: AnyArray, dtype: DType) -> bytes:
    """Return the stored bytes of `codes` in row-major order; the inverse of `unpack`."""
    _require_known(dtype)
    if dtype.bits >= 8:
        return np.ascontiguousarray(codes, dtype.storage).tobytes()
    flat = np.ascontiguousarray(codes, np.uint8).reshape(-1, 1)
    bits = np.unpackbits(flat, axis=1, count=dtype.bits, bitorder="little")
    return np.packbits(bits.reshape(-1), bitorder="big" if dtype.bits == 1 else "little").tobytes()


def decode(codes: AnyArray, dtype: DType) -> AnyArray:
    """Return the exact numbers of `codes`; the same array if the codes are numbers."""
    _require_known(dtype)
    if dtype is dtypes.BOOL:
        return np.asarray(np.not_equal(codes, 0))
    if dtype is dtypes.BFLOAT16:
        return np.asarray(codes.astype("<u4") << np.uint32(16)).view("<f4")
    if dtype is dtypes.COMPLEX32:
        parts = np.ascontiguousarray(codes).view("<f2").reshape(*codes.shape, 2).astype("<f4")
        return parts.view("<c8").reshape(codes.shape)
    if _has_table(dtype):
        return np.asarray(value_table(dtype)[codes])
    return codes


def encode(values: AnyArray, dtype: DType) -> AnyArray:
    """Return the codes nearest to `values`, ties to even; the inverse of `decode` except for NaN payloads.

    Floats of at most 8 bits saturate at their largest number, wider ones become infinite beyond it.

    Raises:
        ElementError: the type has no NaN, sign or imaginary part, or integers are out of range.
    """
    _require_known(dtype)
    values = np.asarray(values)
    if np.iscomplexobj(values) and dtype.kind is not dtypes.Kind.COMPLEX:
        raise ElementError(dtype.name, because("core.no_complex"))
    # Overflow to infinity follows the standard, so that NumPy's warning is suppressed.
    with np.errstate(over="ignore", invalid="ignore"):
        return _encode(np.atleast_1d(values), dtype).reshape(values.shape)


@lru_cache(maxsize=32)
def value_table(dtype: DType) -> AnyArray:
    """Return the numbers of all codes of a type of at most 8 bits."""
    codes = np.arange(1 << dtype.bits)
    if dtype.kind is dtypes.Kind.FLOAT:
        table = np.array([small_float_value(int(code), dtype) for code in codes])
    else:
        half = 1 << (dtype.bits - 1)
        signed = dtype.decoded == "int8"
        table = np.where(signed & (codes >= half), codes - 2 * half, codes).astype(dtype.decoded)
    table.flags.writeable = False
    return table


def _require_known(dtype: DType) -> None:
    if dtype.opaque is not None:
        raise ElementError(dtype.name, dtype.opaque)


def _has_table(dtype: DType) -> bool:
    return dtype.bits < 8 or (dtype.kind is dtypes.Kind.FLOAT and dtype.bits == 8)


def _encode(values: AnyArray, dtype: DType) -> AnyArray:
    if dtype is dtypes.BOOL:
        return values.astype(bool).astype(np.uint8)
    if dtype is dtypes.BFLOAT16:
        return _encode_bfloat16(values)
    if dtype is dtypes.COMPLEX32:
        return np.stack([values.real, values.imag], axis=-1).astype("<f2").view("<u4")
    if dtype.kind is dtypes.Kind.INTEGER:
        return _encode_integers(values, dtype)
    if _has_table(dtype):
        return _encode_small(values.astype(np.float64), dtype)
    return values.astype(dtype.storage)


def _encode_bfloat16(values: AnyArray) -> AnyArray:
    narrow = values.astype(np.float32)
    bits = narrow.view(np.uint32)
    if values.dtype.itemsize > 4:
        # Double rounding can go the wrong way. The first step therefore rounds to odd: towards zero, with the lowest
        # bit set if anything was dropped.
        bits = bits - (np.abs(narrow) > np.abs(values)) | (narrow != values)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    quiet = bits | np.uint32(0x0040_0000)
    return (np.where(np.isnan(values), quiet, rounded) >> np.uint32(16)).astype(np.uint16)


def _encode_integers(values: AnyArray, dtype: DType) -> AnyArray:
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ElementError(dtype.name, because("core.no_infinity"))
        values = np.rint(values)
    info = np.iinfo(dtype.decoded)
    low = -(1 << (dtype.bits - 1)) if info.min else 0
    high = low + (1 << dtype.bits) - 1
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        bounds = {"minimum": values.min().item(), "maximum": values.max().item()}
        raise ElementError(dtype.name, because("core.out_of_range", low=low, high=high, **bounds))
    if dtype.bits < 8:
        return (values.astype(np.int16) & ((1 << dtype.bits) - 1)).astype(np.uint8)
    return values.astype(dtype.storage)


def _encode_small(values: AnyArray, dtype: DType) -> AnyArray:
    table = value_table(dtype)
    signed = dtype.float_format is None or dtype.float_format.signed
    is_nan = np.isnan(values)
    negative = np.signbit(values) & ~is_nan
    if negative.any() and not signed:
        raise ElementError(dtype.name, because("core.no_negative"))
    positive = np.arange(len(table) // 2 if signed else len(table))
    codes = positive[np.isfinite(table[positive])]
    codes = codes[np.argsort(table[codes])]
    result = _nearest(np.abs(values), table[codes], codes)
    for code in np.flatnonzero(np.isposinf(table)):
        result[np.isinf(values)] = code
    if signed:
        no_minus_zero = (result == 0) & bool(np.isnan(table[len(table) // 2]))
        result[negative & ~no_minus_zero] |= np.uint8(len(table) // 2)
    if is_nan.any():
        if not np.isnan(table).any():
            raise ElementError(dtype.name, because("core.no_nan"))
        result[is_nan] = np.flatnonzero(np.isnan(table))[0]
    return result


def _nearest(values: AnyArray, numbers: AnyArray, codes: AnyArray) -> AnyArray:
    """Return the codes of the nearest `numbers` (ascending, at least two); of two equally near ones the even code."""
    right = np.clip(np.searchsorted(numbers, values), 1, len(numbers) - 1)
    below, above = values - numbers[right - 1], numbers[right] - values
    take_left = (below < above) | ((below == above) & (codes[right - 1] % 2 == 0))
    return np.where(take_left, codes[right - 1], codes[right]).astype(np.uint8)

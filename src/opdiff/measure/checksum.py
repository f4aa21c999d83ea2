"""CRC-32 of a tensor: of its values in row-major order, little-endian."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements
from opdiff.core import dtypes

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

_BLOCK_ELEMENTS = 1 << 20


def crc32(codes: AnyArray, dtype: DType) -> str:
    """Return eight hexadecimal digits. bfloat16 is widened to float32, as frameworks without bfloat16 store it."""
    value = 0
    flat = elements.contiguous(codes).reshape(-1)
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        block = flat[start : start + _BLOCK_ELEMENTS]
        numbers = elements.decode(block, dtype) if dtype is dtypes.BFLOAT16 else block
        value = zlib.crc32(np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")).data, value)
    return f"{value:08x}"

"""Strategies for arrays of codes: every real type, special numbers, unusual memory layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import DType, Kind

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

REAL_TYPES = [dtype for dtype in dtypes.BY_NAME.values() if dtype.kind in (Kind.FLOAT, Kind.INTEGER, Kind.BOOL)]
WIDE_FLOATS = [dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT32, dtypes.FLOAT64]
INTEGERS = [dtype for dtype in REAL_TYPES if dtype.kind is Kind.INTEGER]

_SPECIAL = {
    dtypes.FLOAT16: (0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x03FF, 0x7BFF, 0xFBFF, 0x3C00),
    dtypes.BFLOAT16: (0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x0001, 0x7F7F, 0xFF7F, 0x3F80),
    dtypes.FLOAT32: (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000),
    dtypes.FLOAT64: (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, (0x7FF << 52) - 1, (0xFFF << 52) - 1),
}


def codes(dtype: DType, size: int) -> st.SearchStrategy[AnyArray]:
    """Draw flat codes of any bits; special numbers and zeros are more frequent than by chance."""
    stored = max(dtype.bits, 8)
    bits = st.integers(0, (1 << dtype.bits) - 1)
    special = _SPECIAL.get(dtype, (0, (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)))
    numbers = st.one_of(bits, st.sampled_from(special), st.just(0))
    return st.lists(numbers, min_size=size, max_size=size).map(
        lambda drawn: np.array(drawn, f"<u{stored // 8}").view(dtype.storage)
    )


def finite_codes(dtype: DType, size: int) -> st.SearchStrategy[AnyArray]:
    """Draw flat codes of finite numbers."""
    return codes(dtype, size).map(lambda array: _without_specials(array, dtype))


def in_memory(array: AnyArray, how: str) -> AnyArray:
    """Return the same codes in an unusual memory layout."""
    if how == "misaligned":
        raw = b"\0" + array.tobytes()
        return np.frombuffer(raw, np.uint8)[1:].view(array.dtype) if array.size else array
    if how == "backwards":
        return array[::-1].copy()[::-1]
    if how == "transposed" and array.size % 2 == 0:
        return array.reshape(2, -1).T.copy().T
    if how == "every second":
        wide = np.zeros(2 * array.size, array.dtype)
        wide[::2] = array
        return wide[::2]
    result = array.copy()
    result.flags.writeable = False
    return result


MEMORY_LAYOUTS = ["misaligned", "backwards", "transposed", "every second", "read-only"]


def _without_specials(array: AnyArray, dtype: DType) -> AnyArray:
    values: Any = elements.decode(array, dtype)
    return np.where(np.isfinite(values), array, np.zeros_like(array)) if dtype.kind is Kind.FLOAT else array

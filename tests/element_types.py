"""Groups of element types for tests, and codes of every bit pattern."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import DType, Kind

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

ALL = tuple(dtypes.BY_NUMBER.values())
KNOWN = [dtype for dtype in ALL if dtype.kind is not Kind.OPAQUE]
OPAQUE = [dtype for dtype in ALL if dtype.kind is Kind.OPAQUE]
SMALL_FLOATS = [dtype for dtype in KNOWN if dtype.kind is Kind.FLOAT and dtype.bits <= 8]
SMALL_INTEGERS = [dtypes.INT4, dtypes.INT2, dtypes.UINT2, dtypes.UINT1]
UNDER_A_BYTE = [dtype for dtype in KNOWN if dtype.bits < 8]

any_known = st.sampled_from(KNOWN)


@st.composite
def codes_of(draw: st.DrawFn, dtype: DType) -> AnyArray:
    """Draw codes of `dtype` with any bit patterns, in arrays of any rank, empty ones included."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
    raw = draw(st.binary(min_size=dtype.nbytes(math.prod(shape)), max_size=dtype.nbytes(math.prod(shape))))
    return elements.unpack(raw, dtype, math.prod(shape)).reshape(shape)


@st.composite
def typed_codes(draw: st.DrawFn) -> tuple[DType, AnyArray]:
    dtype = draw(any_known)
    return dtype, draw(codes_of(dtype))


def assert_same_numbers(actual: AnyArray, expected: AnyArray) -> None:
    """Check that values are equal, and for floats the signs of zeros."""
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


def all_codes(dtype: DType) -> AnyArray:
    return np.arange(1 << dtype.bits, dtype=dtype.storage)

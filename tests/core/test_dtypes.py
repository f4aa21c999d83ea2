"""Table of element types: numbers, names, sizes, pickling."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from element_types import ALL, KNOWN, OPAQUE
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.errors import ElementError

# Number in dump headers, name, bits per element, decoded NumPy type (empty if opaque).
STANDARD_TABLE = [
    (0, "undefined", 8, "int8"), (1, "float32", 32, "float32"), (2, "float16", 16, "float16"), (3, "int8", 8, "int8"),
    (4, "uint8", 8, "uint8"), (5, "int16", 16, "int16"), (6, "uint16", 16, "uint16"), (7, "int32", 32, "int32"),
    (8, "int64", 64, "int64"), (9, "uint32", 32, "uint32"), (10, "uint64", 64, "uint64"), (11, "bool", 8, "bool"),
    (12, "float64", 64, "float64"), (13, "string", 0, ""), (14, "dual_sub_int8", 8, "int8"),
    (15, "dual_sub_uint8", 8, "uint8"), (16, "complex64", 64, "complex64"), (17, "complex128", 128, "complex128"),
    (18, "qint8", 8, "int8"), (19, "qint16", 16, "int16"), (20, "qint32", 32, "int32"), (21, "quint8", 8, "uint8"),
    (22, "quint16", 16, "uint16"), (23, "resource", 64, "int64"), (24, "string_ref", 0, ""), (25, "dual", 40, ""),
    (26, "variant", 64, ""), (27, "bfloat16", 16, "float32"), (28, "int4", 4, "int8"), (29, "uint1", 1, "uint8"),
    (30, "int2", 2, "int8"), (31, "uint2", 2, "uint8"), (32, "complex32", 32, "complex64"),
    (33, "hifloat8", 8, "float64"), (34, "float8_e5m2", 8, "float64"), (35, "float8_e4m3fn", 8, "float64"),
    (36, "float8_e8m0", 8, "float64"), (37, "float6_e3m2", 6, "float64"), (38, "float6_e2m3", 6, "float64"),
    (39, "float4_e2m1", 4, "float64"), (40, "float4_e1m2", 4, "float64"), (41, "hifloat4", 4, ""),
    (42, "hifloat4_scale", 0, ""),
]  # fmt: skip
# Numbers of the graph engine, which nano dumps use; 5 is unused.
NANO_TABLE = {
    0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
    10: "uint64", 11: "float64", 12: "bool", 13: "string", 14: "dual_sub_int8", 15: "dual_sub_uint8", 16: "complex64",
    17: "complex128", 18: "qint8", 19: "qint16", 20: "qint32", 21: "quint8", 22: "quint16", 23: "resource",
    24: "string_ref", 25: "dual", 26: "variant", 27: "bfloat16", 28: "undefined", 29: "int4", 30: "uint1", 31: "int2",
    32: "uint2",
}  # fmt: skip


def test_type_numbers_of_standard_dumps() -> None:
    table = [(number, dtype.name, dtype.bits, dtype.decoded) for number, dtype in dtypes.BY_NUMBER.items()]
    assert table == STANDARD_TABLE


def test_type_numbers_of_nano_dumps() -> None:
    assert {number: dtype.name for number, dtype in dtypes.NANO_BY_NUMBER.items()} == NANO_TABLE


def test_nano_types_are_the_standard_objects() -> None:
    assert all(dtypes.BY_NAME[dtype.name] is dtype for dtype in dtypes.NANO_BY_NUMBER.values())


def test_type_names_are_unique() -> None:
    assert len(dtypes.BY_NAME) == len(dtypes.BY_NUMBER)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_storage_size_of_codes(dtype: dtypes.DType) -> None:
    assert np.dtype(dtype.storage).itemsize == max(dtype.bits // 8, 1)


@pytest.mark.parametrize("dtype", OPAQUE, ids=str)
def test_opaque_types_have_a_reason(dtype: dtypes.DType) -> None:
    assert (dtype.opaque is None, dtype.storage, dtype.decoded) == (False, "", "")


@pytest.mark.parametrize(
    ("dtype", "count", "nbytes"),
    [
        (dtypes.UINT1, 0, 0), (dtypes.UINT1, 1, 1), (dtypes.UINT1, 8, 1), (dtypes.UINT1, 9, 2), (dtypes.INT2, 5, 2),
        (dtypes.INT4, 3, 2), (dtypes.FLOAT6_E3M2, 1, 1), (dtypes.FLOAT6_E3M2, 3, 3), (dtypes.FLOAT6_E3M2, 4, 3),
        (dtypes.FLOAT6_E3M2, 5, 4), (dtypes.FLOAT16, 3, 6), (dtypes.COMPLEX128, 2, 32),
    ],
    ids=str,
)  # fmt: skip
def test_nbytes_rounds_up(dtype: dtypes.DType, count: int, nbytes: int) -> None:
    assert dtype.nbytes(count) == nbytes


@pytest.mark.parametrize(
    ("descr", "name"),
    [
        ("<f2", "float16"), ("<f4", "float32"), (">f4", "float32"), ("<f8", "float64"), ("|i1", "int8"),
        (">i2", "int16"), ("<i4", "int32"), ("<i8", "int64"), ("|u1", "uint8"), ("<u2", "uint16"), ("<u4", "uint32"),
        (">u8", "uint64"), ("<c8", "complex64"), (">c16", "complex128"), ("|b1", "bool"), ("|V2", "bfloat16"),
        ("<V2", "bfloat16"),
    ],
)  # fmt: skip
def test_find_numpy(descr: str, name: str) -> None:
    assert dtypes.find_numpy(descr) is dtypes.BY_NAME[name]


@pytest.mark.parametrize(
    "descr", ["|O", "<U5", "|S3", "<M8[ns]", "<m8[s]", "|V1", "|V4", "<f16", "<c32", "<f1", "f4", ""]
)
def test_find_numpy_of_other_types_is_none(descr: str) -> None:
    assert dtypes.find_numpy(descr) is None


def test_find_numpy_of_ml_dtypes_bfloat16() -> None:
    assert dtypes.find_numpy(np.dtype(ml_dtypes.bfloat16).str) is dtypes.BFLOAT16


def test_unknown_type_number() -> None:
    dtype = dtypes.unknown(77)
    with pytest.raises(ElementError, match=r"^element type type_77: number 77 is not a known element type$"):
        elements.unpack(b"\0", dtype, 1)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_types_unpickle_to_the_same_object(dtype: dtypes.DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype  # noqa: S301  our own bytes
    assert copy.deepcopy(dtype) is dtype


def test_unknown_types_unpickle_to_equal_objects() -> None:
    assert pickle.loads(pickle.dumps(dtypes.unknown(77))) == dtypes.unknown(77)  # noqa: S301  our own bytes

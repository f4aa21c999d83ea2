"""Sources of tensor data: file ranges, archive members and joined slices, valid and damaged."""

from __future__ import annotations

import mmap
import os
import pickle
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opdiff.core import dtypes, source
from opdiff.core.errors import DumpError, ElementError
from opdiff.core.reasons import quoted
from opdiff.core.source import FileRange, JoinedSlices, ZipMember
from opdiff.core.tensor import Tensor, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.source import Source

MIB = 1 << 20
NOT_DEFLATED = "it is neither stored nor deflated"


def write(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    return str(path)


def deflated(path: Path, *, member: str = "a.npy", content: bytes, method: int = zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(member, content)
    return str(path)


# File ranges


@pytest.mark.parametrize(
    "offset", [0, 1, 7, 4096, mmap.ALLOCATIONGRANULARITY - 1, mmap.ALLOCATIONGRANULARITY + 3], ids=lambda n: f"at_{n}"
)
@pytest.mark.parametrize(
    ("nbytes", "mapped"),
    [(12, False), (MIB - 4, False), (MIB, True), (MIB + 4, True), (3 * MIB, True)],
    ids=["12", "just_under_1M", "1M", "just_over_1M", "3M"],
)
def test_file_range_is_read_or_mapped_by_size(tmp_path: Path, offset: int, nbytes: int, *, mapped: bool) -> None:
    data = np.arange(nbytes // 4, dtype="<u4")
    path = write(tmp_path / "f", b"\xee" * offset, data.tobytes(), b"\xee" * 5)
    piece = FileRange(path, offset, nbytes)
    assert isinstance(piece.raw(), memoryview) is mapped
    np.testing.assert_array_equal(piece.codes(dtypes.UINT32, (nbytes // 4,)), data)


@given(
    data=st.binary(max_size=300),
    bounds=st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_mapping_equals_reading(tmp_path_factory: pytest.TempPathFactory, data: bytes, bounds: tuple[int, int]) -> None:
    path = write(tmp_path_factory.getbasetemp() / "range", b"\0" * mmap.ALLOCATIONGRANULARITY, data)
    start, stop = sorted(min(bound, len(data)) for bound in bounds)
    piece = FileRange(path, mmap.ALLOCATIONGRANULARITY + start, stop - start)
    read = piece.raw()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_MIN_MAPPED_NBYTES", 1)
        assert (bytes(read), bytes(piece.raw())) == (data[start:stop], data[start:stop])


@pytest.mark.parametrize("dtype", [dtypes.FLOAT32, dtypes.UINT1, dtypes.FLOAT6_E2M3], ids=str)
@pytest.mark.parametrize("nbytes", [96, 2 * MIB], ids=["read", "mapped"])
def test_codes_are_read_only(tmp_path: Path, dtype: DType, nbytes: int) -> None:
    path = write(tmp_path / "f", bytes(nbytes))
    codes = FileRange(path, 0, nbytes).codes(dtype, (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        codes[0, 0] = 1


def test_mapped_codes_outlive_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"\x07" * MIB)
    codes = FileRange(path, 0, MIB).codes(dtypes.UINT8, (MIB,))
    os.unlink(path)
    assert (codes == 7).all()


def test_file_descriptors_are_closed(tmp_path: Path) -> None:
    path = write(tmp_path / "f", bytes(2 * MIB))
    before = len(os.listdir("/proc/self/fd"))
    read = [FileRange(path, 0, nbytes).raw() for nbytes in (8, 8, 8, 8)]
    for _ in range(4):
        with pytest.raises(DumpError):
            FileRange(path, 0, 3 * MIB).raw()
    assert (len(read), len(os.listdir("/proc/self/fd"))) == (4, before)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), 1.0), ((1,), [1.0]), ((2, 2), [[1.0, 2.0], [3.0, 4.0]]), ((0,), []), ((3, 0), [[], [], []])],
    ids=str,
)
def test_bytes_after_the_data_are_ignored(tmp_path: Path, shape: tuple[int, ...], expected: object) -> None:
    path = write(tmp_path / "f", np.array([1, 2, 3, 4], "<f4").tobytes(), b"\xff" * 7)
    codes = FileRange(path, 0, 23).codes(dtypes.FLOAT32, shape)
    assert (codes.tolist(), codes.shape) == (expected, shape)


@pytest.mark.parametrize(
    ("dtype", "nbytes", "shape", "problem"),
    [
        (dtypes.FLOAT32, 11, (3,), "shape [3] needs 3 elements of float32, but 2 are stored"),
        (dtypes.FLOAT32, 0, (), "shape [] needs 1 elements of float32, but 0 are stored"),
        (dtypes.UINT1, 1, (3, 3), "shape [3, 3] needs 9 elements of uint1, but 8 are stored"),
        (dtypes.INT4, 2, (5,), "shape [5] needs 5 elements of int4, but 4 are stored"),
        (dtypes.FLOAT6_E3M2, 2, (3,), "shape [3] needs 3 elements of float6_e3m2, but 2 are stored"),
        (dtypes.INT8, 4, (2**40, 2**40), f"shape [{2**40}, {2**40}] needs {2**80} elements of int8, but 4 are stored"),
    ],
    ids=str,
)
def test_too_few_elements_raise(
    tmp_path: Path, dtype: DType, nbytes: int, shape: tuple[int, ...], problem: str
) -> None:
    path = write(tmp_path / "f", bytes(nbytes))
    with pytest.raises(DumpError) as caught:
        FileRange(path, 0, nbytes).codes(dtype, shape)
    assert str(caught.value) == f"{path}: {problem}"


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((1,) * 65, "a shape of 65 axes exceeds the limit of 64"),
        ((2**64 - 1,) * 1_000_000, "a shape of 1000000 axes exceeds the limit of 64"),
        ((0, 2**64 - 1), f"no array can have the shape [0, {2**64 - 1}]"),
        ((0, 2**70), f"no array can have the shape [0, {2**70}]"),
        ((0, 2**62, 8), f"no array can have the shape [0, {2**62}, 8]"),
        ((-1,), "no array can have the shape [-1]"),
        ((-2, -2), "no array can have the shape [-2, -2]"),
    ],
    ids=["rank_65", "rank_1e6", "uint64", "beyond_64_bits", "product", "minus_one", "minus_twice"],
)
def test_impossible_shapes_raise(tmp_path: Path, shape: tuple[int, ...], problem: str) -> None:
    path = write(tmp_path / "f", bytes(64))
    with pytest.raises(DumpError) as caught:
        FileRange(path, 0, 64).codes(dtypes.FLOAT32, shape)
    assert str(caught.value) == f"{path}: {problem}"


@pytest.mark.parametrize("nbytes", [100, 2 * MIB], ids=["read", "mapped"])
def test_truncated_file_raises(tmp_path: Path, nbytes: int) -> None:
    path = write(tmp_path / "f", bytes(50 + nbytes))
    piece = FileRange(path, 50, nbytes)
    os.truncate(path, 50 + nbytes - 1)
    with pytest.raises(DumpError) as caught:
        piece.codes(dtypes.INT8, (1,))
    assert (
        str(caught.value) == f"{path}: {nbytes} bytes are expected here, but the file ends at {49 + nbytes} (byte 50)"
    )


@pytest.mark.parametrize("nbytes", [10, 2 * MIB], ids=["read", "mapped"])
@pytest.mark.parametrize(("name", "problem"), [("gone", "No such file or directory"), ("", "Is a directory")])
def test_file_that_cannot_be_opened_raises(tmp_path: Path, nbytes: int, name: str, problem: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(DumpError) as caught:
        FileRange(path, 0, nbytes).codes(dtypes.INT8, (1,))
    assert str(caught.value) == f"{path}: cannot be opened: {problem}"
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("dtype", [dtypes.STRING, dtypes.HIFLOAT4, dtypes.DUAL, dtypes.unknown(99)], ids=str)
def test_opaque_types_raise_element_error(tmp_path: Path, dtype: DType) -> None:
    path = write(tmp_path / "f", bytes(64))
    with pytest.raises(ElementError) as caught:
        FileRange(path, 0, 64).codes(dtype, (2,))
    assert str(caught.value) == f"element type {dtype}: {dtype.opaque}"


# Byte order and memory order

NUMBERS = ("float16", "float64", "int8", "int16", "uint64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", [dtypes.BY_NAME[name] for name in NUMBERS], ids=str)
@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("fortran_order", [False, True], ids=["c", "fortran"])
@pytest.mark.parametrize("packed", [False, True], ids=["file", "zip"])
def test_byte_order_and_memory_order(
    tmp_path: Path, dtype: DType, *, big_endian: bool, fortran_order: bool, packed: bool
) -> None:
    values = np.arange(1, 25).reshape(2, 3, 4).astype(dtype.storage)
    stored = values.astype(values.dtype.newbyteorder(">")) if big_endian else values
    raw = b"#head" + stored.tobytes("F" if fortran_order else "C")
    there: Source
    if packed:
        there = ZipMember(deflated(tmp_path / "z", content=raw), "a.npy", 5, len(raw) - 5, big_endian, fortran_order)
    else:
        there = FileRange(write(tmp_path / "f", raw), 5, len(raw) - 5, big_endian, fortran_order)
    codes = there.codes(dtype, (2, 3, 4))
    np.testing.assert_array_equal(codes, values)
    assert (codes.dtype, codes.flags.writeable) == (np.dtype(dtype.storage), False)


# Archive members


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_zip_member_is_read(tmp_path: Path, method: int) -> None:
    path = deflated(tmp_path / "z", content=b"12345" + bytes([1, 2, 3, 4, 9]), method=method)
    assert ZipMember(path, "a.npy", 5, 5).codes(dtypes.INT8, (2, 2)).tolist() == [[1, 2], [3, 4]]


def test_short_zip_member_raises(tmp_path: Path) -> None:
    path = deflated(tmp_path / "z", content=bytes(20))
    with pytest.raises(DumpError) as caught:
        ZipMember(path, "a.npy", 16, 400).codes(dtypes.FLOAT32, (100,))
    assert str(caught.value) == f"{path}: shape [100] needs 100 elements of float32, but 1 are stored"


@pytest.mark.parametrize(
    ("build", "member", "reason"),
    [
        (str, "a.npy", "[Errno 2] No such file or directory: '{path}'"),
        (lambda path: write(path, b"PK\x03\x04 not really"), "a.npy", "File is not a zip file"),
        (lambda path: deflated(path, content=b""), "b.npy", "\"There is no item named 'b.npy' in the archive\""),
        (lambda path: deflated(path, content=b"", method=zipfile.ZIP_LZMA), "a.npy", NOT_DEFLATED),
        (lambda path: deflated(path, content=b"", method=zipfile.ZIP_BZIP2), "a.npy", NOT_DEFLATED),
    ],
    ids=["missing", "not_zip", "no_member", "lzma", "bzip2"],
)
def test_unreadable_zip_member_raises(tmp_path: Path, build: Callable[[Path], str], member: str, reason: str) -> None:
    path = build(tmp_path / "z")
    with pytest.raises(DumpError) as caught:
        ZipMember(path, member, 0, 99).codes(dtypes.INT8, (99,))
    assert str(caught.value) == f"{path}: member {member!r} cannot be unpacked: {reason.format(path=path)}"


@pytest.mark.parametrize(
    ("place", "reason"),
    [(0, "Error -3 while decompressing data"), (20, "Bad CRC-32 for file 'a.npy'")],
    ids=["not_deflate", "wrong_checksum"],
)
def test_damaged_zip_member_raises(tmp_path: Path, place: int, reason: str) -> None:
    # 30 bytes and the name come before the member's data.
    path = deflated(tmp_path / "z", content=np.random.default_rng(0).bytes(200))
    raw = bytearray((tmp_path / "z").read_bytes())
    raw[35 + place] ^= 0xFF
    write(tmp_path / "z", bytes(raw))
    with pytest.raises(DumpError) as caught:
        ZipMember(path, "a.npy", 0, 200).codes(dtypes.UINT8, (200,))
    assert str(caught.value).startswith(f"{path}: member 'a.npy' cannot be unpacked: {reason}")


# Joined slices


def _slices(tmp_path: Path, whole: AnyArray, cuts: list[int], axis: int) -> JoinedSlices:
    parts = np.split(whole, cuts, axis=axis)
    ranges = tuple(
        FileRange(write(tmp_path / f"slice{number}", b"head", part.tobytes()), 4, part.nbytes)
        for number, part in enumerate(parts)
    )
    return JoinedSlices(ranges, tuple(part.shape for part in parts), axis)


@pytest.mark.parametrize(("cuts", "axis"), [([1], 0), ([1, 2], 1), ([3], 2), ([2], -1), ([], 0), ([0], 1)], ids=str)
def test_slices_are_joined_in_order(tmp_path: Path, cuts: list[int], axis: int) -> None:
    whole = np.arange(24, dtype="<i2").reshape(2, 3, 4)
    joined = _slices(tmp_path, whole, cuts, axis)
    codes = joined.codes(dtypes.INT16, (2, 3, 4))
    np.testing.assert_array_equal(codes, whole)
    assert (codes.flags.writeable, joined.nbytes, joined.path) == (False, whole.nbytes, str(tmp_path / "slice0"))


def test_slices_of_4_bit_elements_are_unpacked_separately(tmp_path: Path) -> None:
    # Three 4-bit codes take two bytes: the second nibble of the second byte is not an element.
    first, second = write(tmp_path / "a", b"\x21\xf3"), write(tmp_path / "b", b"\x54\xf6")
    joined = JoinedSlices((FileRange(first, 0, 2), FileRange(second, 0, 2)), ((3,), (3,)), 0)
    assert joined.codes(dtypes.INT4, (6,)).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("shapes", "axis", "shape", "problem"),
    [
        (((2, 2), (1, 4)), 0, (4, 2), "slices [2, 2], [1, 4] cannot be joined along axis 0"),
        (((2, 2), (2, 2)), 2, (4, 2), "slices [2, 2], [2, 2] cannot be joined along axis 2"),
        (((), ()), 0, (2,), "slices [], [] cannot be joined along axis 0"),
        (((2, 2), (2, 2)), 0, (2, 4), "the joined slices have shape [4, 2], not [2, 4]"),
        (((2, 2), (2, 2)), 0, (6, 2), "the joined slices have shape [4, 2], not [6, 2]"),
        (((2, 2), (5, 2)), 0, (7, 2), "shape [5, 2] needs 10 elements of int8, but 4 are stored"),
    ],
    ids=["other_extents", "no_such_axis", "scalars", "other_order", "too_few", "short_slice"],
)
def test_slices_of_other_shapes_raise(
    tmp_path: Path, shapes: tuple[tuple[int, ...], ...], axis: int, shape: tuple[int, ...], problem: str
) -> None:
    path = write(tmp_path / "f", bytes(8))
    joined = JoinedSlices((FileRange(path, 0, 4), FileRange(path, 4, 4)), shapes, axis)
    with pytest.raises(DumpError) as caught:
        joined.codes(dtypes.INT8, shape)
    assert str(caught.value) == f"{path}: {problem}"


# Pickling

SOURCES: list[Source] = [
    FileRange("/d/a", 8, 4),
    FileRange("/d/a", 8, 4, big_endian=True, fortran_order=True),
    ZipMember("/d/a.npz", "x.npy", 128, 4),
    JoinedSlices((FileRange("/d/a", 8, 4), FileRange("/d/b", 8, 4)), ((2,), (2,)), 0),
]


@pytest.mark.parametrize("there", SOURCES, ids=lambda there: type(there).__name__)
def test_sources_and_tensors_are_picklable(there: Source) -> None:
    tensor = Tensor(
        TensorSpec(dtypes.BFLOAT16, (2,), "ND", (2,), address=4096), there, notes=(quoted("an assumption"),)
    )
    raw = pickle.dumps(tensor)
    assert pickle.loads(raw) == tensor  # noqa: S301  our own bytes
    assert pickle.loads(pickle.dumps(there)) == there  # noqa: S301  our own bytes
    assert len(raw) < 1000


@pytest.mark.parametrize(
    ("dtype", "raw", "numbers"),
    [
        (dtypes.BFLOAT16, b"\x80\x3f\x20\xc1", [1.0, -10.0]),
        (dtypes.INT4, b"\xf1", [1, -1]),
        (dtypes.FLOAT32, b"\x00\x00\x80\x3f\x00\x00\x00\xc0", [1.0, -2.0]),
    ],
    ids=str,
)
def test_unpickled_tensor_loads_the_same_numbers(
    tmp_path: Path, dtype: DType, raw: bytes, numbers: list[complex]
) -> None:
    tensor = Tensor(TensorSpec(dtype, (2,), "ND"), FileRange(write(tmp_path / "f", raw), 0, len(raw)))
    there = pickle.loads(pickle.dumps(tensor))  # noqa: S301  our own bytes
    assert tensor.array().tolist() == numbers
    assert there.array().tolist() == numbers
    assert there.array().dtype == dtype.decoded


def test_kept_bytes_are_no_part_of_a_range() -> None:
    kept, plain = FileRange("gone.npy", 8, 4), FileRange("gone.npy", 8, 4)
    kept.keep(b"\x01\x02\x03\x04")
    np.testing.assert_array_equal(kept.codes(dtypes.UINT8, (4,)), [1, 2, 3, 4])
    assert kept == plain
    assert hash(kept) == hash(plain)
    others = [pickle.loads(pickle.dumps(kept)), replace(kept, path="other.npy"), plain]  # noqa: S301  made here
    assert [other.kept for other in others] == [None] * 3

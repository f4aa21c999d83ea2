"""Copying of stored bytes: the same files as by decoding and writing."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import FILE, Convert
from dump_files import add, dump, tensor
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import DumpError
from opdiff.core.source import FileRange
from opdiff.sample.container import EncodedTensor
from opdiff.workflows.convert import work
from opdiff.workflows.convert.byte_copy import copy_raw, npy_header
from opdiff.workflows.convert.plan import ConvertOptions, plan_conversion
from opdiff.workflows.convert.work import convert_file

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.mark.parametrize("form", ["npy", "bin", "msnpy"])
@pytest.mark.parametrize("count", [1, 24, 300_000], ids=["one", "small", "large"])
def test_copied_is_the_same_as_written(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, form: str, count: int
) -> None:
    """For every type whose bytes may be copied, each in another shape, with trailing bytes."""
    rng = np.random.default_rng(0)
    types = [dtype for dtype in dtypes.BY_NUMBER.values() if dtype.kind is not Kind.OPAQUE and dtype.bits >= 8]
    shape = (1,) if count == 1 else (2, 3, count // 6)
    outputs = [EncodedTensor(dtype, shape, "NCHW", rng.bytes(dtype.nbytes(count) + 3)) for dtype in types]
    assert len(convert.converted(dump(*outputs), "-t", form)) == len(types)
    copied = convert.contents()
    monkeypatch.setattr(work, "_find_stored_result", lambda *_: None)
    convert.converted(dump(*outputs), "-t", form)
    assert convert.contents() == copied


@given(
    st.sampled_from(["<f2", "<f4", "|b1", "<c16", "<i8", "|u1"]),
    st.lists(st.integers(0, 4), max_size=32).filter(lambda dims: len(dims) < 6 or 0 in dims or max(dims) == 1),
)
def test_headers_equal_those_of_numpy(descr: str, dims: list[int]) -> None:
    header = npy_header(descr, tuple(dims))
    nbytes = int(np.prod(dims, dtype=np.int64)) * np.dtype(descr).itemsize
    array = np.load(io.BytesIO(header + bytes(nbytes)), allow_pickle=False)
    assert (array.shape, array.dtype) == (tuple(dims), np.dtype(descr))
    assert len(header) % 64 == 0


@pytest.mark.parametrize("nbytes", [0, 1, MIB - 1, MIB, 3 * MIB + 7])
@pytest.mark.parametrize("number", [None, errno.EINVAL, errno.ENOSYS], ids=["sent", "not_possible", "not_there"])
def test_copies_of_every_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int, number: int | None) -> None:
    data = np.random.default_rng(0).bytes(nbytes)
    path = add(tmp_path, "source", b"12345" + data + b"trailing")
    if number is not None:

        def refuse(*_: object) -> int:
            raise OSError(number, "not here")

        monkeypatch.setattr(os, "sendfile", refuse)
    copy_raw(str(tmp_path / "copy"), FileRange(path, 5, nbytes + 6), nbytes)
    assert (tmp_path / "copy").read_bytes() == data


def test_partial_transfers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large transfers are partial: the system call moves at most 2 GiB."""
    honest = os.sendfile
    monkeypatch.setattr(os, "sendfile", lambda out, into, offset, count: honest(out, into, offset, min(count, 100_001)))
    data = np.random.default_rng(0).bytes(2 * MIB)
    copy_raw(str(tmp_path / "copy"), FileRange(add(tmp_path, "source", data), 0, len(data)), len(data))
    assert (tmp_path / "copy").read_bytes() == data


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "sendfile", full)
    path = add(tmp_path, "source", bytes(2 * MIB))
    with pytest.raises(OSError, match="No space left on device"):
        copy_raw(str(tmp_path / "copy"), FileRange(path, 0, 2 * MIB), 2 * MIB)
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("nbytes", [100, 2 * MIB], ids=["small", "large"])
def test_a_file_that_changed_after_it_was_described(tmp_path: Path, nbytes: int) -> None:
    path = add(tmp_path, "source", bytes(nbytes))
    source = FileRange(path, 0, nbytes)
    os.truncate(path, nbytes // 2)
    with pytest.raises(DumpError, match=f"{nbytes} bytes"):
        copy_raw(str(tmp_path / "copy"), source, nbytes)
    os.unlink(path)
    with pytest.raises(DumpError, match="cannot be opened: No such file or directory"):
        copy_raw(str(tmp_path / "copy"), source, nbytes)
    assert os.listdir(tmp_path) == []


def test_file_deleted_after_planning(tmp_path: Path) -> None:
    path = add(tmp_path / "in", FILE, dump(tensor([1.0])))
    (job,) = plan_conversion([path], ConvertOptions(str(tmp_path / "out"))).jobs
    os.unlink(path)
    (failure,) = convert_file(job).failures
    assert (failure.tensor, str(failure.reason)) == ("", "cannot be opened: No such file or directory")


def test_types_to_decode_are_not_copied() -> None:
    """Types without NumPy equivalent are decoded."""
    changed = {
        dtype.name for dtype in dtypes.BY_NUMBER.values() if dtype.bits >= 8 and dtype.storage and not dtype.is_native
    }
    floats = {"hifloat8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0", "bfloat16"}
    assert changed == {"bool", "complex32"} | floats
    assert npy_header("<f4", ()).startswith(b"\x93NUMPY\x01\x00")

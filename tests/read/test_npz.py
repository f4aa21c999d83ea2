"""NumPy archives and reduced dumps: results equal to those of NumPy, and archives that are damaged or mislead."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import Bomb, npy_file, zip_file
from opdiff.core.errors import DumpError
from opdiff.core.source import FileRange, ZipMember
from opdiff.read import read_operator
from opdiff.read.reduced import MEMBER, parse_stats, read_reduced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.tensor import OpDump

METHODS = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}


def npy(*values: float) -> bytes:
    return npy_file(np.array(values, np.float32))


def read(tmp_path: Path, content: bytes) -> OpDump:
    path = tmp_path / "conv1.0.1.npz"
    path.write_bytes(content)
    return read_operator(str(path))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_archives_match_numpy(save: Any, tmp_path: Path) -> None:
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "big": np.arange(3, dtype=">i4"),
        "empty": np.zeros((0, 3), np.float16),
        "large": np.arange(300_000, dtype=np.float64),
    }
    path = tmp_path / "x.npz"
    save(path, **arrays)
    operator = read_operator(str(path))
    assert [tensor.name for tensor in operator.outputs] == list(arrays)
    kind = FileRange if save is np.savez else ZipMember
    for tensor, array in zip(operator.outputs, arrays.values(), strict=True):
        assert isinstance(tensor.source, kind)
        np.testing.assert_array_equal(tensor.array(), array)


def with_shared_bytes() -> bytes:
    content = bytearray(zip_file(("a.npy", npy(1)), ("b.npy", npy(1)), method=zipfile.ZIP_STORED))
    # The second entry of the central directory, whose offset is at byte 42, points to the first member.
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 42 : entry + 46] = bytes(4)
    content[entry + 46 : entry + 51] = b"a.npz"
    return bytes(content)


TWICE = ("a.npy", npy(1)), ("a.npy", npy(2))
MORE = 16 + (1 << 24)
INVALID = {
    "no zip": (b"PK but not a zip", "not a readable zip file"),
    "no array": (zip_file(("a.npy", b"nothing")), "the magic number is missing"),
    "objects": (zip_file(("a.npy", npy_file(np.array([Bomb()], object)))), "unpickling Python objects"),
    "too short": (zip_file(("a.npy", npy(*range(9))[:-8])), "shape [9] needs 36 bytes, but the file has 28"),
    "too long": (
        zip_file(("a.npy", npy(1, 2, 3, 4) + bytes(1 << 24))),
        f"a.npy has {MORE} bytes of data, but its header describes 16",
    ),
    "LZMA": (zip_file(("a.npy", npy(1)), method=zipfile.ZIP_LZMA), "compressed by a method that NumPy does not use"),
    "a name twice": (zip_file(*TWICE), "two members of the archive have the same name"),
    "a stored name twice": (
        zip_file(*TWICE, method=zipfile.ZIP_STORED),
        "two members of the archive have the same name",
    ),
    "shared bytes": (with_shared_bytes(), "share bytes"),
}


@pytest.mark.parametrize(("raw", "problem"), INVALID.values(), ids=INVALID)
def test_invalid_archives_raise(raw: bytes, problem: str, tmp_path: Path) -> None:
    assert len(raw) < 1 << 16
    with pytest.raises(DumpError) as caught:
        read(tmp_path, raw)
    assert problem in str(caught.value)


def test_converted_archive_has_inputs_and_outputs(tmp_path: Path) -> None:
    arrays = {"output_10": np.ones(1), "output_2": np.ones(2), "input_0": np.ones(3)}
    np.savez(tmp_path / "x.npz", allow_pickle=False, **arrays)
    operator = read_operator(str(tmp_path / "x.npz"))
    assert [tensor.spec.shape for tensor in operator.inputs] == [(3,)]
    assert [tensor.spec.shape for tensor in operator.outputs] == [(2,), (1,)]


def test_other_members_of_archives_are_ignored(tmp_path: Path) -> None:
    (tensor,) = read(tmp_path, zip_file(("../../evil.txt", b"x"), ("a.npy", npy(1, 1)))).outputs
    np.testing.assert_array_equal(tensor.array(), [1, 1])


def test_a_comment_cannot_hide_a_member(tmp_path: Path) -> None:
    content = bytearray(zip_file(("a.npy", npy(1)), ("b.npy", npy(2)), method=zipfile.ZIP_STORED))
    first, second = content.index(b"PK\x01\x02"), content.rindex(b"PK\x01\x02")
    # The length of the comment in the entry of the first member takes in the entry of the second.
    struct.pack_into("<H", content, first + 32, content.index(b"PK\x05\x06") - second)
    with pytest.raises(DumpError, match="an array of the archive has a comment"):
        read(tmp_path, bytes(content))


def test_reduced_archive_has_no_other_members(tmp_path: Path) -> None:
    path = tmp_path / "Add.Add.0.6.1671234567890123_min_max.npz"
    path.write_bytes(zip_file(("inputs.npy", npy()), ("outputs.npy", npy()), ("opdifg.json", b"{}")))
    with pytest.raises(DumpError, match=r"opdifg\.json does not belong in a reduced dump"):
        read_reduced(str(path))


def test_error_of_damaged_member_names_it(tmp_path: Path) -> None:
    raw = bytearray(zip_file(("a.npy", npy_file(np.random.default_rng(0).random(100_000)))))
    raw[400_000:400_100] = bytes(100)
    (tensor,) = read(tmp_path, bytes(raw)).outputs
    with pytest.raises(DumpError, match=r"member 'a\.npy' cannot be unpacked"):
        tensor.array()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_wrong_checksum(tmp_path: Path, method: int) -> None:
    content = zip_file(("a.npy", npy(*range(9))), method=method)
    wrong = content.replace(struct.pack("<I", zlib.crc32(npy(*range(9)))), b"\1\2\3\4")
    assert content != wrong
    with pytest.raises(DumpError, match="CRC"):
        read(tmp_path, wrong).outputs[0].array()


# Reduced dumps


def reduced(member: bytes, method: int) -> bytes:
    return zip_file(("inputs.npy", npy()), ("outputs.npy", npy()), (MEMBER, member), method=method)


def damaged(content: bytes) -> bytes:
    """Return an archive with a damaged byte in the data of its last member."""
    data = content.rindex(b"PK\x03\x04") + 30 + len(MEMBER)
    return content[: data + 6] + bytes(5) + content[data + 11 :]


@pytest.mark.parametrize(
    ("method", "change"),
    [
        pytest.param(zipfile.ZIP_DEFLATED, damaged, id="corrupt deflate"),
        pytest.param(zipfile.ZIP_LZMA, damaged, id="corrupt LZMA"),
        pytest.param(zipfile.ZIP_LZMA, bytes, id="LZMA"),
        pytest.param(zipfile.ZIP_BZIP2, damaged, id="corrupt bzip2"),
        pytest.param(zipfile.ZIP_STORED, damaged, id="wrong checksum"),
    ],
)
def test_statistics_that_cannot_be_unpacked(tmp_path: Path, method: int, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "Add.a.1.2.1671234567890123_min_max.npz"
    path.write_bytes(change(reduced(b"{}" * 99, method)))
    with pytest.raises(DumpError):
        read_reduced(str(path))


@pytest.mark.parametrize(
    "item",
    [
        f'{{"min": 1{"0" * 400}}}',
        f'{{"mean": -1{"0" * 400}}}',
        '{"shape": [Infinity]}',
        '{"shape": [-1]}',
        json.dumps({"shape": [2**63 - 1] * 300}),
        '{"nans": 1e400}',
        '{"nans": -1}',
        '{"histogram": [NaN]}',
        f'{{"min": 1{"0" * 5000}}}',
    ],
    ids=lambda item: item[:24],
)
def test_statistics_that_no_tensor_has(item: str) -> None:
    text = f'{{"schema": "opdiff.reduced", "version": 1, "inputs": [], "outputs": [{item}]}}'
    with pytest.raises(DumpError, match="statistics"):
        parse_stats(text.encode(), "a file")

"""Archives that are built to mislead: equal names, shared bytes, more data than described, wrong checksums."""

from __future__ import annotations

import json
import struct
import warnings
import zipfile
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.errors import DumpError
from opdiff.read import read_operator
from opdiff.read.reduced import MEMBER, parse_stats, read_reduced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.tensor import OpDump

METHODS = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}


def npy(*values: float) -> bytes:
    buffer = BytesIO()
    np.save(buffer, np.array(values, np.float32))
    return buffer.getvalue()


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)
    return buffer.getvalue()


def test_a_member_that_unpacks_to_more_than_its_header_describes(tmp_path: Path) -> None:
    content = archive(("a.npy", npy(1, 2, 3, 4) + bytes(1 << 24)), method=zipfile.ZIP_DEFLATED)
    assert len(content) < 1 << 16
    with pytest.raises(DumpError, match=rf"a\.npy has {16 + (1 << 24)} bytes of data, but its header describes 16"):
        read(tmp_path, content)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_two_members_of_one_name(tmp_path: Path, method: int) -> None:
    with pytest.raises(DumpError, match="two members of the archive have the same name"):
        read(tmp_path, archive(("a.npy", npy(1)), ("a.npy", npy(2)), method=method))


def test_members_that_share_bytes(tmp_path: Path) -> None:
    content = bytearray(archive(("a.npy", npy(1)), ("b.npy", npy(1))))
    # The second entry of the central directory, whose offset is at byte 42, points to the first member.
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 42 : entry + 46] = bytes(4)
    content[entry + 46 : entry + 51] = b"a.npz"
    with pytest.raises(DumpError, match="share bytes"):
        read(tmp_path, bytes(content))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_wrong_checksum(tmp_path: Path, method: int) -> None:
    content = bytearray(archive(("a.npy", npy(*range(9))), method=method))
    right = struct.pack("<I", zlib.crc32(npy(*range(9))))
    wrong = bytes(content).replace(right, b"\1\2\3\4")
    assert bytes(content) != wrong
    with pytest.raises(DumpError, match="CRC"):
        read(tmp_path, wrong).outputs[0].array()


def read(tmp_path: Path, content: bytes) -> OpDump:
    path = tmp_path / "conv1.0.1.npz"
    path.write_bytes(content)
    return read_operator(str(path))


# Reduced dumps


def reduced(member: bytes, method: int) -> bytes:
    return archive(("inputs.npy", npy()), ("outputs.npy", npy()), (MEMBER, member), method=method)


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

"""Short functions that write dump files for tests of commands."""

from __future__ import annotations

import warnings
import zipfile
from hashlib import blake2b
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, encode_tensor, standard_dump

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

TIME = 1671234567890123
"""A timestamp, as in dump file names."""


def tensor(
    values: AnyArray | list[float],
    dtype: DType = dtypes.FLOAT32,
    layout: str = "ND",
    *,
    groups: int = 1,
    address: int = 0,
) -> EncodedTensor:
    """Return the values as a tensor of a dump."""
    return encode_tensor(np.asarray(values), dtype, layout, groups=groups, address=address)


def dump(*outputs: EncodedTensor, inputs: tuple[EncodedTensor, ...] = (), op_name: str = "") -> bytes:
    """Return the bytes of a standard dump."""
    return standard_dump(EncodedDump(inputs, outputs, op_name=op_name))


def numbered(count: int, start: int = 1) -> bytes:
    """Return the bytes of a dump with one output: `count` consecutive numbers from `start` on."""
    return dump(tensor(np.arange(start, start + count, dtype=np.float32)))


def with_header_field(dump: bytes, field: bytes) -> bytes:
    """Return a standard dump whose header ends with this field."""
    end = 8 + int.from_bytes(dump[:8], "little")
    return (end - 8 + len(field)).to_bytes(8, "little") + dump[8:end] + field + dump[end:]


def add(folder: Path, name: str, content: bytes | None = None) -> str:
    """Write a file, create its folders, and return its path; without content it is a small valid dump."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(numbered(3) if content is None else content)
    return str(path)


class Bomb:
    """An object that ends the test run when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exit, (9,))


def npy_file(array: Any, **options: Any) -> bytes:
    """Return the bytes of a NumPy file; objects are pickled."""
    file = BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **options)
    return file.getvalue()


def zip_file(*members: tuple[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return the bytes of an archive, whose members may have equal names."""
    file = BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def hashed_name(directory: str, name: str) -> str:
    """Return the hash that replaces a name too long for the file system; a golden file keeps its suffix."""
    digest = blake2b(f"{directory}/{name}".encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest, 'little')}{'.npy' if name.endswith('.npy') else ''}"


def mapping_csv(rows: Iterable[tuple[str, str]]) -> str:
    """Return the table from hashed to full names that is written next to the files."""
    return "".join(f"{hashed},{name}\n" for hashed, name in rows)

"""Results whose bytes are stored already: copied by the operating system, without NumPy."""

from __future__ import annotations

import errno
import json
import os
from math import prod
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import DumpError
from opdiff.core.filesystem import regular_file
from opdiff.core.reasons import Status, because
from opdiff.core.remote.urls import is_remote

if TYPE_CHECKING:
    from typing import IO

    from opdiff.core.dtypes import DType
    from opdiff.core.source import FileRange
    from opdiff.core.tensor import Shape

_CHUNK_BYTES = 1 << 20
# NumPy aligns the data of an array to this many bytes.
_ALIGNMENT = 64
_PREFIX = b"\x93NUMPY\x01\x00"
_SENDFILE_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


def copy_npy(path: str, source: FileRange, dtype: DType, shape: Shape) -> None:
    """Copy a tensor whose stored codes are NumPy elements to a NumPy file."""
    with open_atomic(path) as file:
        file.write(npy_header(dtype.storage, shape))
        _copy(source, dtype.nbytes(prod(shape)), file)


def copy_raw(path: str, source: FileRange, nbytes: int) -> None:
    """Copy the first `nbytes` stored bytes."""
    with open_atomic(path) as file:
        _copy(source, nbytes, file)


def write_json(path: str, values: dict[str, object]) -> None:
    """Write an indented JSON file."""
    with open_atomic(path) as file:
        file.write((json.dumps(values, indent=4) + "\n").encode())


def npy_header(descr: str, shape: Shape) -> bytes:
    """Return the header of a NumPy file with a row-major array."""
    dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}"
    length = len(_PREFIX) + 2 + len(text) + 1
    text += " " * (-length % _ALIGNMENT) + "\n"
    return _PREFIX + len(text).to_bytes(2, "little") + text.encode()


def _copy(source: FileRange, nbytes: int, file: IO[bytes]) -> None:
    """Append the first `nbytes` of a source to a file."""
    if nbytes < _CHUNK_BYTES or is_remote(source.path):
        file.write(memoryview(source.raw())[:nbytes])
        return
    try:
        descriptor = regular_file(source.path)
    except OSError as error:
        raise DumpError(source.path, because("core.cannot_open", Status.NOT_HERE, error=error.strerror)) from error
    try:
        file.flush()
        done = 0
        while done < nbytes:
            moved = _send(descriptor, source.offset + done, nbytes - done, file.fileno())
            if not moved:
                raise DumpError(source.path, because("workflows.file_truncated", nbytes=nbytes), source.offset)
            done += moved
    finally:
        os.close(descriptor)


def _send(source: int, offset: int, nbytes: int, target: int) -> int:
    """Move some bytes from file to file; return their number, 0 at the end."""
    try:
        return os.sendfile(target, source, offset, nbytes)
    except OSError as error:
        if error.errno not in _SENDFILE_UNSUPPORTED:
            raise
        return os.write(target, os.pread(source, min(nbytes, _CHUNK_BYTES), offset))

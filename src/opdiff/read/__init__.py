"""Bytes to descriptions: every format in which operators are dumped.

`read_operator` describes one file; `scan` finds what a directory tree holds. Nothing here loads tensor data.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.read.arrays import read_npy
from opdiff.read.ascend import OpenFile, read_ascend
from opdiff.read.filename import parse_dump_name
from opdiff.read.nano import is_nano, read_nano

if TYPE_CHECKING:
    from opdiff.core.tensor import OpDump

# Enough for nearly every header, so that one small read describes a file.
_HEAD = 1 << 12


def read_operator(path: str, name: str | None = None, *, sliced: bool = True) -> OpDump:
    """Describe a dump file of any format.

    Args:
        path: the file.
        name: its real base name, where the file carries a hash of it.
        sliced: give the file of a slice the shapes of its slice, and not those of the whole operator.

    Raises:
        DumpError: with the offset and the problem, for whatever the bytes are.
    """
    name = name or os.path.basename(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DumpError(path, because("core.cannot_open", error=error.strerror)) from error
    try:
        return _describe(_open_file(path, descriptor), name, sliced=sliced)
    except OSError as error:
        raise DumpError(path, because("core.cannot_read", error=error.strerror)) from error
    finally:
        os.close(descriptor)


def _open_file(path: str, descriptor: int) -> OpenFile:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise DumpError(path, because("core.not_regular_file"))
    if status.st_size == 0:
        raise DumpError(path, because("read.empty_file"))
    return OpenFile(path, descriptor, status.st_size, os.pread(descriptor, _HEAD, 0))


def _describe(file: OpenFile, name: str, *, sliced: bool) -> OpDump:
    if is_nano(file.head):
        return read_nano(file)
    if name.endswith(".npy"):
        return read_npy(file)
    if name.endswith(".npz"):
        from opdiff.read.npz import read_npz

        return read_npz(file)
    operator = read_ascend(file)
    parsed = parse_dump_name(name) if sliced and operator.attr else None
    if parsed is None or not parsed.is_slice:
        return operator
    from opdiff.read.slices import as_slice

    return as_slice(operator, parsed)

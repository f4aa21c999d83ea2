"""Bytes to descriptions: every format in which operators are dumped.

`read_operator` describes one file; `scan` finds what a directory tree holds. Nothing here loads tensor data.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.read.ascend import read_ascend
from opdiff.read.filename import parse_dump_name
from opdiff.read.nano import is_nano, read_nano
from opdiff.read.npy import read_npy
from opdiff.read.npz import read_npz
from opdiff.read.reader import OpenFile, Reader, by_suffix
from opdiff.read.slices import as_slice

if TYPE_CHECKING:
    from opdiff.core.tensor import OpDump

# The first reader that recognizes a file describes it. The last one has no marks to go by and takes every file.
READERS: tuple[Reader, ...] = (
    Reader(is_nano, read_nano),
    by_suffix(".npy", read_npy),
    by_suffix(".npz", read_npz),
    Reader(lambda _file: True, read_ascend),
)

# Bytes that are read from the start of a file; most headers are shorter.
_HEAD_NBYTES = 1 << 12


def read_operator(path: str, name: str | None = None, *, sliced: bool = True) -> OpDump:
    """Describe a dump file of any format.

    Args:
        path: the file.
        name: its real base name, where the file carries a hash of it.
        sliced: give the file of a slice the shapes of its slice, and not those of the whole operator.

    Raises:
        DumpError: with the offset and the problem, for whatever the bytes are.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DumpError(path, because("core.cannot_open", error=error.strerror)) from error
    try:
        return _describe(_open_file(path, name or os.path.basename(path), descriptor), sliced=sliced)
    except OSError as error:
        raise DumpError(path, because("core.cannot_read", error=error.strerror)) from error
    finally:
        os.close(descriptor)


def _open_file(path: str, name: str, descriptor: int) -> OpenFile:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise DumpError(path, because("core.not_regular_file"))
    if status.st_size == 0:
        raise DumpError(path, because("read.empty_file"))
    return OpenFile(path, name, descriptor, status.st_size, os.pread(descriptor, _HEAD_NBYTES, 0))


def _describe(file: OpenFile, *, sliced: bool) -> OpDump:
    reader = next(reader for reader in READERS if reader.recognizes(file))
    operator = reader.read(file)
    parsed = parse_dump_name(file.name) if sliced and operator.attr else None
    return as_slice(operator, parsed) if parsed is not None and parsed.is_slice else operator

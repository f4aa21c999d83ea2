"""Bytes to descriptions: one module for each dump format. No tensor data is loaded.

`read_operator` describes one file, `directory.scan` lists the dump files of a directory tree.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import Status, because
from opdiff.core.remote.urls import is_remote
from opdiff.read.agreement import with_doubts
from opdiff.read.ascend import read_ascend
from opdiff.read.filename import parse_dump_name
from opdiff.read.nano import is_nano, read_nano
from opdiff.read.npy import read_npy
from opdiff.read.npz import read_npz
from opdiff.read.reader import OpenFile, Reader, by_suffix

if TYPE_CHECKING:
    from opdiff.core.tensor import OpDump

# The first reader that recognizes a file describes it. The last one accepts every file: its format has no magic number.
READERS: tuple[Reader, ...] = (
    Reader(is_nano, read_nano),
    by_suffix(".npy", read_npy),
    by_suffix(".npz", read_npz),
    Reader(lambda _file: True, read_ascend),
)

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
# Bytes read from the start of every file; most headers are shorter.
_HEAD_NBYTES = 1 << 12


def read_operator(path: str, name: str | None = None, *, sliced: bool = True) -> OpDump:
    """Describe a dump file of any format.

    Args:
        path: the file.
        name: its real base name if `path` has a hash instead.
        sliced: give the tensors of a slice the shapes of the slice instead of those of the whole operator.

    Raises:
        DumpError: the file cannot be read; names the problem and its offset.
    """
    if is_remote(path):
        return _read_remote(path, name or os.path.basename(path), sliced=sliced)
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        raise DumpError(path, because("core.cannot_open", Status.NOT_HERE, error=error.strerror)) from error
    try:
        return _describe(_open_file(path, name or os.path.basename(path), descriptor), sliced=sliced)
    except OSError as error:
        raise DumpError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    finally:
        os.close(descriptor)


def _read_remote(path: str, name: str, *, sliced: bool) -> OpDump:
    from opdiff.core.remote.stores import store_of

    store = store_of(path)
    try:
        item, head = store.find(path), bytes(store.head(path)[:_HEAD_NBYTES])
        if item is None or not item.is_file():
            raise DumpError(path, because("core.not_regular_file"))
        if item.nbytes == 0:
            raise DumpError(path, because("read.empty_file"))
        return _describe(OpenFile(path, name, -1, item.nbytes, head), sliced=sliced)
    except OSError as error:
        raise DumpError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error


def _open_file(path: str, name: str, descriptor: int) -> OpenFile:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise DumpError(path, because("core.not_regular_file"))
    if status.st_size == 0:
        raise DumpError(path, because("read.empty_file"))
    return OpenFile(path, name, descriptor, status.st_size, os.pread(descriptor, _HEAD_NBYTES, 0))


def _describe(file: OpenFile, *, sliced: bool) -> OpDump:
    # The last reader accepts all files, so that it is not asked.
    reader = next((reader for reader in READERS[:-1] if reader.recognizes(file)), READERS[-1])
    operator = reader.read(file)
    parsed = parse_dump_name(file.name) if operator.attr else None
    if parsed is None or not parsed.is_slice:
        return with_doubts(operator)
    if not sliced:
        return operator
    from opdiff.read.slices import as_slice

    return as_slice(operator, parsed)

"""Interface of the readers: an open dump file, and a format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.filesystem import open_input
from opdiff.core.source import FileRange

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable
    from io import BufferedReader

    from opdiff.core.tensor import OpDump

# Tensors of up to this size take no more memory than their descriptions do.
_MAX_KEPT_NBYTES = 1 << 10


class OpenFile(Struct, frozen=True, gc=False):
    """An open dump file.

    Attributes:
        path: path of the file.
        name: real base name, also if `path` has a hash instead.
        descriptor: file descriptor; negative for a remote file.
        size: size in bytes.
        head: first bytes, enough for most headers.
    """

    path: str
    name: str
    descriptor: int
    size: int
    head: bytes

    def read(self, nbytes: int, offset: int) -> bytes:
        """Return a range of the file; fewer bytes if it ends before."""
        if self.descriptor >= 0:
            return os.pread(self.descriptor, nbytes, offset)
        from opdiff.core.remote.stores import store_of

        return bytes(store_of(self.path).read(self.path, offset, max(min(nbytes, self.size - offset), 0)))

    def range(self, offset: int, nbytes: int, *, big_endian: bool = False, fortran_order: bool = False) -> FileRange:
        """Return a range of the file, with its bytes if they are few and were read with the header."""
        found = FileRange(self.path, offset, nbytes, big_endian, fortran_order)
        if nbytes <= _MAX_KEPT_NBYTES and self.descriptor >= 0 and offset + nbytes <= len(self.head):
            found.keep(self.head[offset : offset + nbytes])
        return found

    def content(self) -> mmap.mmap:
        """Return the whole file: mapped, or a copy in memory of a remote one."""
        import mmap

        if self.descriptor >= 0:
            return mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
        copy = mmap.mmap(-1, self.size)
        copy.write(FileRange(self.path, 0, self.size).raw())
        return copy

    def stream(self) -> BufferedReader:
        """Return the file as a binary file object."""
        return open(self.descriptor, "rb", closefd=False) if self.descriptor >= 0 else open_input(self.path)


class Reader(Struct, frozen=True):
    """One format of dump files.

    Attributes:
        recognizes: tests by first bytes or name whether a file has this format.
        read: describes the operator in such a file. Raises DumpError for damaged files.
    """

    recognizes: Callable[[OpenFile], bool]
    read: Callable[[OpenFile], OpDump]


def by_suffix(suffix: str, read: Callable[[OpenFile], OpDump]) -> Reader:
    """Return the reader of a format that is recognized by the end of the file name."""
    return Reader(lambda file: file.name.endswith(suffix), read)

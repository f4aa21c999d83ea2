"""NumPy files that are mapped while a model runs, so that results need no memory of their own."""

from __future__ import annotations

import ctypes
import os
from math import prod
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE

from msgspec import Struct

from opdiff.workflows.convert.byte_copy import npy_header

Shape = tuple[int, ...]
_MAP_FAILED = ctypes.c_void_p(-1).value


class MappedArray(Struct, frozen=True):
    """A mapped NumPy file; its elements begin at `address`. An empty array is not mapped."""

    path: str
    start: int
    address: int
    nbytes: int

    def unmap(self) -> None:
        """End the mapping; the system writes the pages to the file."""
        if self.start:
            _libc().munmap(self.start, self.nbytes)


def create_array(path: str, descr: str, shape: Shape) -> MappedArray:
    """Create a NumPy file of a known size, with its disk space reserved, and map it.

    A mapping by `mmap.mmap` would keep a descriptor open for each of thousands of files.

    Raises:
        OSError: the file cannot be created, or the disk is full.
    """
    header = npy_header(descr, shape)
    nbytes = len(header) + prod(shape) * int(descr[2:])
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.write(descriptor, header)
        if nbytes == len(header):
            return MappedArray(path, 0, 0, nbytes)
        # Without reserved space, a full disk would end the process with a signal.
        os.posix_fallocate(descriptor, 0, nbytes)
        start = _libc().mmap(None, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        if start is None or start == _MAP_FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)
    return MappedArray(path, start, start + len(header), nbytes)


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def resident_file_nbytes() -> int:
    """Return the bytes of mapped files that are in memory: how much of the results was written so far."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")

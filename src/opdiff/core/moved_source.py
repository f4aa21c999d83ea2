"""Data of tensors on its way between hosts: read where the file is, measured where the other side is.

FileRange on host A ──move_source──► MovedData ──LocalFiles──► FileRange of a file in memory on host B
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import DumpError
from opdiff.core.remote.urls import host_of, own_path
from opdiff.core.source import FileRange, JoinedSlices, ZipMember, codes_from_bytes

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.source import Source


class MovedData(Struct, frozen=True):
    """The bytes of a tensor, or why they could not be read."""

    path: str
    data: bytes
    big_endian: bool = False
    fortran_order: bool = False
    problem: Reason | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that were read."""
        return (self.path,)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self.data)

    def codes(self, dtype: DType, shape: tuple[int, ...]) -> AnyArray:
        """Return the stored codes; see `Source`."""
        if self.problem is not None:
            raise DumpError(self.path, self.problem)
        range_of_bytes = FileRange(self.path, 0, len(self.data), self.big_endian, self.fortran_order)
        return codes_from_bytes(self.data, range_of_bytes, dtype, shape)


def move_source(source: Source, host: str) -> Source:
    """Return a source with the data that is on a host, which is that of this process; others as they are."""
    if isinstance(source, JoinedSlices):
        return replace(source, parts=tuple(move_source(part, host) for part in source.parts))
    if not isinstance(source, FileRange | ZipMember) or host_of(source.path) != host:
        return source
    local = replace(source, path=own_path(source.path))
    try:
        data = bytes(local.raw())
    except DumpError as error:
        return MovedData(source.path, b"", problem=error.brief)
    return MovedData(source.path, data, source.big_endian, source.fortran_order)


class LocalFiles:
    """Paths of sources on this host, and a file in memory for data of others, which ends with the context."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._nbytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def localize(self, source: Source) -> Source:
        """Return a source that is read from files of this host."""
        if isinstance(source, JoinedSlices):
            return replace(source, parts=tuple(self.localize(part) for part in source.parts))
        if isinstance(source, MovedData) and source.problem is None:
            return self._in_memory(source)
        if isinstance(source, FileRange | ZipMember):
            return replace(source, path=own_path(source.path))
        return source

    def _in_memory(self, source: MovedData) -> FileRange:
        if self._descriptor < 0:
            self._descriptor = os.memfd_create("opdiff", os.MFD_CLOEXEC)
        with open(self._descriptor, "ab", closefd=False) as file:
            file.write(source.data)
        start, self._nbytes = self._nbytes, self._nbytes + source.nbytes
        path = f"/proc/self/fd/{self._descriptor}"
        return FileRange(path, start, source.nbytes, source.big_endian, source.fortran_order)

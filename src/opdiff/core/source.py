"""Sources of tensor data: byte ranges of files, members of archives, joined slices.

A source is small, frozen and picklable; only `codes` opens the file. Large ranges are memory-mapped and not copied.
"""

from __future__ import annotations

import os
from math import prod
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opdiff.core.errors import DumpError, ElementError
from opdiff.core.filesystem import open_input, regular_file
from opdiff.core.reasons import Status, because
from opdiff.core.remote.urls import is_remote

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

# Reading is faster than mapping below this size.
_MIN_MAPPED_NBYTES = 1 << 20

MAX_RANK = 64
"""Maximum number of axes of a NumPy array."""


class Source(Protocol):
    """Source of the data of one tensor."""

    @property
    def path(self) -> str:
        """The file, for error messages."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that are read."""

    @property
    def nbytes(self) -> int:
        """Size in bytes, including padding after the data."""

    def codes(self, dtype: DType, shape: tuple[int, ...]) -> AnyArray:
        """Read the stored codes in the stored shape; the array is read-only.

        Raises:
            DumpError: the file cannot be read or is too short.
            ElementError: the type is opaque.
        """


class FileRange(Struct, frozen=True, dict=True):
    """A range of bytes in a file; NumPy files may be big-endian or in Fortran order.

    The bytes of a short range may be kept with it. They are a cache and no part of the value: they do not count for
    equality, and neither pickled nor changed ranges have them.
    """

    path: str
    offset: int
    nbytes: int
    big_endian: bool = False
    fortran_order: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The file."""
        return (self.path,)

    @property
    def kept(self) -> bytes | None:
        """The bytes, if they are kept."""
        return self.__dict__.get("kept_bytes")

    def keep(self, data: bytes) -> None:
        """Keep the bytes, so that they are not read again."""
        self.__dict__["kept_bytes"] = data

    def raw(self) -> bytes | memoryview:
        """Return the bytes; large ranges are mapped."""
        if self.kept is not None:
            return self.kept
        if is_remote(self.path):
            return self._fetch()
        try:
            descriptor = regular_file(self.path)
        except OSError as error:
            raise DumpError(self.path, because("core.cannot_open", Status.NOT_HERE, error=error.strerror)) from error
        try:
            return self._read(descriptor) if self.nbytes < _MIN_MAPPED_NBYTES else self._map(descriptor)
        except OSError as error:
            raise DumpError(
                self.path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror), self.offset
            ) from error
        finally:
            os.close(descriptor)

    def codes(self, dtype: DType, shape: tuple[int, ...]) -> AnyArray:
        """Read the stored codes; see `Source`."""
        return codes_from_bytes(self.raw(), self, dtype, shape)

    def _fetch(self) -> bytes | memoryview:
        from opdiff.core.remote.stores import fetch_all

        (data,) = fetch_all([self])
        if isinstance(data, OSError):
            raise DumpError(
                self.path, because("core.cannot_read", Status.NOT_HERE, error=data.strerror), self.offset
            ) from data
        if len(data) != self.nbytes:
            raise self._too_short(self.offset + len(data))
        return data

    def _read(self, descriptor: int) -> bytes | memoryview:
        data = os.pread(descriptor, self.nbytes, self.offset)
        if len(data) != self.nbytes:
            raise self._too_short(self.offset + len(data))
        return data

    def _map(self, descriptor: int) -> bytes | memoryview:
        import mmap

        size = os.fstat(descriptor).st_size
        if self.offset + self.nbytes > size:
            raise self._too_short(size)
        start = self.offset - self.offset % mmap.ALLOCATIONGRANULARITY
        skip = self.offset - start
        mapping = mmap.mmap(descriptor, skip + self.nbytes, access=mmap.ACCESS_READ, offset=start)
        return memoryview(mapping)[skip:]

    def _too_short(self, size: int) -> DumpError:
        return DumpError(self.path, because("core.file_ends", nbytes=self.nbytes, size=size), self.offset)


class ZipMember(Struct, frozen=True):
    """A compressed member of a zip file: `skip` bytes of header, then the data."""

    path: str
    member: str
    skip: int
    nbytes: int
    big_endian: bool = False
    fortran_order: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The zip file."""
        return (self.path,)

    def codes(self, dtype: DType, shape: tuple[int, ...]) -> AnyArray:
        """Read the stored codes; see `Source`."""
        return codes_from_bytes(self.raw(), self, dtype, shape)

    def raw(self) -> bytes:
        """Return the bytes, not compressed."""
        import zipfile
        import zlib

        try:
            return self._read()
        except (OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise DumpError(
                self.path, because("core.member_unreadable", member=self.member, error=str(error))
            ) from error

    def _read(self) -> bytes:
        import zipfile

        with (
            open_input(self.path) as file,
            zipfile.ZipFile(file) as archive,
            archive.open(self.member) as member,
        ):
            # NumPy writes only these two methods; others raise different errors for damaged data.
            if archive.getinfo(self.member).compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise NotImplementedError("it is neither stored nor deflated")
            member.read(self.skip)
            return member.read(self.nbytes)


class JoinedSlices(Struct, frozen=True):
    """Slices of one tensor, one source each, joined along an axis."""

    parts: tuple[Source, ...]
    shapes: tuple[tuple[int, ...], ...]
    axis: int

    @property
    def path(self) -> str:
        """The file of the first slice."""
        return self.parts[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of all slices."""
        return tuple(path for part in self.parts for path in part.paths)

    @property
    def nbytes(self) -> int:
        """Size of all slices in bytes."""
        return sum(part.nbytes for part in self.parts)

    def codes(self, dtype: DType, shape: tuple[int, ...]) -> AnyArray:
        """Read the stored codes; see `Source`."""
        import numpy as np

        slices = [part.codes(dtype, part_shape) for part, part_shape in zip(self.parts, self.shapes, strict=True)]
        try:
            joined = np.concatenate(slices, axis=self.axis)
        except ValueError as error:
            problem = because("core.slices_do_not_join", shapes=self.shapes, axis=self.axis)
            raise DumpError(self.path, problem) from error
        if joined.shape != shape:
            raise DumpError(self.path, because("core.joined_shape", joined=joined.shape, shape=shape))
        joined.flags.writeable = False
        return joined


def codes_from_bytes(
    raw: bytes | memoryview, source: FileRange | ZipMember, dtype: DType, shape: tuple[int, ...]
) -> AnyArray:
    """Return the codes in `raw` in native byte order and the given shape."""
    from opdiff.core import codes as elements

    # Checked first, because the product over millions of axes of a damaged header would take hours.
    if len(shape) > MAX_RANK:
        raise DumpError(source.path, because("core.too_many_axes", rank=len(shape), limit=MAX_RANK))
    if any(extent < 0 for extent in shape):
        raise DumpError(source.path, because("core.impossible_shape", shape=shape))
    try:
        flat = elements.unpack(raw, dtype, prod(shape))
    except ElementError as error:
        if not dtype.bits:
            raise
        stored = memoryview(raw).nbytes * 8 // dtype.bits
        if prod(shape) <= stored:
            raise
        problem = because("core.too_few_elements", shape=shape, needed=prod(shape), dtype=dtype.name, stored=stored)
        raise DumpError(source.path, problem) from error
    if source.big_endian:
        flat = flat.byteswap()
    try:
        array = flat.reshape(shape[::-1]).T if source.fortran_order else flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # an empty array with an extent beyond the address space
        raise DumpError(source.path, because("core.impossible_shape", shape=shape)) from error
    array.flags.writeable = False
    return array

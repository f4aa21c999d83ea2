"""Bounds-checked reading of binary headers; no other code unpacks bytes."""

from __future__ import annotations

import struct
import sys
from itertools import count
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import mmap

    from opdiff.core.reasons import Reason

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")


class Cursor:
    """Sequential reader of little-endian values in `data[start:end]`.

    `origin` is the file offset of `data[0]`, so that errors name file offsets. A cursor and its parts share the list
    `anomalies`: contents that the format permits but intact files do not have. They also share the count of fields,
    whose limit `max_fields` bounds the time that a hostile header takes.
    """

    __slots__ = ("_fields", "anomalies", "data", "end", "max_fields", "origin", "path", "position")

    def __init__(
        self, data: bytes | memoryview | mmap.mmap, path: str, start: int = 0, end: int | None = None, origin: int = 0
    ) -> None:
        self.data = data
        self.end = len(data) if end is None else end
        self.origin = origin
        self.path = path
        self.position = start
        self.anomalies: list[DumpError] = []
        self.max_fields = sys.maxsize
        self._fields = count(1)

    @property
    def remaining(self) -> int:
        """Number of unread bytes."""
        return self.end - self.position

    @property
    def offset(self) -> int:
        """The position as an offset in the file."""
        return self.origin + self.position

    def error(self, problem: Reason, back: int = 0) -> DumpError:
        """Return an error for the current offset, or for `back` bytes before it."""
        return DumpError(self.path, problem, self.offset - back)

    def skip(self, nbytes: int, field: str) -> None:
        """Skip bytes."""
        end = self.position + nbytes
        if end > self.end:
            raise self.error(because("read.field_truncated", field=field, nbytes=nbytes, left=self.remaining))
        self.position = end

    def take(self, nbytes: int, field: str) -> bytes:
        """Return a copy of the next bytes; the bounds are checked before anything is allocated."""
        start = self.position
        self.skip(nbytes, field)
        return bytes(self.data[start : self.position])

    def part(self, nbytes: int, field: str) -> Cursor:
        """Return a cursor over the next bytes, and skip them."""
        start = self.position
        self.skip(nbytes, field)
        part = Cursor(self.data, self.path, start, self.position, self.origin)
        part.anomalies = self.anomalies
        part.max_fields = self.max_fields
        part._fields = self._fields
        return part

    def count_field(self) -> None:
        """Count a field before it is read.

        Raises:
            DumpError: it is one too many.
        """
        if next(self._fields) > self.max_fields:
            raise self.error(because("read.too_many_fields", limit=self.max_fields))

    def u32(self, field: str) -> int:
        """Read an unsigned 32-bit integer."""
        return self._unpack(_U32, field)

    def i32(self, field: str) -> int:
        """Read a signed 32-bit integer."""
        return self._unpack(_I32, field)

    def u64(self, field: str) -> int:
        """Read an unsigned 64-bit integer."""
        return self._unpack(_U64, field)

    def varint(self, field: str, bits: int = 64) -> int:
        """Read a base-128 integer of at most `bits` bits; with 64, higher bits are dropped, as protobuf does."""
        data, position, end = self.data, self.position, self.end
        if position < end and data[position] < 0x80:
            self.position = position + 1
            return data[position]
        result = shift = 0
        while position < end:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                if result >> bits and bits < 64:
                    raise self.error(because("read.varint_too_large", field=field, bits=bits))
                self.position = position
                return result & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
            if shift >= bits:
                raise self.error(because("read.varint_too_long", field=field, nbytes=shift // 7))
        raise self.error(because("read.ends_inside", field=field))

    def _unpack(self, layout: struct.Struct, field: str) -> int:
        start = self.position
        self.skip(layout.size, field)
        value: int = layout.unpack_from(self.data, start)[0]
        return value

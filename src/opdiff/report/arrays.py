"""Binary arrays of numbers behind a JSON document that describes them; the page and saved comparisons have this form.

    4 bytes: length of the JSON, little-endian │ JSON │ the arrays, one after the other

A description has the type (`b`, `h`, `i`, `q`, `f`, `d`: signed integers of 1, 2, 4 and 8 bytes, floats of 4 and 8
bytes), the offset and the number of elements. The bytes of an array are stored in planes, first bytes of all numbers,
then second bytes and so on, which compresses better.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Numbers = Sequence[float] | Sequence[int]

_LENGTH_NBYTES = 4
# Higher levels take up to twice as long for two percent fewer bytes.
_DEFLATE_LEVEL = 2
_WIDTHS = {"b": 1, "h": 2, "i": 4, "q": 8, "f": 4, "d": 8}

BYTE_ORDER = "@" if sys.byteorder == "little" else "<"
"""Little-endian for `struct`, which packs native byte order faster."""


class ArrayWriter:
    """Collector of arrays."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._end = 0

    def add(self, kind: str, data: bytes) -> dict[str, Any]:
        """Add an array of packed numbers, and return its description."""
        width = _WIDTHS[kind]
        self._parts += [data[plane::width] for plane in range(width)]
        start, self._end = self._end, self._end + len(data)
        return {"type": kind, "at": start, "count": len(data) // width}

    def compressed(self, document: Mapping[str, Any]) -> bytes:
        """Return the document, and all arrays behind it, compressed together."""
        head = _encode(document)
        # Arrays are aligned to 8 bytes, so that the page can use them in place.
        blanks = b" " * (-(len(head) + _LENGTH_NBYTES) % 8)
        length = (len(head) + len(blanks)).to_bytes(_LENGTH_NBYTES, "little")
        return zlib.compress(b"".join([length, head, blanks, *self._parts]), _DEFLATE_LEVEL)


def _encode(document: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (OverflowError, UnicodeEncodeError):
        # Integers of more than 64 bits, or names that are not UTF-8: rare, and slower.
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


class ArrayReader:
    """Reader of a document and its arrays.

    Raises:
        ValueError: the document is not JSON.
    """

    def __init__(self, data: bytes) -> None:
        end = _LENGTH_NBYTES + int.from_bytes(data[:_LENGTH_NBYTES], "little")
        self.document = json.loads(data[_LENGTH_NBYTES:end])
        self._arrays = memoryview(data)[end:]

    def numbers(self, description: Mapping[str, Any], count: int) -> tuple[Any, ...]:
        """Return the numbers of an array that should have `count` elements.

        Raises:
            ValueError: it has another number of elements, or its bytes are missing.
        """
        kind, start, width = description["type"], description["at"], _WIDTHS[description["type"]]
        planes = self._arrays[start : start + count * width]
        if start < 0 or description["count"] != count or len(planes) != count * width:
            raise ValueError(f"an array of {count} elements is missing")
        data = bytearray(len(planes))
        for plane in range(width):
            data[plane::width] = planes[plane * count : (plane + 1) * count]
        return struct.unpack(f"{BYTE_ORDER}{count}{kind}", data)


def pack_numbers(kind: str, numbers: Numbers) -> bytes:
    """Return numbers as bytes.

    Raises:
        struct.error: a number is out of range, or not a number.
        OverflowError: a number is out of the range of floats.
    """
    return struct.pack(f"{BYTE_ORDER}{len(numbers)}{kind}", *numbers)


def pack_integers(kinds: str, numbers: Sequence[int]) -> tuple[str, bytes] | None:
    """Return the first of the kinds, narrowest first, that holds all integers, and their bytes; `None` if none does."""
    # Trying is faster than checking the range first.
    with suppress(ValueError):
        data = bytes(numbers)
        if data.isascii():
            return "b", data
    for kind in kinds:
        with suppress(struct.error):
            return kind, pack_numbers(kind, numbers)
    return None

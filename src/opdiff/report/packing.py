"""Columns of a table in few bytes: numbers as binary arrays, texts once, everything deflated together.

    4 bytes: length of the JSON, little-endian │ JSON │ the arrays that it names, one after the other

A number array is a type (`b`, `h`, `i`, `f`, `d`: signed integers of 1, 2 and 4 bytes, floats of 4 and 8), where it
begins, how many numbers it has, and which of them are not there. Its bytes are planes: the first bytes of all numbers,
then the second ones, …: like stands beside like, and deflating finds it.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from collections import defaultdict
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from opdiff.report.page_reasons import ReasonEncoder
from opdiff.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from opdiff.core.reasons import Reason

    Number = float | int | None

_INTEGERS = ("b", "h", "i")
_WIDTHS = {"b": 1, "h": 2, "i": 4, "f": 4, "d": 8}
# Numbers are packed as the machine has them where that is little-endian already, which is quicker.
_ORDER = "@" if sys.byteorder == "little" else "<"
_LARGEST = sys.float_info.max
# The last bytes of single floats, of either sign: those that are nearly zero, and those that are huge or not finite.
_TINY, _HUGE = (0x00, 0x80), (0x7F, 0xFF)
# The levels above take up to twice as long for two percent less.
_DEFLATE_LEVEL = 2


class Packer:
    """Collects texts and arrays, and makes one byte string of them and a document that refers to them."""

    def __init__(self) -> None:
        # A text, or what stands for a sentence of the page.
        self._numbers_of_texts: dict[str | tuple[Reason, ...], int] = defaultdict(count().__next__)
        self._reasons = ReasonEncoder()
        self._parts: list[bytes] = []
        self._end = 0

    def texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """A column of texts."""
        return self.integers(list(map(self._numbers_of_texts.__getitem__, texts)))

    def reasons(self, reasons: Sequence[tuple[Reason, ...]]) -> dict[str, Any]:
        """A column of reasons, several in each row, which the page shows in its language."""
        return self.integers([self._numbers_of_texts[each or ""] for each in reasons])

    def sentences(self, reasons: Iterable[Reason]) -> list[list[object]]:
        """Reasons that stand in the document itself."""
        return self._reasons.encode_all(reasons)

    def integers(self, numbers: Sequence[int]) -> dict[str, Any]:
        """A column of integers; those that 32 bits do not hold become floats."""
        # To try what fits is quicker than to look first, and small numbers are bytes as they are.
        with suppress(ValueError):
            data = bytes(numbers)
            if data.isascii():
                return self._add("b", data)
        for kind in _INTEGERS:
            with suppress(struct.error):
                return self._add(kind, _packed(kind, numbers))
        return self._add("d", _packed("d", list(map(_as_float, numbers))))

    def exact(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """A column of numbers in double precision; `None` is kept."""
        data, _, absent = _floats("d", numbers)
        return self._add("d", data, absent)

    def floats(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """A column of numbers to seven digits; in double precision if one is beyond single precision."""
        data, filled, absent = _floats("f", numbers)
        if _is_lost(data, filled):
            return self._add("d", _floats("d", filled)[0], absent)
        return self._add("f", data, absent)

    def packed(self, document: dict[str, Any]) -> bytes:
        """Everything, deflated; the document gets `texts`, in the order of their numbers."""
        texts = [
            printable(text) if isinstance(text, str) else self._reasons.encode_all(text)
            for text in self._numbers_of_texts
        ]
        head = json.dumps(
            document | {"texts": texts, "templates": self._reasons.templates}, separators=(",", ":"), allow_nan=False
        ).encode()
        # At a multiple of 8, so that arrays can be looked at where they are.
        head += b" " * (-(len(head) + 4) % 8)
        return zlib.compress(b"".join([len(head).to_bytes(4, "little"), head, *self._parts]), _DEFLATE_LEVEL)

    def _add(self, kind: str, data: bytes, absent: Sequence[int] = ()) -> dict[str, Any]:
        width = _WIDTHS[kind]
        self._parts += [data[plane::width] for plane in range(width)]
        start, self._end = self._end, self._end + len(data)
        place = {"type": kind, "at": start, "count": len(data) // width}
        return place | {"absent": list(absent)} if absent else place


def _packed(kind: str, numbers: Sequence[float | int]) -> bytes:
    return struct.pack(f"{_ORDER}{len(numbers)}{kind}", *numbers)


def _floats(kind: str, numbers: Sequence[Number]) -> tuple[bytes, Sequence[float | int], Sequence[int]]:
    """Floats as bytes; the numbers with zeros for those that are not there, and the places of these."""
    with suppress(struct.error, OverflowError):
        return _packed(kind, numbers), numbers, ()  # type: ignore[arg-type, return-value]  # else it does not fit
    absent = [place for place, number in enumerate(numbers) if number is None]
    filled = [0.0 if number is None else _as_float(number) for number in numbers]
    return _packed(kind, filled), filled, absent


def _is_lost(single: bytes, numbers: Sequence[float | int]) -> bool:
    """Whether numbers became zero or infinite in single precision."""
    ends = single[3::4]
    tiny, huge = sum(map(ends.count, _TINY)), sum(map(ends.count, _HUGE))
    if not huge and (not tiny or tiny == numbers.count(0.0)):
        return False
    values = struct.unpack(f"{_ORDER}{len(numbers)}f", single)
    return any(values.count(limit) != numbers.count(limit) for limit in (math.inf, -math.inf, 0.0))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return _LARGEST if number > 0 else -_LARGEST

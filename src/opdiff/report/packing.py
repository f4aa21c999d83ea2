"""Columns of a table in few bytes: numbers as binary arrays, texts once, everything deflated together.

    4 bytes: length of the JSON, little-endian │ JSON │ the arrays that it names, one after the other

A number array is a type (`b`, `h`, `i`, `f`, `d`: signed integers of 1, 2 and 4 bytes, floats of 4 and 8), where it
begins, how many numbers it has, and which of them are not there. Its bytes are planes: the first bytes of all numbers,
then the second ones, …: like stands beside like, and deflating finds it.
"""

from __future__ import annotations

import json
import math
import re
import sys
import zlib
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Number = float | int | None

_INTEGERS = ("b", "h", "i")
_LARGEST = sys.float_info.max
# Controls, joiners, marks of direction: what ASCII does not have of them.
_HIDDEN = re.compile("[\x80-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
# The levels above take up to twice as long for two percent less.
_DEFLATE_LEVEL = 2


class Packer:
    """Collects texts and arrays, and makes one byte string of them and a document that refers to them."""

    def __init__(self) -> None:
        self._numbers_of_texts: dict[str, int] = {}
        self._parts: list[bytes] = []
        self._end = 0

    def texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """A column of texts."""
        known = self._numbers_of_texts
        for text in dict.fromkeys(texts):
            known.setdefault(text, len(known))
        return self.integers(list(map(known.__getitem__, texts)))

    def integers(self, numbers: Sequence[int]) -> dict[str, Any]:
        """A column of integers; those that 32 bits do not hold become floats."""
        for kind in _INTEGERS:
            # An array refuses at once what does not fit, which is quicker than to look first.
            with suppress(OverflowError):
                return self._add(array(kind, numbers))
        return self._add(_array("d", numbers))

    def exact(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """A column of numbers in double precision; `None` is kept."""
        filled, absent = _without_none(numbers)
        return self._add(_array("d", filled), absent)

    def floats(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """A column of numbers to seven digits; in double precision if one is beyond single precision."""
        filled, absent = _without_none(numbers)
        single = _array("f", filled)
        lost = any(single.count(limit) != filled.count(limit) for limit in (math.inf, -math.inf, 0.0))
        return self._add(_array("d", filled) if lost else single, absent)

    def packed(self, document: dict[str, Any]) -> bytes:
        """Everything, deflated; the document gets `texts`, in the order of their numbers."""
        texts = list(self._numbers_of_texts)
        if not "".join(texts).isascii():
            texts = list(map(printable, texts))
        head = json.dumps(document | {"texts": texts}, separators=(",", ":"), allow_nan=False).encode()
        # At a multiple of 8, so that arrays can be looked at where they are.
        head += b" " * (-(len(head) + 4) % 8)
        return zlib.compress(b"".join([len(head).to_bytes(4, "little"), head, *self._parts]), _DEFLATE_LEVEL)

    def _add(self, numbers: array[Any], absent: Sequence[int] = ()) -> dict[str, Any]:
        if sys.byteorder == "big":
            numbers.byteswap()
        data, width = numbers.tobytes(), numbers.itemsize
        self._parts += [data[plane::width] for plane in range(width)]
        start, self._end = self._end, self._end + len(data)
        place = {"type": numbers.typecode, "at": start, "count": len(numbers)}
        return place | {"absent": list(absent)} if absent else place


def printable(text: str) -> str:
    """A text as the page shows it.

    Names of files need not be text, and may hold marks that turn the letters around or are not seen: those become
    escapes, so that one name cannot look like another.
    """
    shown = text.encode(errors="backslashreplace").decode()
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), shown)


def _without_none(numbers: Sequence[Number]) -> tuple[Sequence[float | int], Sequence[int]]:
    if None not in numbers:
        return numbers, ()  # type: ignore[return-value]  # there is no None in it
    absent = [place for place, number in enumerate(numbers) if number is None]
    return [0.0 if number is None else number for number in numbers], absent


def _array(kind: str, numbers: Sequence[float | int]) -> array[float]:
    try:
        return array(kind, numbers)
    except OverflowError:
        return array(kind, map(_as_float, numbers))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return _LARGEST if number > 0 else -_LARGEST

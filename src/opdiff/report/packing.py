"""Columns for the HTML page: numbers as binary arrays, equal strings once, everything compressed together.

The description of an array also has the indices of missing numbers, as `absent`.
"""

from __future__ import annotations

import math
import struct
import sys
from collections import defaultdict
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING

from opdiff.report.arrays import BYTE_ORDER, ArrayWriter, pack_integers, pack_numbers
from opdiff.report.page_text import ReasonEncoder, page_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from opdiff.core.reasons import Reason

    Number = float | int | None
    Text = str | tuple[Reason, ...]

_INTEGERS = "bhi"
_MAX_FLOAT = sys.float_info.max
# Highest bytes of single-precision floats of either sign that are close to zero, and that are huge or not finite.
_TINY_BYTES, _HUGE_BYTES = (0x00, 0x80), (0x7F, 0xFF)


class Packer:
    """Collector of strings, reasons and arrays. Methods return references to them for the document."""

    def __init__(self, known: dict[Text, int] | None = None, *, stores_texts: bool = True) -> None:
        # Numbers of strings, and of the reasons that the page shows as sentences. Known ones are stored elsewhere.
        self._text_numbers: dict[Text, int] = {} if known is None else known
        self._stores_texts = stores_texts
        self._known_count = len(self._text_numbers)
        if stores_texts:
            self._text_numbers = defaultdict(count(self._known_count).__next__, self._text_numbers)
        self._reasons = ReasonEncoder()
        self._arrays = ArrayWriter()

    def for_first_block(self) -> Packer:
        """Return a packer of the first block of rows.

        Its strings are added to this packer: most of them occur in other blocks, too.
        """
        return Packer(self._text_numbers, stores_texts=False)

    def known_texts(self) -> dict[Text, int]:
        """Return the numbers of the strings up to now, for packers of other blocks."""
        return dict(self._text_numbers)

    def texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """Add a column of strings."""
        return self.integers(list(map(self._text_numbers.__getitem__, texts)))

    def reasons(self, reasons: Sequence[tuple[Reason, ...]]) -> dict[str, Any]:
        """Add a column of reasons, any number per row."""
        return self.integers([self._text_numbers[row_reasons or ""] for row_reasons in reasons])

    def sentences(self, reasons: Iterable[Reason]) -> list[list[object]]:
        """Return reasons encoded for the document itself."""
        return self._reasons.encode_all(reasons)

    def integers(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Add a column of integers; as floats if 32 bits are too few."""
        kind, data = pack_integers(_INTEGERS, numbers) or ("d", pack_numbers("d", list(map(_as_float, numbers))))
        return self._arrays.add(kind, data)

    def codes(self, data: bytes) -> dict[str, Any]:
        """Add an array of bytes."""
        return self._arrays.add("b", data)

    def exact(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """Add a column of numbers in double precision, `None` included."""
        data, _, absent = _floats("d", numbers)
        return self._add("d", data, absent)

    def floats(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """Add a column of numbers in single precision; in double precision if one is out of range."""
        data, filled, absent = _floats("f", numbers)
        if _is_lost(data, filled):
            return self._add("d", _floats("d", filled)[0], absent)
        return self._add("f", data, absent)

    def packed(self, document: dict[str, Any]) -> bytes:
        """Return the document and all arrays, compressed.

        Added to the document are `texts` and `templates`, and `shared`, the number of the first of these texts.
        """
        own = list(islice(self._text_numbers, self._known_count, None)) if self._stores_texts else []
        shared = len(self._text_numbers) - len(own)
        texts = [page_text(text) if isinstance(text, str) else self._reasons.encode_all(text) for text in own]
        added = {"texts": texts, "templates": self._reasons.templates, "shared": shared}
        return self._arrays.compressed(document | added)

    def _add(self, kind: str, data: bytes, absent: Sequence[int]) -> dict[str, Any]:
        description = self._arrays.add(kind, data)
        return description | {"absent": list(absent)} if absent else description


def _floats(kind: str, numbers: Sequence[Number]) -> tuple[bytes, Sequence[float | int], Sequence[int]]:
    """Return the numbers as bytes, the numbers with 0 in place of `None`, and the indices of `None`."""
    with suppress(struct.error, OverflowError):
        return pack_numbers(kind, numbers), numbers, ()  # type: ignore[arg-type, return-value]  # fails with `None`
    absent = [index for index, number in enumerate(numbers) if number is None]
    filled = [0.0 if number is None else _as_float(number) for number in numbers]
    return pack_numbers(kind, filled), filled, absent


def _is_lost(single: bytes, numbers: Sequence[float | int]) -> bool:
    """Return whether numbers became zero or infinite in single precision."""
    highest_bytes = single[3::4]
    tiny, huge = sum(map(highest_bytes.count, _TINY_BYTES)), sum(map(highest_bytes.count, _HUGE_BYTES))
    if not huge and (not tiny or tiny == numbers.count(0.0)):
        return False
    values = struct.unpack(f"{BYTE_ORDER}{len(numbers)}f", single)
    return any(values.count(limit) != numbers.count(limit) for limit in (math.inf, -math.inf, 0.0))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return _MAX_FLOAT if number > 0 else -_MAX_FLOAT

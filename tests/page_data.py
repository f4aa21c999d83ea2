"""The data of an HTML report, unpacked in the same way as by the page."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

from opdiff.core.reasons import Language
from opdiff.report.parts import write_parts
from opdiff.report.payload import PagePayload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from opdiff.core.comparison import Comparison
    from opdiff.report.changes import Changes

_BLOCK = re.compile(r'<script type="text/plain" id="(data|block-\d+)">([A-Za-z0-9+/=]+)</script>')


def pack(comparison: Comparison, add_block: Callable[[bytes], object], changes: Changes | None = None) -> bytes:
    """Return the data of a page without its rows, whose blocks are added one after the other."""
    payload = PagePayload(comparison, add_block, changes)
    write_parts(comparison, [payload.blocks()], map)
    return payload.packed()


class PageData:
    """The data of all rows, and of each block. Strings of blocks follow those of all rows."""

    def __init__(self, of_all: bytes, blocks: Sequence[bytes]) -> None:
        self.document, self._arrays = unpacked(of_all)
        self.blocks = [unpacked(block) for block in blocks]

    @classmethod
    def of(cls, comparison: Comparison, changes: Changes | None = None) -> Self:
        """Return the data of the report of a comparison."""
        blocks: list[bytes] = []
        return cls(pack(comparison, blocks.append, changes), blocks)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the data of a report."""
        found = _BLOCK.findall(path.read_text(encoding="utf-8"))
        assert [name for name, _ in found] == ["data", *(f"block-{number}" for number in range(len(found) - 1))]
        of_all, *blocks = (base64.b64decode(data) for _, data in found)
        return cls(of_all, blocks)

    def column(self, *names: str | int) -> list[Any]:
        """Return a column of all rows, or another one outside of the blocks."""
        return _column(self.document, self._arrays, names)

    def texts(self, *names: str | int) -> list[str]:
        return [self.document["texts"][number] for number in self.column(*names)]

    def units(self) -> list[int]:
        """Return the number of the unit of each row."""
        return [unit for unit, count in self.document["unitRuns"] for _ in range(count)]

    def block_column(self, *names: str) -> list[Any]:
        """Return a column of the rows of all blocks."""
        return [value for block in self.blocks for value in _column(*block, names)]

    def block_texts(self, *names: str) -> list[str]:
        return [self._text(block, number) for block, data in self.blocks for number in _column(block, data, names)]

    def rows_with(self, *names: str) -> list[int]:
        """Return the numbers of the rows for which the blocks have this group of columns."""
        firsts = accumulate(self.document["blocks"], initial=0)
        return [
            first + number
            for first, block in zip(firsts, self.blocks, strict=False)
            for number in _column(*block, (*names, "rows"))
        ]

    def rows_of(self, operator: str) -> list[int]:
        """Return the numbers of the rows of an operator."""
        return [number for number, name in enumerate(self.block_texts("rows", "target")) if name == operator]

    def _text(self, block: dict[str, Any], number: int) -> str:
        shared = block["shared"]
        text: str = self.document["texts"][number] if number < shared else block["texts"][number - shared]
        return text


def unpacked(packed: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the document, its strings in English, and the arrays."""
    document, arrays = _parts(packed)
    texts = [text if isinstance(text, str) else "; ".join(sentences(text, document)) for text in document["texts"]]
    return document | {"texts": texts}, arrays


def raw_document(packed: bytes) -> dict[str, Any]:
    """Return the document with encoded strings."""
    return _parts(packed)[0]


def _parts(packed: bytes) -> tuple[dict[str, Any], bytes]:
    data = zlib.decompress(packed)
    (length,) = struct.unpack_from("<I", data)
    return json.loads(data[4 : 4 + length]), data[4 + length :]


def sentences(encoded: list[list[Any]], document: dict[str, Any], language: Language = Language.ENGLISH) -> list[str]:
    """Return encoded reasons as sentences."""
    return [_sentence(each, document, language) for each in encoded]


def _sentence(encoded: Any, document: dict[str, Any], language: Language) -> str:
    if isinstance(encoded, str):
        return encoded
    if isinstance(encoded, dict):
        return encoded[language] if language in encoded else "; ".join(sentences(encoded["all"], document, language))
    number, *values = encoded
    template: str = document["templates"][number][list(Language).index(language)]
    return template.format(*(_sentence(value, document, language) for value in values))


def numbers(column: dict[str, Any], data: bytes) -> list[float | None]:
    """Return the numbers of a column."""
    made = array(column["type"])
    size = column["count"] * made.itemsize
    planes = data[column["at"] : column["at"] + size]
    joined = bytearray(size)
    for plane in range(made.itemsize):
        joined[plane :: made.itemsize] = planes[plane * column["count"] : (plane + 1) * column["count"]]
    made.frombytes(bytes(joined))
    absent = set(column.get("absent", ()))
    return [None if index in absent else value for index, value in enumerate(made)]


def _column(document: dict[str, Any], data: bytes, names: tuple[str | int, ...]) -> list[Any]:
    packed: Any = document
    for name in names:
        packed = packed[name]
    return numbers(packed, data)

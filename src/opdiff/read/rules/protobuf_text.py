"""Protobuf's text form: fields and blocks of a message. See docs/formats/graph-text.md.

One pass, no recursion: time and memory grow with the text, whatever is in it. Unknown parts are skipped and
recorded as problems.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import Status, because
from opdiff.read.rules.c_escapes import unescape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

_MAX_BYTES = 1 << 30
_MAX_DEPTH = 100
BYTES_FIELD = "data"
"""The bytes of a constant."""

# Fields of bytes that need not be UTF-8; `offset` is that of AMCT's layer `Quant`.
_BYTES_FIELDS = frozenset({BYTES_FIELD, "offset"})
# Blanks and comments are skipped; a quote that is never closed ends with its line.
_TOKEN = re.compile(
    r"""(?:[\s,;]+|\#[^\n]*)+ | (?P<text>"(?:[^"\\\n]|\\.)*\\?(?:["\n]|\Z) | '(?:[^'\\\n]|\\.)*\\?(?:['\n]|\Z))
    | (?P<open>[{<]) | (?P<close>[}>]) | (?P<mark>[:\[\]]) | (?P<word>[^\s,;:{}<>\[\]"'\#]+) | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)


class Block:
    """A message that is being read: its fields in the order of the text."""

    __slots__ = ("blocks", "name", "texts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: dict[str, list[str]] = {}
        self.blocks: dict[str, list[Block]] = {}

    def one(self, name: str) -> str:
        """The last value of a field, as protobuf has it."""
        return (self.texts.get(name) or [""])[-1]

    def below(self, *names: str) -> Block | None:
        """The last block at a path of names."""
        found = self
        for name in names:
            if name not in found.blocks:
                return None
            found = found.blocks[name][-1]
        return found


def read_text(path: str) -> str:
    """Return the content of a text file.

    Raises:
        InputError: the file cannot be read, or is too large.
    """
    try:
        return read_input(path, _MAX_BYTES).decode(errors="replace")
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error


def iter_top(text: str, problems: dict[Reason, None]) -> Iterator[tuple[str, Block | str]]:
    """Yield the fields of the outermost message, blocks when they are complete."""
    reader = _Reader(problems)
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            yield from reader.take(match.lastgroup, match.group())
    if reader.stack:
        problems[because("read.unfinished_block")] = None


class _Reader:
    """Parser of tokens into fields of the graph."""

    def __init__(self, problems: dict[Reason, None]) -> None:
        self.stack: list[Block] = []
        self._problems = problems
        self._name = ""
        self._in_list = False
        self._has_colon = False
        self._skipped = 0

    def take(self, kind: str, token: str) -> Iterator[tuple[str, Block | str]]:
        if kind == "open":
            self._open()
        elif kind == "close":
            yield from self._close()
        elif kind == "mark":
            self._mark(token)
        elif kind == "odd":
            self._problems[because("read.unexpected_characters", token=repr(token))] = None
        elif kind == "word" and not (self._has_colon or self._in_list):
            self._name = token
        else:
            yield from self._value(self._unquoted(token) if kind == "text" else token)

    def _unquoted(self, token: str) -> str:
        if len(token) < 2 or token[-1] != token[0]:
            self._problems[because("read.open_quote")] = None
        errors = "surrogateescape" if self._name in _BYTES_FIELDS else "replace"
        return unescape(token[1:].removesuffix(token[0]), errors)

    def _mark(self, sign: str) -> None:
        if sign == ":":
            self._has_colon = bool(self._name)
        elif sign == "[":
            self._in_list = self._has_colon
        else:
            self._in_list = self._has_colon = False

    def _open(self) -> None:
        if self._skipped or len(self.stack) >= _MAX_DEPTH:
            self._skipped += 1
            self._problems[because("read.blocks_too_deep", limit=_MAX_DEPTH)] = None
        else:
            self.stack.append(Block(self._name))
        self._name, self._has_colon, self._in_list = "", False, False

    def _close(self) -> Iterator[tuple[str, Block | str]]:
        self._has_colon = self._in_list = False
        if self._skipped:
            self._skipped -= 1
            return
        if not self.stack:
            self._problems[because("read.closed_twice")] = None
            return
        block = self.stack.pop()
        # A list may go on with a further block of the same name.
        self._name = block.name
        if self.stack:
            self.stack[-1].blocks.setdefault(block.name, []).append(block)
        else:
            yield block.name, block

    def _value(self, value: str) -> Iterator[tuple[str, Block | str]]:
        goes_on = not (self._has_colon or self._in_list)
        self._has_colon = False
        if self._skipped:
            return
        if not self.stack:
            yield self._name, value
            return
        values = self.stack[-1].texts.setdefault(self._name, [])
        if goes_on and values:
            # Texts that follow each other are one text.
            values[-1] += value
        else:
            values.append(value)

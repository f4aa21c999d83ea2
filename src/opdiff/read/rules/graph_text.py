"""Graph texts: protobuf's text form of a graph, to operators and their edges. See docs/formats/graph-text.md.

One pass, no recursion: time and memory grow with the text, whatever is in it. What is not understood is passed over
and counted; a text that was cut off gives the operators that are whole.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.graph import TextDescriptor, TextGraph, TextOp
from opdiff.core.reasons import because
from opdiff.read.rules.c_escapes import unescape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

_MAX_BYTES = 1 << 30
_MAX_DEPTH = 100
_FX_NAME = "_fx_tensor_name"
_ORIGINALS = "_datadump_original_op_names"
# Bytes of integer constants: their element types, and how many elements are of interest.
_INTEGER_NBYTES = {"DT_INT32": 4, "DT_INT64": 8}
_MAX_CONSTANT = 64
# The bytes of a constant are no text: what is not UTF-8 must survive.
_BYTES_FIELD = "data"
# Blanks and comments are passed over; a quote that is never closed ends with its line.
_TOKEN = re.compile(
    r"""(?:[\s,;]+|\#[^\n]*)+ | (?P<text>"(?:[^"\\\n]|\\.)*\\?(?:["\n]|\Z) | '(?:[^'\\\n]|\\.)*\\?(?:['\n]|\Z))
    | (?P<open>[{<]) | (?P<close>[}>]) | (?P<mark>[:\[\]]) | (?P<word>[^\s,;:{}<>\[\]"'\#]+) | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_STACK = re.compile(r'^\s*# File "([^"\n]{1,4096})", line (\d{1,9}), in (\S{1,200})')
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_NODE = re.compile(r'node_name="([^"\n]{1,1000})"')


class _Block:
    """A message that is being read: its fields in the order of the text."""

    __slots__ = ("blocks", "name", "texts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: dict[str, list[str]] = {}
        self.blocks: dict[str, list[_Block]] = {}

    def one(self, name: str) -> str:
        """The last value of a field, as protobuf has it."""
        return (self.texts.get(name) or [""])[-1]

    def below(self, *names: str) -> _Block | None:
        """The last block at a path of names."""
        found = self
        for name in names:
            if name not in found.blocks:
                return None
            found = found.blocks[name][-1]
        return found


def read_graph_text(path: str, known: dict[bytes, TextGraph] | None = None) -> TextGraph:
    """The graph in a text file, and the places in the user's code, where a listing lies beside it.

    `known` has texts that were read before, by their content: ranks often have the same.

    Raises:
        InputError: the file cannot be read, is too large, or has no operator in it.
    """
    graph = _parsed_once(_read(path), {} if known is None else known)
    if not graph.operators:
        raise InputError(path, "no operators are in this graph text")
    listing = f"{os.path.splitext(path)[0]}.py"
    if not os.path.isfile(listing):
        return graph
    return TextGraph(graph.name, graph.operators, graph.problems, parse_stacks(_read(listing)))


def _parsed_once(text: str, known: dict[bytes, TextGraph]) -> TextGraph:
    from hashlib import blake2b

    content = blake2b(text.encode()).digest()
    if content not in known:
        known[content] = parse_graph_text(text)
    return known[content]


def _read(path: str) -> str:
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            raise InputError(path, f"a graph text of more than {_MAX_BYTES >> 20} MiB is not credible")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error


def parse_graph_text(text: str) -> TextGraph:
    """The graph in a text; whatever the text is, there is one."""
    operators: dict[str, TextOp] = {}
    name = ""
    problems: dict[Reason, None] = {}
    for kind, value in _iter_top(text, problems):
        if isinstance(value, _Block) and kind == "op":
            op = _operator(value, len(operators))
            if op.name in operators:
                problems[because("read.duplicate_operator", op=op.name)] = None
            operators.setdefault(op.name, op)
        elif isinstance(value, str) and kind == "name":
            name = value
    return TextGraph(name, operators, tuple(problems))


def parse_stacks(listing: str) -> dict[str, str]:
    """Where in the user's code each operator of a Python-like listing comes from: the line that was named last."""
    stacks: dict[str, str] = {}
    place = ""
    for line in listing.splitlines():
        match = _STACK.match(line)
        if match:
            place = f'File "{match[1]}", line {match[2]}, in {match[3]}'
        node = _NODE.search(line)
        if node and place:
            stacks[node[1]] = place
    return stacks


def _iter_top(text: str, problems: dict[Reason, None]) -> Iterator[tuple[str, _Block | str]]:
    """The fields of the graph itself, blocks when they are whole."""
    reader = _Reader(problems)
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            yield from reader.take(match.lastgroup, match.group())
    if reader.stack:
        problems[because("read.unfinished_block")] = None


class _Reader:
    """Tokens in, fields of the graph out."""

    def __init__(self, problems: dict[Reason, None]) -> None:
        self.stack: list[_Block] = []
        self._problems = problems
        self._name = ""
        self._in_list = False
        self._has_colon = False
        self._skipped = 0

    def take(self, kind: str, token: str) -> Iterator[tuple[str, _Block | str]]:
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
            value = _unquoted(token, keep_bytes=self._name == _BYTES_FIELD) if kind == "text" else token
            if kind == "text" and (len(token) < 2 or token[-1] != token[0]):
                self._problems[because("read.open_quote")] = None
            yield from self._value(value)

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
            self.stack.append(_Block(self._name))
        self._name, self._has_colon, self._in_list = "", False, False

    def _close(self) -> Iterator[tuple[str, _Block | str]]:
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

    def _value(self, value: str) -> Iterator[tuple[str, _Block | str]]:
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


def _unquoted(token: str, *, keep_bytes: bool = False) -> str:
    return unescape(token[1:].removesuffix(token[0]), errors="surrogateescape" if keep_bytes else "replace")


def _operator(block: _Block, number: int) -> TextOp:
    attributes = _attributes(block)
    originals = attributes.get(_ORIGINALS)
    listed = originals.below("list") if originals else None
    return TextOp(
        block.one("name"),
        block.one("type"),
        number,
        tuple(edge for text in block.texts.get("input", []) if (edge := _edge(text)) is not None),
        tuple(_fx_name(desc) for desc in block.blocks.get("input_desc", [])),
        tuple(_fx_name(desc) for desc in block.blocks.get("output_desc", [])),
        tuple(name for name in (listed.texts.get("s", []) if listed else []) if name),
        tuple(_descriptor(desc) for desc in block.blocks.get("input_desc", [])),
        tuple(_descriptor(desc) for desc in block.blocks.get("output_desc", [])),
        tuple((key, numbers) for key, value in attributes.items() if (numbers := _integers(value))),
        _constant(attributes.get("value")),
    )


def _descriptor(block: _Block) -> TextDescriptor:
    shape = block.below("shape")
    extents = None if shape is None else _numbers(shape.texts.get("dim", []))
    return TextDescriptor(block.one("name"), block.one("dtype"), extents)


def _integers(value: _Block) -> tuple[int, ...]:
    """The numbers of an integer attribute, single or listed; nothing for other attributes."""
    listed = value.below("list")
    return _numbers((listed or value).texts.get("i", []))


def _numbers(texts: list[str]) -> tuple[int, ...]:
    return tuple(int(text) for text in texts if _NUMBER.fullmatch(text))


def _constant(value: _Block | None) -> tuple[int, ...] | None:
    """The elements of a short integer constant."""
    tensor = value.below("t") if value is not None else None
    descriptor = tensor.below("desc") if tensor is not None else None
    nbytes = _INTEGER_NBYTES.get(descriptor.one("dtype")) if descriptor is not None else None
    if tensor is None or nbytes is None:
        return None
    data = tensor.one(_BYTES_FIELD).encode(errors="surrogateescape")
    if len(data) > _MAX_CONSTANT * nbytes:
        return None
    starts = range(0, len(data) - nbytes + 1, nbytes)
    return tuple(int.from_bytes(data[start : start + nbytes], "little", signed=True) for start in starts)


def _attributes(block: _Block) -> dict[str, _Block]:
    """The values of a message's attributes by key."""
    found = {}
    for entry in block.blocks.get("attr", []):
        value = entry.below("value")
        if value is not None:
            found[entry.one("key")] = value
    return found


def _fx_name(descriptor: _Block) -> str:
    value = _attributes(descriptor).get(_FX_NAME)
    return value.one("s") if value is not None else ""


def _edge(text: str) -> tuple[str, int] | None:
    """`producer:index`; `None` for a control edge."""
    producer, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    return (producer, int(index)) if index.isdecimal() and len(index) < 10 else None

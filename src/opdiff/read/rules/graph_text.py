"""Graph texts: protobuf's text form of a graph, to operators and their edges. See docs/formats/graph-text.md.

One pass, no recursion: time and memory grow with the text, whatever is in it. Unknown parts are skipped and counted. A
text that was cut off gives the operators that are complete.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.filesystem import natural_key
from opdiff.core.graph import TextDescriptor, TextGraph, TextOp
from opdiff.core.reasons import because
from opdiff.read.rules.protobuf_text import BYTES_FIELD, Block, iter_top, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

_FX_NAME = "_fx_tensor_name"
_ORIGINALS = "_datadump_original_op_names"
# Bytes of integer constants: their element types, and how many elements are of interest.
_INTEGER_NBYTES = {"DT_INT32": 4, "DT_INT64": 8}
_MAX_CONSTANT = 64
_STACK = re.compile(r'^\s*# File "([^"\n]{1,4096})", line (\d{1,9}), in (\S{1,200})')
_FX_CODE = re.compile(r"^\s*## FX Code: .{1,4096}? = ([\w.]{1,200})\(")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_NODE = re.compile(r'node_name="([^"\n]{1,1000})"')
# Most lines of source code that are named for one operator.
_MAX_LINES = 3
# Modules around an operator, outermost first, as Python shows the dictionary: a path and a class for each.
_MODULES = "nn_module_stack"
_MODULE = re.compile(
    r"""\((?:"(?P<path>[^"]*)"|'(?P<plain>(?:[^'\\]|\\.)*)'), (?:<class '(?P<type>[^']*)'>|'(?P<name>[^']*)')\)"""
)
_MAX_MODULES_LENGTH = 20_000


def read_graph_text(path: str, known: dict[bytes, TextGraph] | None = None) -> TextGraph:
    """Read the graph of a text file; with lines of source code if a listing of the graph is beside it.

    `known` has texts that were read before, by their content: ranks often have the same.

    Raises:
        InputError: the file cannot be read, is too large, or has no operator in it.
    """
    graph = _parsed_once(read_text(path), {} if known is None else known)
    if not graph.operators:
        raise InputError(path, because("rules.no_operators"))
    lines = _read_listing(path, graph)
    if not lines:
        return graph
    places = {name: [lines.get(name, ""), graph.stacks.get(name, "")] for name in (*lines, *graph.stacks)}
    return replace(graph, stacks={name: "; ".join(filter(None, found)) for name, found in places.items()})


def _read_listing(path: str, graph: TextGraph) -> dict[str, str]:
    """Return the lines of source code of the listing beside a text; nothing if there is no listing of its graph."""
    folder, text = os.path.split(path)
    try:
        items = filesystem.list_folder(folder or os.curdir)
    except OSError:
        return {}
    # A link may lead out of the dump.
    listings = {item.name: item.path for item in items if item.name.endswith(".py") and not item.is_symlink()}
    name = f"{os.path.splitext(text)[0]}.py"
    if name in listings:
        return parse_stacks(read_text(listings[name]))
    # A process writes either texts or listings, so that the listing is that of another process.
    graph_name, _, process = name.partition("_pid_")
    others = [other for other in listings if process and other.startswith(f"{graph_name}_pid_")]
    if not others:
        return {}
    newest = max(others, key=lambda other: natural_key(other.rpartition("_ts_")[2]))
    lines = parse_stacks(read_text(listings[newest]))
    return lines if lines.keys() <= graph.operators.keys() else {}


def _parsed_once(text: str, known: dict[bytes, TextGraph]) -> TextGraph:
    from hashlib import blake2b

    content = blake2b(text.encode()).digest()
    if content not in known:
        known[content] = parse_graph_text(text)
    return known[content]


def parse_graph_text(text: str) -> TextGraph:
    """Return the graph of a text; one without operators if the text has none."""
    operators: dict[str, TextOp] = {}
    name = ""
    problems: dict[Reason, None] = {}
    versions: dict[str, str] = {}
    modules: dict[str, str] = {}
    for kind, value in _iter_graph_fields(text, problems):
        if isinstance(value, Block) and kind == "op":
            op = _operator(value, len(operators))
            if op.name in operators:
                problems[because("read.duplicate_operator", op=op.name)] = None
            operators.setdefault(op.name, op)
            if place := _module(value):
                modules[op.name] = place
        elif isinstance(value, Block) and kind == "attr":
            versions |= _version(value)
        elif isinstance(value, str) and kind == "name":
            name = value
    return TextGraph(name, operators, tuple(problems), modules, versions)


def _module(op: Block) -> str:
    """Return the innermost module of an operator; empty if the text does not have it."""
    value = _attributes(op).get(_MODULES)
    shown = value.one("s") if value is not None else ""
    modules = list(_MODULE.finditer(shown[-_MAX_MODULES_LENGTH:]))
    if not modules:
        return ""
    innermost = modules[-1].groupdict("")
    path, kind = innermost["path"] or innermost["plain"], innermost["type"] or innermost["name"]
    return f"module {path} ({kind})" if path else f"module {kind}"


def _version(entry: Block) -> dict[str, str]:
    """Return an attribute of the whole graph, if it names a processor or a version."""
    key, value = entry.one("key"), entry.below("value")
    text = value.one("s") if value is not None else ""
    return {key: text} if key.endswith("_version") and text else {}


def _iter_graph_fields(text: str, problems: dict[Reason, None]) -> Iterator[tuple[str, Block | str]]:
    """Yield the fields of the graph, which the graph engine's own texts have one level deeper."""
    for kind, value in iter_top(text, problems):
        if isinstance(value, Block) and kind == "graph":
            yield from ((name, block) for name in ("op", "attr") for block in value.blocks.get(name, ()))
            yield "name", value.one("name")
        else:
            yield kind, value


def parse_stacks(listing: str) -> dict[str, str]:
    """Return the lines of source code that each operator of a Python-like listing may come from.

    A listing names a line once, before the first FX node of this line. A later node is of the line named last, or of an
    earlier line that had the same operation.
    """
    stacks: dict[str, str] = {}
    lines_of: dict[str, dict[str, None]] = {}
    line = place = ""
    is_first = False
    for text in listing.splitlines():
        if match := _STACK.match(text):
            line = place = f'File "{match[1]}", line {match[2]}, in {match[3]}'
            is_first = True
        elif (match := _FX_CODE.match(text)) and line:
            lines = lines_of.setdefault(match[1], {})
            lines[line] = None
            place = line if is_first else _listed(lines)
            is_first = False
        node = _NODE.search(text)
        if node and place:
            stacks[node[1]] = place
    return stacks


def _listed(lines: dict[str, None]) -> str:
    last = list(islice(reversed(lines), _MAX_LINES))
    shown = " or ".join(reversed(last))
    return f"{shown} or others" if len(lines) > _MAX_LINES else shown


def _operator(block: Block, number: int) -> TextOp:
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


def _descriptor(block: Block) -> TextDescriptor:
    shape = block.below("shape")
    extents = None if shape is None else _numbers(shape.texts.get("dim", []))
    return TextDescriptor(block.one("name"), block.one("dtype"), extents)


def _integers(value: Block) -> tuple[int, ...]:
    """Return the numbers of an integer attribute, single or listed; nothing for other attributes."""
    listed = value.below("list")
    return _numbers((listed or value).texts.get("i", []))


def _numbers(texts: list[str]) -> tuple[int, ...]:
    return tuple(int(text) for text in texts if _NUMBER.fullmatch(text))


def _constant(value: Block | None) -> tuple[int, ...] | None:
    """Return the elements of a short integer constant."""
    tensor = value.below("t") if value is not None else None
    descriptor = tensor.below("desc") if tensor is not None else None
    nbytes = _INTEGER_NBYTES.get(descriptor.one("dtype")) if descriptor is not None else None
    if tensor is None or nbytes is None:
        return None
    data = tensor.one(BYTES_FIELD).encode(errors="surrogateescape")
    if len(data) > _MAX_CONSTANT * nbytes:
        return None
    starts = range(0, len(data) - nbytes + 1, nbytes)
    return tuple(int.from_bytes(data[start : start + nbytes], "little", signed=True) for start in starts)


def _attributes(block: Block) -> dict[str, Block]:
    """Return the values of a message's attributes by key."""
    found = {}
    for entry in block.blocks.get("attr", []):
        value = entry.below("value")
        if value is not None:
            found[entry.one("key")] = value
    return found


def _fx_name(descriptor: Block) -> str:
    value = _attributes(descriptor).get(_FX_NAME)
    return value.one("s") if value is not None else ""


def _edge(text: str) -> tuple[str, int] | None:
    """Return producer and index of `producer:index`; `None` for a control edge."""
    producer, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    return (producer, int(index)) if index.isdecimal() and len(index) < 10 else None

"""Encoder of graph texts; follows the format page, independently of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.tensor import Shape


class TextNode(Struct, frozen=True):
    """One operator of a graph text.

    Attributes:
        name: its name.
        op_type: its type.
        inputs: edges, as `producer:index`.
        input_fx: the FX tensors that its input descriptors name; empty for none.
        output_fx: the FX tensors that its output descriptors name; empty for none.
        originals: original operators.
        shapes: shapes of its outputs, where the text has them.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    input_fx: tuple[str, ...] = ()
    output_fx: tuple[str, ...] = ("",)
    originals: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()


def graph_text(name: str, nodes: Iterable[TextNode]) -> str:
    """Return the text of a graph, indented by two blanks per level."""
    lines = [f"name: {_quoted(name)}"]
    for node in nodes:
        lines += ["op {", *(f"  {line}" for line in _op(node)), "}"]
    return "\n".join(lines) + "\n"


def _op(node: TextNode) -> Iterator[str]:
    yield f"name: {_quoted(node.name)}"
    yield f"type: {_quoted(node.op_type)}"
    yield from (f"input: {_quoted(edge)}" for edge in node.inputs)
    if node.originals:
        listed = "".join(f"\n      s: {_quoted(name)}" for name in node.originals)
        yield from _attribute("_datadump_original_op_names", f"list {{{listed}\n    }}")
    edges = [edge for edge in node.inputs if not edge.endswith(":-1")]
    names = (*node.input_fx, *[""] * (len(edges) - len(node.input_fx)))
    for number, fx in enumerate(names):
        yield from _descriptor("input_desc", f"x{number + 1}" if len(names) > 1 else "x", fx, None)
    for number, fx in enumerate(node.output_fx):
        shape = node.shapes[number] if number < len(node.shapes) else None
        yield from _descriptor("output_desc", f"y{number or ''}", fx, shape)


def _descriptor(kind: str, name: str, fx: str, shape: Shape | None) -> Iterator[str]:
    yield f"{kind} {{"
    yield f"  name: {_quoted(name)}"
    yield "  dtype: DT_FLOAT16"
    if shape:
        yield from ("  shape {", *(f"    dim: {extent}" for extent in shape), "  }")
    yield '  layout: "ND"'
    if fx:
        yield from (f"  {line}" for line in _attribute("_fx_tensor_name", f"s: {_quoted(fx)}"))
    # Real graph texts never close this bracket.
    meta = _quoted(f"Tensor(dtype=torch.float16, shape=torch.Size({list(shape or ())})")
    yield from (f"  {line}" for line in _attribute("_meta", f"s: {meta}"))
    yield "}"


def _attribute(key: str, value: str) -> Iterator[str]:
    yield from ("attr {", f"  key: {_quoted(key)}", "  value {", f"    {value}", "  }", "}")


def _quoted(text: str) -> str:
    """Quote a string; bytes beyond ASCII become octal escapes, as in protobuf's text format."""
    escaped = []
    for byte in text.encode():
        char = chr(byte)
        if char in "\"'\\":
            escaped.append(f"\\{char}")
        elif char == "\n":
            escaped.append("\\n")
        else:
            escaped.append(char if 32 <= byte < 127 else f"\\{byte:03o}")
    return f'"{"".join(escaped)}"'

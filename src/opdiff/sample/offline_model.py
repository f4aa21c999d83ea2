"""Encoder of offline models (`.om`): the container with the description of the graph, without weights and kernels."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from opdiff.core import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HEADER_NBYTES = 256
_VERSION = 0x2000_0000
_PLATFORM = b"1.11.z.0"
_MODEL_DEF = 0
_TYPE_NUMBERS = {"DT_FLOAT": 1, "DT_FLOAT16": 2, "DT_INT8": 3, "DT_INT32": 7, "DT_INT64": 9, "DT_BF16": 27}
# Number and kind of every field that the JSON of ATC has, by message. A kind is a message, or a scalar in lower case.
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Model": {"name": (1, "text"), "version": (2, "number"), "graph": (7, "Graph"), "attr": (11, "Entry")},
    "Graph": {"name": (1, "text"), "op": (6, "Op")},
    "Op": {
        "name": (1, "text"), "type": (2, "text"), "input": (5, "text"), "attr": (10, "Entry"), "id": (21, "number"),
        "input_desc": (33, "Tensor"), "output_desc": (34, "Tensor"),
    },
    "Tensor": {"dtype": (2, "dtype"), "shape": (3, "Shape"), "layout": (4, "text"), "attr": (5, "Entry")},
    "Shape": {"dim": (1, "packed")},
    "Entry": {"key": (1, "text"), "value": (2, "Value")},
    "Value": {"list": (1, "List"), "s": (2, "choice"), "i": (3, "integer"), "b": (5, "integer")},
    "List": {"s": (2, "choice"), "i": (3, "packed"), "val_type": (20, "number")},
}  # fmt: skip
_SCALARS: dict[str, Callable[[int, Any], bytes]] = {
    "text": wire.text,
    "number": wire.number,
    "packed": wire.packed,
    "dtype": lambda field, name: wire.number(field, _TYPE_NUMBERS[name]),
    # Alternatives of a value are written even if they are empty or zero.
    "choice": lambda field, text: wire.block(field, text.encode()),
    "integer": lambda field, value: wire.varint(field << 3) + wire.varint(value),
}


def encode_offline_model(model: Mapping[str, Any]) -> bytes:
    """Return the file of a model, which is given as the JSON that ATC makes of it."""
    description = _message("Model", model)
    table = struct.pack("<4I", 1, _MODEL_DEF, 0, len(description))
    header = bytearray(_HEADER_NBYTES)
    struct.pack_into("<4s2I", header, 0, b"IMOD", _HEADER_NBYTES, _VERSION)
    struct.pack_into("<I", header, 76, len(table) + len(description))
    struct.pack_into("<I20s", header, 156, 1, _PLATFORM)
    return bytes(header) + table + description


def _message(kind: str, values: Mapping[str, Any]) -> bytes:
    return b"".join(_field(*_FIELDS[kind][name], value) for name, value in values.items())


def _field(number: int, kind: str, value: Any) -> bytes:  # noqa: ANN401  JSON
    if isinstance(value, list) and kind != "packed":
        return b"".join(_field(number, kind, item) for item in value)
    if kind in _SCALARS:
        return _SCALARS[kind](number, value)
    return wire.block(number, _message(kind, value))

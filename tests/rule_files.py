"""Rule files as ATC writes them: JSON of compiled operators with their originals and attributes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def described(
    name: str,
    op_type: str,
    inputs: Sequence[str] = (),
    originals: Sequence[str] = (),
    attributes: Mapping[str, Any] | None = None,
    outputs: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """An operator; without an original, a tool inserted it."""
    names = {"key": "_datadump_original_op_names", "value": {"list": {"s": list(originals), "val_type": 1}}}
    return {
        "name": name,
        "type": op_type,
        "input": list(inputs),
        "attr": [names, *encode_attributes(attributes or {})],
        "output_desc": list(outputs),
    }


def encode_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _encode_value(content)} for key, content in attributes.items()]


def _encode_value(content: Any) -> dict[str, Any]:
    if isinstance(content, bool):
        return {"b": content}
    if isinstance(content, str):
        return {"s": content}
    if isinstance(content, list) and content and isinstance(content[0], list):
        return {"list_list_int": {"list_list_i": [{"list_i": row} for row in content]}}
    if isinstance(content, list):
        return {"list": {"i": content, "val_type": 2}}
    return {"f" if isinstance(content, float) else "i": content}


def described_output(origin: str, shape: Sequence[int], index: int = 0, dtype: str = "DT_FLOAT16") -> dict[str, Any]:
    """An output that holds an output of an original operator."""
    attributes = {
        "_datadump_origin_name": origin,
        "_datadump_origin_output_index": index,
        "_datadump_origin_format": "NCHW" if len(shape) == 4 else "ND",
        "origin_shape": list(shape),
    }
    return {"dtype": dtype, "shape": {"dim": list(shape)}, "attr": encode_attributes(attributes)}


def write_rules(path: Path, operators: Iterable[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"name": "m", "graph": [{"name": "g", "op": list(operators)}]}))

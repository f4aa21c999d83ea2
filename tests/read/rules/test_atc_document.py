"""The JSON that ATC makes of a model: against Google's protobuf, against files that ATC wrote, and as rules."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from model_files import MODEL, ModelDef, OpDef, attr, compressed_key, compressed_model
from opdiff.core.errors import InputError
from opdiff.read.rules import read_rules
from opdiff.read.rules.atc_document import to_document
from opdiff.read.rules.atc_json import read_atc_json
from opdiff.read.rules.c_escapes import escape, unescape
from opdiff.read.rules.description import ModelKind, read_description
from opdiff.read.rules.message_fields import MessageError
from opdiff.read.rules.model_schema import ELEMENT_TYPES, LIST_TYPES, encode

REAL = Path(__file__).parents[4] / "shared" / "real" / "originals"
LEFT_OUT = {"output", "data_offset", "data", "workspace", "workspace_bytes", "weight_size", "size", "bt"}
RICH = ModelDef(
    name="net", version=3,
    attr=[attr("memory", i=0), attr("empty", list={}), attr("none"), attr("names", list={"s": [b"a", "数".encode()]})],
    graph=[{"name": "g", "input": ["x:0"], "output": ["y"], "op": [
        {"name": "a", "type": "A", "stream_id": 7, "is_input_const": [True, False], "workspace": [1], "attr": [
            attr("small", f=0.01), attr("long", f=0.123456789), attr("text", s="数\n\"'\\".encode()), attr("no", b=0),
            attr("floats", list={"f": [0.5, math.inf], "val_type": 3}), attr("dt", dt=3), attr("e", expression=b"x+1"),
            attr("rows", list_list_int={"list_list_i": [{"list_i": [1, 2]}, {}]}), attr("data", bt=b"12"),
            attr("shares", list_list_float={"list_list_f": [{"list_f": [0.5]}]}),
            attr("f", func={"name": "f", "attr": [attr("k", i=-1)]}), attr("g", g={"name": "inner"}),
            attr("value", t={"desc": {"dtype": 2, "shape": {"dim": [2]}}, "data": b"1234"}), attr("td", td={}),
            attr("descs", list={"td": [{"name": "x"}, {}], "val_type": 6}),
        ], "output_desc": [{"dtype": 0}, {"dtype": 99, "size": 5}, {}], "input_desc": [{"shape": {}}]},
    ]}],
)  # fmt: skip


def expected(message: Any) -> dict[str, object] | None:
    """Convert a message by protobuf's reflection, field by field as the format page says."""
    found: dict[str, object] = {}
    for field, value in message.ListFields():
        if field.name in LEFT_OUT:
            continue
        if field.is_repeated:
            found[field.name] = [_item(field, item, is_single=False) for item in value]
        elif field.type != FieldDescriptor.TYPE_MESSAGE or value.ByteSize():
            found[field.name] = _item(field, value, is_single=True)
    if "key" in found:
        found["key"] = unescape(str(found["key"]))
    return found or None


def _item(field: Any, value: Any, *, is_single: bool) -> object:
    names = {"dtype": ELEMENT_TYPES, "val_type": LIST_TYPES}.get(field.name)
    if names:
        return names[value] if value < len(names) else f"DT_{value}"
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        # An attribute without content is there, with nothing in it.
        entry = expected(value)
        return {"value": None, **entry} if entry and "key" in entry else entry
    if field.type == FieldDescriptor.TYPE_BYTES:
        return escape(value) if is_single else value.decode()
    if field.type == FieldDescriptor.TYPE_FLOAT:
        text = f"{value:g}"
        return text if is_single and len(text) < 10 else value if math.isfinite(value) else None
    return value


@pytest.mark.parametrize("message", [MODEL, RICH], ids=["model", "every kind of value"])
def test_messages_are_converted_field_by_field(message: Any) -> None:
    assert to_document([message.SerializeToString()]) == expected(message)


def test_attributes_without_content_are_null() -> None:
    attributes = {entry["key"]: entry["value"] for entry in to_document([RICH.SerializeToString()])["attr"]}  # type: ignore[attr-defined]
    assert (attributes["empty"], attributes["none"], attributes["memory"]) == (None, None, {"i": 0})


@pytest.mark.skipif(not REAL.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize("name", ["a3c_a", "faceboxes", "iatsim"])
def test_rules_of_real_models_are_those_of_their_json(tmp_path: Path, name: str) -> None:
    source = str(REAL / "om" / f"{name}.om")
    (content,) = read_description(source, ModelKind.OM).messages
    document = to_document([content])
    assert document == expected(ModelDef.FromString(content))
    written = tmp_path / "rules.json"
    written.write_text(json.dumps(document))
    assert read_rules(str(written)).graphs == read_rules(source).graphs


def tree(value: object) -> object:
    """The fields of a JSON object as lists of values; single strings lose their escapes."""
    if not isinstance(value, dict):
        return {} if value is None else value
    return {
        key: [tree(item) for item in items] if isinstance(items, list)
        else [unescape(items) if key == "s" else tree(items)]
        for key, items in value.items()
    }  # fmt: skip


@pytest.mark.skipif(not REAL.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize("name", ["tdnn", "nms"])
def test_json_that_atc_wrote_survives_the_message(name: str) -> None:
    original = json.loads((REAL / f"{name}.json").read_text())
    content = encode("ModelDef", {key: value for key, value in tree(original).items() if value})  # type: ignore[attr-defined]
    assert to_document([content]) == original


def test_compressed_attributes_are_expanded() -> None:
    attributes = [
        attr(compressed_key(0), list={"i": [1, 0], "val_type": 2}), attr(compressed_key(1), i=2),
        attr(compressed_key(2), i=5), attr(compressed_key(3), list={"val_type": 2}), attr("plain", s=b"P"),
        attr(compressed_key(4), i=0),
    ]  # fmt: skip
    names, flags = [b"names", b"single", b"number", b"empty", b"plain"], [True, True, False, True, True]
    content = compressed_model({"name": "a", "attr": attributes}, names, flags, [b"conv", b"relu", "数".encode()])
    document: Any = to_document([content])
    assert "attr" not in document
    assert document["graph"][0]["op"][0]["attr"] == [
        {"key": "names", "value": {"list": {"s": ["relu", "conv"], "val_type": "VT_LIST_STRING"}}},
        {"key": "single", "value": {"s": r"\346\225\260"}},
        {"key": "number", "value": {"i": 5}},
        {"key": "empty", "value": {"list": {"val_type": "VT_LIST_STRING"}}},
        {"key": "plain", "value": {"s": "P"}},
    ]


def test_fused_operators_have_the_name_of_their_group() -> None:
    scopes = [0x0001_0000, 2, 0]
    fused = [OpDef(attr=[attr("fusion_scope", i=scope)]).SerializeToString() for scope in scopes]
    operators = [{"name": name, "stream_id": 7} for name in "abcd"]
    message = ModelDef(graph=[{"op": operators[:1]}, {"op": operators[1:]}], attr=[attr("fm", list={"bt": fused})])
    document: Any = to_document([message.SerializeToString()])
    found = [op.get("attr") for graph in document["graph"] for op in graph["op"]]
    names = ["group_op_l1_1_7", "group_op_ub_2_7"]
    assert found == [*([{"key": "group_op_name", "value": {"s": name}}] for name in names), None, None]


def test_several_models_are_joined() -> None:
    document: Any = to_document([MODEL.SerializeToString(), RICH.SerializeToString()])
    assert [graph["name"] for graph in document["graph"]] == ["net_0", "g"]


def test_deep_messages_are_refused() -> None:
    graph: dict[str, object] = {"name": "deepest"}
    for _ in range(10):
        graph = {"op": [{"attr": [attr("g", g=graph)]}]}
    with pytest.raises(MessageError, match="nested more than 20 deep"):
        to_document([ModelDef(graph=[graph]).SerializeToString()])


@pytest.mark.parametrize("content", [b"", b"a", b"\xff\0\n'\"\\", bytes(range(256))])
def test_escapes_are_undone(content: bytes) -> None:
    text = escape(content)
    assert text.isascii()
    assert text.isprintable()
    assert unescape(text, errors="surrogateescape").encode(errors="surrogateescape") == content


def test_a_rule_file_is_read_as_a_model(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({**to_document([MODEL.SerializeToString()]), "name": 1}))
    assert read_atc_json(str(path)).attributes == {"atc_version": "7.6"}
    path.write_text('{"graph": [{"op": [{"name": "a"}]}]}')
    with pytest.raises(InputError, match="missing required field `type`"):
        read_atc_json(str(path))

"""Offline models: the container in all its forms, the description field by field, and damage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from model_files import (
    CONV,
    KERNELS,
    MODEL,
    MODEL_DEF,
    TASKS,
    WEIGHTS,
    ModelDef,
    attr,
    compressed_key,
    compressed_model,
    om_file,
)
from opdiff.core.errors import InputError
from opdiff.core.graph import ModelOrigin
from opdiff.core.reasons import because
from opdiff.read.rules import read_model
from opdiff.read.rules.description import ModelKind, read_description
from opdiff.read.rules.message_fields import MessageError
from opdiff.read.rules.model import READ_ATTRIBUTES, Model, find_origin, split_command_line, to_rules
from opdiff.read.rules.model_message import parse_model
from opdiff.read.rules.model_schema import ELEMENT_TYPES

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile
    from opdiff.read.rules.model import Attribute, TensorDesc

REAL = Path(__file__).parents[4] / "shared" / "real" / "originals" / "om"


def read(tmp_path: Path, content: bytes) -> Model:
    path = tmp_path / "net.om"
    path.write_bytes(content)
    return read_model(str(path))[0]


def rules(model: Model) -> RuleFile:
    return to_rules(model, "net.om")


def test_rules_of_a_model() -> None:
    fused, inserted = rules(parse_model(MODEL.SerializeToString())).operators()
    assert (fused.name, fused.op_type, fused.sequence, fused.inputs) == ("conv1conv1_relu", "Conv2D", 3, ("x:0", "w:0"))
    assert fused.originals == ("conv1", "conv1_relu")
    assert (fused.passes, fused.buffer_passes, fused.is_multiop) == (("ConvReluPass",), ("UbPass",), True)
    (output,) = fused.outputs
    assert (output.dtype, output.layout, output.shape) == ("DT_FLOAT16", "NCHW", (1, 64, 8, 8))
    assert (output.origin_name, output.origin_index) == ("conv1_relu", 0)
    assert (inserted.originals, inserted.has_originals) == (("",), True)


@pytest.mark.parametrize("large", [False, True], ids=["32-bit table", "64-bit table"])
@pytest.mark.parametrize("version", [0x1000_0000, 0x2000_0000], ids=["header 1", "header 2"])
def test_both_headers_and_both_tables(tmp_path: Path, version: int, large: bool) -> None:
    description = MODEL.SerializeToString()
    model = read(tmp_path, om_file(description, version=version, large=large))
    assert replace(model, header=None) == parse_model(description)
    assert model.attributes == {"atc_version": "7.6"}


def test_the_description_need_not_come_first(tmp_path: Path) -> None:
    parts = [(8, b"io"), (MODEL_DEF, MODEL.SerializeToString()), (WEIGHTS, b"w"), (KERNELS, b"k"), (TASKS, b"")]
    assert read(tmp_path, om_file(b"", partitions=parts, large=True)).name == "net"


def test_of_several_models_the_first_has_all_graphs(tmp_path: Path) -> None:
    second = om_file(ModelDef(name="part").SerializeToString())[256:]
    first = om_file(MODEL.SerializeToString(), models=2)
    content = bytearray(first + second)
    struct.pack_into("<I", content, 76, len(content) - 256)
    assert read(tmp_path, bytes(content)).name == "net"


def test_a_bundle_joins_the_graphs_of_its_models(tmp_path: Path) -> None:
    inner = om_file(MODEL.SerializeToString())
    model = read(
        tmp_path, om_file(b"", model_type=5, large=True, partitions=[(25, b"12345678"), (24, inner), (24, inner)])
    )
    assert [graph.name for graph in model.graphs] == ["net_0", "net_0"]
    assert model.notes == (because("read.bundle", count=2),)


def test_a_bundle_inside_of_a_bundle_is_refused(tmp_path: Path) -> None:
    inner = om_file(b"", model_type=5, large=True, partitions=[(24, om_file(MODEL.SerializeToString()))])
    with pytest.raises(InputError, match="a bundle inside of a bundle"):
        read(tmp_path, om_file(b"", model_type=5, large=True, partitions=[(24, inner)]))
    with pytest.raises(InputError, match="a bundle without models"):
        read(tmp_path, om_file(b"", model_type=5, large=True, partitions=[(25, b"12345678")]))


def test_of_a_flow_the_root_graph_is_read(tmp_path: Path) -> None:
    model = read(tmp_path, om_file(MODEL.SerializeToString(), model_type=3, large=True))
    assert model.notes == (because("read.flow_model"),)


def test_sub_graphs_are_joined_with_their_owner() -> None:
    inner = {"name": "branch", "op": [
        {"name": "d", "type": "Data", "attr": [attr("_parent_node_index", i=1)]},
        {"name": "end", "type": "NetOutput", "input_desc": [{"attr": [attr("_parent_node_index", i=0)]}]},
    ]}  # fmt: skip
    message = ModelDef(
        graph=[{"name": "root", "op": [{"name": "if", "type": "If", "subgraph_name": ["branch"]}]}, inner]
    )
    owner, data, end = rules(parse_model(message.SerializeToString())).operators()
    assert (owner.subgraphs, data.parent_input, end.parent_outputs) == (("branch",), 1, (0,))


# Compressed attribute names


@pytest.mark.parametrize("number", [0, 20, 126, 127, 500])
def test_compressed_names_and_texts_are_expanded(number: int) -> None:
    names = [b"filler"] * number + [b"_datadump_original_op_names", b"_datadump_is_multiop"]
    flags = [False] * number + [True, False]
    operator = {"name": "a", "type": "A", "attr": [
        attr(compressed_key(number), list={"i": [1, 0]}), attr(compressed_key(number + 1), b=True),
        attr("pass_name", s=b"P"),
    ]}  # fmt: skip
    (found,) = rules(parse_model(compressed_model(operator, names, flags, [b"conv", b"relu"]))).operators()
    assert (found.originals, found.is_multiop, found.passes) == (("relu", "conv"), True, ("P",))


def test_a_plain_name_wins_over_a_compressed_one() -> None:
    names, flags = [b"pass_name"], [True]
    for attributes in (
        [attr(compressed_key(0), i=0), attr("pass_name", s=b"P")],
        [attr("pass_name", s=b"P"), attr(compressed_key(0), i=0)],
    ):
        model = parse_model(compressed_model({"name": "a", "attr": attributes}, names, flags, [b"other"]))
        assert model.graphs[0].operators[0].attributes == {"pass_name": "P"}


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (attr(compressed_key(3), i=0), "attribute number 3 of 1 does not exist"),
        (attr(compressed_key(0), i=7), "string number 7 of 1 does not exist"),
        (attr(compressed_key(0), list={"i": [0, -1]}), "string number -1 of 1 does not exist"),
    ],
)
def test_numbers_outside_of_their_tables(attribute: dict[str, object], message: str) -> None:
    with pytest.raises(MessageError, match=message):
        parse_model(compressed_model({"name": "a", "attr": [attribute]}, [b"pass_name"], [True], [b"text"]))


# Field by field against Google's protobuf


def expected(value: Any) -> Attribute:
    kind = value.WhichOneof("value")
    if kind == "list":
        listed = value.list
        return tuple(item.decode() for item in listed.s) or tuple(listed.i) or tuple(listed.b) or tuple(listed.f)
    if kind == "s":
        return str(value.s.decode())
    return getattr(value, kind) if kind in ("i", "f", "b") else None


def attributes_of(message: Any) -> dict[str, Attribute]:
    found = {entry.key.decode(): expected(entry.value) for entry in message.attr}
    return {key: value for key, value in found.items() if key in READ_ATTRIBUTES}


def assert_same_descriptor(found: TensorDesc, message: Any) -> None:
    dtype = ELEMENT_TYPES[message.dtype] if message.dtype else ""
    expected_fields = message.name, dtype, tuple(message.shape.dim), message.layout, attributes_of(message)
    assert structs.astuple(found) == expected_fields


def assert_same(model: Model, message: Any) -> None:
    assert model.name == message.name
    assert [graph.name for graph in model.graphs] == [graph.name for graph in message.graph]
    for graph, other in zip(model.graphs, message.graph, strict=True):
        for op, told in zip(graph.operators, other.op, strict=True):
            assert (op.name, op.op_type, op.number) == (told.name, told.type, told.id)
            assert (op.inputs, op.subgraphs) == (tuple(told.input), tuple(told.subgraph_name))
            assert op.attributes == attributes_of(told)
            for descs, others in ((op.input_descs, told.input_desc), (op.output_descs, told.output_desc)):
                for desc, descriptor in zip(descs, others, strict=True):
                    assert_same_descriptor(desc, descriptor)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real offline models are not here")
@pytest.mark.parametrize("name", ["a3c_a", "faceboxes", "iatsim"])
def test_real_models_read_as_protobuf_reads_them(name: str) -> None:
    (content,) = read_description(str(REAL / f"{name}.om"), ModelKind.OM).messages
    message = ModelDef.FromString(content)
    assert sum(len(graph.op) for graph in message.graph) > 20
    assert_same(read_model(str(REAL / f"{name}.om"))[0], message)


# Damage


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda om: om[:100], "incomplete or has another signature"),
        (lambda om: b"MODI" + om[4:], "not a rule file; it should be an offline model"),
        (lambda om: om[:-1], "is cut off: "),
        (lambda om: om + b"x", "has bytes behind its end"),
        (lambda om: om[:8] + b"\0\0\0\x30" + om[12:], "version 0x30000000"),
        (lambda om: om[:80] + b"\1" + om[81:], "is encrypted"),
        (lambda om: om[:82] + b"\4" + om[83:], "of the type lite"),
        (lambda om: om[:156] + b"\xff\xff\xff\x7f" + om[160:], "2147483647 models in one file are not credible"),
        (lambda om: om[:256] + b"\xff\xff\0\0" + om[260:], "65535 partitions are not credible"),
        (lambda om: om[:256] + b"\0\x0f\0\0" + om[260:], "the partition table needs"),
        (lambda om: om[:264] + b"\5\0\0\0" + om[268:], "does not lie where the table says"),
        (lambda om: om[:268] + b"\xff\xff\xff\xff" + om[272:], "ends behind the file"),
        (lambda om: om[:260] + b"\7\0\0\0" + om[264:], "no description of a model in it"),
        (lambda om: om[:284] + b"\xff" + om[285:], "wire type 7"),
    ],
)
def test_damage_is_named(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, change(om_file(MODEL.SerializeToString())))


def test_a_model_without_graphs() -> None:
    with pytest.raises(MessageError, match="no graph in it"):
        parse_model(ModelDef(name="a").SerializeToString())
    with pytest.raises(MessageError, match="toolkits before CANN"):
        parse_model(ModelDef(op=[CONV]).SerializeToString())


@given(st.integers(0, len(MODEL.SerializeToString()) - 1), st.integers(0, 255))
def test_any_byte_may_be_wrong(position: int, byte: int) -> None:
    content = bytearray(MODEL.SerializeToString())
    content[position] = byte
    try:
        rules(parse_model(bytes(content)))
    except MessageError as error:
        assert 0 <= error.offset <= len(content)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_model_or_an_error(content: bytes) -> None:
    try:
        parse_model(content)
    except MessageError as error:
        assert error.problem


# How a model was compiled, without the directories of the machine that compiled it


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ()),
        ("/usr/bin/atc.bin --model=/home/u/a.onnx --output /u/b", ("atc.bin", "--model=a.onnx", "--output", "b")),
        ('atc --model="/home/John Doe/a.onnx"', ("atc", "--model=a.onnx")),
        ("atc --input_shape=in/x:1,3 --out_nodes in/y:0", ("atc", "--input_shape=in/x:1,3", "--out_nodes", "in/y:0")),
        ("atc --input_shape=x:1 /home/u", ("atc", "--input_shape=x:1", "u")),
        ("atc --conf=/a/b,/c/d;e/f", ("atc", "--conf=b,d;f")),
        (r"atc --model='C:\u\a.onnx'", ("atc", "--model=C:a.onnx")),
        ("atc --note='not closed /home/u", ("atc", "--note='not", "closed", "u")),
    ],
)  # fmt: skip
def test_command_lines(text: str, arguments: tuple[str, ...]) -> None:
    assert split_command_line(text) == arguments


def test_versions_are_attributes_of_the_model() -> None:
    attributes = {
        "atc_cmdline": "atc --a=1", "framework_type": "Onnx", "atc_version": "7.6", "opp_version": "7.7",
        "soc_version": "Ascend310B4",
    }  # fmt: skip
    origin = ModelOrigin("net", ("atc", "--a=1"), "Onnx", "7.6", "7.7", "Ascend310B4")
    assert find_origin(Model("net", (), attributes)) == origin
    assert find_origin(Model("net", (), {"atc_version": 7})) == ModelOrigin("net")


@pytest.mark.parametrize(
    ("command", "value"),
    [(("--a=1",), "1"), (("--a", "1"), "1"), (("--a",), ""), (("--ab=1",), ""), ((), "")],
)
def test_options(command: tuple[str, ...], value: str) -> None:
    assert ModelOrigin(command_line=command).option("--a") == value

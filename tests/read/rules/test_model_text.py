"""Graph texts as rule files: printed by Google's protobuf, read as the message that was printed; the form of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import text_format
from msgspec.structs import replace

from model_files import CONV, INSERTED, MODEL, ModelDef, attr
from opdiff.core.errors import InputError
from opdiff.read.rules import read_model, read_rules
from opdiff.read.rules.description import ModelKind
from opdiff.read.rules.graph_text import read_graph_text
from opdiff.read.rules.model_message import parse_model

if TYPE_CHECKING:
    from opdiff.read.rules.model import Model

REAL = Path(__file__).parents[4] / "shared" / "real"
ODD: dict[str, object] = {
    "name": "数/odd name", "type": "A", "id": -1, "input": ["", "x:0", "y:-1"],
    "attr": [
        attr("_datadump_original_op_names", list={"s": ["数".encode(), b'quote"\\']}),
        attr("_parent_node_index", i=-(1 << 63)), attr("_L1_fusion_sub_graph_no", s=b""), attr("ratio", f=0.1),
        attr("value", t={"desc": {"dtype": 3}, "data": b"\xff\0\xfe"}), attr("empty", list={}),
    ],
    "output_desc": [{"dtype": 27, "shape": {"dim": [-1, -2]}, "layout": "FRACTAL_Z:16"}],
}  # fmt: skip


def read(tmp_path: Path, text: str, name: str = "ge_proto_00000062_Build.txt") -> Model:
    path = tmp_path / name
    path.write_text(text)
    model, kind = read_model(str(path))
    assert kind is ModelKind.TEXT
    return model


@pytest.mark.parametrize(
    "message",
    [MODEL, ModelDef(graph=[{"name": "g", "op": [ODD, CONV]}, {"name": "inner", "op": [INSERTED]}])],
    ids=["model", "odd values"],
)
@pytest.mark.parametrize("as_one_line", [False, True], ids=["lines", "one line"])
def test_texts_are_read_as_the_message_that_was_printed(tmp_path: Path, message: Any, as_one_line: bool) -> None:
    text = text_format.MessageToString(message, as_one_line=as_one_line)
    assert read(tmp_path, text) == parse_model(message.SerializeToString())


def test_names_of_enums_are_numbers(tmp_path: Path) -> None:
    attribute = 'attr { key: "x" value { list { val_type: VT_LIST_INT } } }'
    text = f'graph {{ op {{ name: "a" output_desc {{ dtype: DT_BF16 }} {attribute} }} }}'
    assert read(tmp_path, text).graphs[0].operators[0].output_descs[0].dtype == "DT_BF16"


def test_in_texts_of_torchair_the_graph_is_the_outermost_message(tmp_path: Path) -> None:
    graph = MODEL.graph[0]
    model = read(tmp_path, text_format.MessageToString(graph), "dynamo_original_graph_1.txt")
    assert model.graphs == parse_model(MODEL.SerializeToString()).graphs


def test_graph_mode_reads_the_texts_of_the_graph_engine_too(tmp_path: Path) -> None:
    path = tmp_path / "ge_proto.txt"
    path.write_text(text_format.MessageToString(MODEL))
    graph = read_graph_text(str(path))
    assert (graph.name, list(graph.operators)) == ("net_0", ["conv1conv1_relu", "trans_Cast_0"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('graph { op { name: "a" ', "the text ends inside a block"),
        ('graph { op { name: "a" } } }', "cannot be used for rules"),
        ('graph { op { name: "a" id: many } }', "field id cannot be 'many'"),
        ('graph { op { name: "a" id: 99999999999999999999 } }', "field id cannot be '99999999999999999999'"),
        ('graph { op { name: "a" output_desc { dtype: DT_NONE } } }', "field dtype cannot be 'DT_NONE'"),
        ('graph { op: "a" }', "field op cannot be 'a'"),
        ('name: "a"', "there is no graph in it"),
        (
            r'graph { op { name: "a" attr { key: "\000\025" value { i: 1 } } } }',
            "names of attributes are compressed, and the tables of names are missing, in operator 'a'",
        ),
    ],
)
def test_damaged_texts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real graph texts are not here")
def test_a_real_build_text_has_the_rules_of_its_json() -> None:
    text = read_rules(str(REAL / "originals" / "resnet50_Build.txt"))
    rules = read_rules(str(REAL / "atc" / "resnet50" / "rules.json"))
    # The JSON has smaller shapes, for small dumps.
    found, expected = (
        [
            replace(op, outputs=tuple(replace(output, shape=(), stated=None) for output in op.outputs))
            for op in file.operators()
        ]
        for file in (text, rules)
    )
    assert found == expected


@pytest.mark.skipif(not REAL.is_dir(), reason="the real graph texts are not here")
@pytest.mark.parametrize("case", ["mlp16", "attention"])
def test_real_texts_of_torchair_are_rule_files(case: str) -> None:
    for path in (REAL / "torchair" / case / "right" / "msprobe_ge_dump").glob("dynamo_*.txt"):
        names = [op.name for op in read_rules(str(path)).operators()]
        assert names == list(read_graph_text(str(path)).operators)


# The form of ONNX


def attribute(name: str, kind: str, *values: str) -> str:
    field = {"INT": "i", "STRING": "s", "INTS": "ints", "STRINGS": "strings"}[kind]
    content = " ".join(f"{field}: {value}" for value in values)
    return f'attribute {{ name: "{name}" {content} type: {kind} }}'


def node(name: str, op_type: str, *attributes: str, inputs: str = "") -> str:
    return f'node {{ name: "{name}" op_type: "{op_type}" {inputs} {" ".join(attributes)} }}'


def onnx_text(*nodes: str) -> str:
    return f'ir_version: 6\nproducer_name: "net"\ngraph {{ name: "net_0" {" ".join(nodes)} }}'


FUSED = node(
    "conv", "ge:Conv2D",
    attribute("_datadump_original_op_names", "STRINGS", '"c1"', '"r1"'),
    attribute("_datadump_is_multiop", "INT", "1"),
    attribute("id", "INT", "3"),
    attribute("input_desc_dtype:0", "STRING", '"DT_FLOAT"'),
    attribute("output_desc_dtype:1", "STRING", '"DT_INT8"'),
    attribute("output_desc_dtype:0", "STRING", '"DT_FLOAT16"'),
    attribute("output_desc_shape:0", "INTS", "1", "2", "8", "8", "16"),
    attribute("output_desc_layout:0", "STRING", '"NC1HWC0"'),
    attribute("output_desc_origin_shape:0", "INTS", "1", "32", "8", "8"),
    attribute("output_desc_attr__datadump_origin_name:0", "STRING", '"r1"'),
    attribute("output_desc_attr__datadump_origin_output_index:0", "INT", "0"),
    attribute("output_desc_attr__datadump_origin_format:0", "STRING", '"NCHW"'),
    inputs='input: "x:0" input: "" input: "y:-1"',
)  # fmt: skip


def write(tmp_path: Path, content: str) -> str:
    path = tmp_path / "ge_onnx_00000062_graph_0_Build.pbtxt"
    path.write_text(content)
    return str(path)


def test_a_text_of_onnx_with_originals_is_a_rule_file(tmp_path: Path) -> None:
    (op,) = read_rules(write(tmp_path, onnx_text(FUSED))).operators()
    assert (op.name, op.op_type, op.sequence, op.inputs) == ("conv", "Conv2D", 3, ("x:0",))
    assert (op.originals, op.is_multiop, op.graph_name) == (("c1", "r1"), True, "net_0")
    first, second = op.outputs
    assert (first.dtype, first.origin_name, first.origin_index) == ("DT_FLOAT16", "r1", 0)
    assert (first.layout, first.shape) == ("NCHW", (1, 32, 8, 8))
    assert (second.dtype, second.origin_name) == ("DT_INT8", "")


def test_nodes_of_the_type_subgraph_are_graphs(tmp_path: Path) -> None:
    inner = f'attribute {{ name: "graph" g {{ name: "branch" {node("relu", "ge:Relu")} }} type: GRAPH }}'
    rules = read_rules(write(tmp_path, onnx_text(FUSED, node("branch", "subgraph", inner))))
    assert [(graph.name, [op.name for op in graph.operators]) for graph in rules.graphs] == [
        ("net_0", ["conv"]),
        ("branch", ["relu"]),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (onnx_text(node("conv", "ge:Conv2D")), "without the original operators; use the ge_proto text"),
        (onnx_text(), "without the original operators"),
        (
            onnx_text(FUSED, node("a", "ge:A", attribute("output_desc_12", "STRING", '"{}"'))),
            "described by JSON in it",
        ),
        (onnx_text(FUSED, node("a", "ge:A", attribute("id", "INT", "x"))), "field id cannot be 'x'"),
        (onnx_text(FUSED)[:-2], "cannot be used for rules"),
    ],
    ids=["no originals", "no nodes", "descriptors as JSON", "bad number", "cut off"],
)
def test_other_texts_of_onnx_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_rules(write(tmp_path, content))

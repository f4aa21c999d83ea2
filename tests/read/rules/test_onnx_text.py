"""Graph texts in the form of ONNX: read where they have the original operators, refused where not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import InputError
from opdiff.read.rules import read_rules

if TYPE_CHECKING:
    from pathlib import Path


def attribute(name: str, kind: str, *values: str) -> str:
    field = {"INT": "i", "STRING": "s", "INTS": "ints", "STRINGS": "strings"}[kind]
    content = " ".join(f"{field}: {value}" for value in values)
    return f'attribute {{ name: "{name}" {content} type: {kind} }}'


def node(name: str, op_type: str, *attributes: str, inputs: str = "") -> str:
    return f'node {{ name: "{name}" op_type: "{op_type}" {inputs} {" ".join(attributes)} }}'


def text(*nodes: str) -> str:
    return f'ir_version: 6\nproducer_name: "net"\ngraph {{ name: "net_0" {" ".join(nodes)} }}'


CONV = node(
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


def test_a_text_with_originals_is_a_rule_file(tmp_path: Path) -> None:
    (op,) = read_rules(write(tmp_path, text(CONV))).operators()
    assert (op.name, op.op_type, op.sequence, op.inputs) == ("conv", "Conv2D", 3, ("x:0",))
    assert (op.originals, op.is_multiop, op.graph_name) == (("c1", "r1"), True, "net_0")
    first, second = op.outputs
    assert (first.dtype, first.origin_name, first.origin_index) == ("DT_FLOAT16", "r1", 0)
    assert (first.layout, first.shape) == ("NCHW", (1, 32, 8, 8))
    assert (second.dtype, second.origin_name) == ("DT_INT8", "")


def test_nodes_of_the_type_subgraph_are_graphs(tmp_path: Path) -> None:
    inner = f'attribute {{ name: "graph" g {{ name: "branch" {node("relu", "ge:Relu")} }} type: GRAPH }}'
    rules = read_rules(write(tmp_path, text(CONV, node("branch", "subgraph", inner))))
    assert [(graph.name, [op.name for op in graph.operators]) for graph in rules.graphs] == [
        ("net_0", ["conv"]),
        ("branch", ["relu"]),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(node("conv", "ge:Conv2D")), "without the original operators; use the ge_proto text"),
        (text(), "without the original operators"),
        (text(CONV, node("a", "ge:A", attribute("output_desc_12", "STRING", '"{}"'))), "described by JSON in it"),
        (text(CONV, node("a", "ge:A", attribute("id", "INT", "x"))), "field id cannot be 'x'"),
        (text(CONV)[:-2], "cannot be used for rules"),
    ],
    ids=["no originals", "no nodes", "descriptors as JSON", "bad number", "cut off"],
)
def test_other_texts_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_rules(write(tmp_path, content))

"""Graph of one token: dumped operators, their inputs, and operators that were not dumped."""

from __future__ import annotations

from opdiff.pair.graph.names import DumpedOperator, token_graph
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.sample.graph_text import TextNode, graph_text


def graph(*nodes: TextNode) -> str:
    return graph_text("graph_1", nodes)


CHAIN = graph(
    TextNode("x", "Data"),
    TextNode("Add", "Add", ("x:0", "x:0")),
    TextNode("Mul", "Mul", ("Add:0",)),
    TextNode("Sub", "Sub", ("Mul:1", "Add:0", "x:-1")),
)


def op(name: str, time: int, inputs: int = 1) -> DumpedOperator:
    return DumpedOperator(name, f"{name}Type", time, "", inputs)


def test_edges_are_those_of_the_text_without_control_edges() -> None:
    nodes = token_graph([op("Sub", 3), op("Add", 1), op("Mul", 2)], parse_graph_text(CHAIN))
    assert [(node.name, node.op_type, node.inputs) for node in nodes] == [
        ("x", "Data", ()),
        ("Add", "AddType", ("x:0", "x:0")),
        ("Mul", "MulType", ("Add:0",)),
        ("Sub", "SubType", ("Mul:1", "Add:0")),
    ]


def test_a_fused_operator_stands_for_its_parts() -> None:
    nodes = {node.name: node for node in token_graph([op("AddMul", 1), op("Sub", 2)], parse_graph_text(CHAIN))}
    assert nodes["AddMul"].originals == ("Add", "Mul")
    assert nodes["AddMul"].inputs == ("x:0", "x:0")
    # The second input is known inside of the fused operator only.
    assert nodes["Sub"].inputs == ("AddMul:1", "")
    assert "Add" not in nodes


def test_inputs_of_an_operator_without_text_are_unknown() -> None:
    nodes = token_graph([op("Add", 1), op("trans_7", 2, inputs=2), op("Mul", 3)], parse_graph_text(CHAIN))
    assert [node.name for node in nodes] == ["x", "Add", "trans_7", "Mul", "Sub"]
    assert nodes[2].inputs == ("", "")


def test_without_a_text_the_graph_is_empty() -> None:
    assert token_graph([op("Add", 1)], parse_graph_text("")) == ()

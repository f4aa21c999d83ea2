"""Names of dumped operators, and the operators of the graph that they mean."""

from __future__ import annotations

import pytest

from opdiff.core.graphmode import GraphOp
from opdiff.pair.graph.names import GraphNames, external_inputs
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.sample.graph_text import TextNode, graph_text

LONG = "model/" + "x" * 250


def names(*found: str | TextNode) -> GraphNames:
    made = [node if isinstance(node, TextNode) else TextNode(node, "T") for node in found]
    return GraphNames(parse_graph_text(graph_text("g", made)))


def decoded(graph: GraphNames, name: str, full_name: str = "") -> tuple[list[str], float]:
    result = graph.resolve(GraphOp(name, "T", 0, "", full_name=full_name))
    return ([], 0.0) if result is None else ([op.name for op in result.operators], result.confidence)


@pytest.mark.parametrize(
    ("name", "found", "confidence"),
    [
        ("Add_1", ["Add_1"], 1.0),
        ("net_a_b", ["net/a.b"], 1.0),
        ("Add_1Mul", ["Add_1", "Mul"], 0.8),
        ("AddMulAdd_1", ["Add", "Mul", "Add_1"], 0.8),
        ("Add_1Mul_7", [], 0.0),
        ("Mul_7", [], 0.0),
        ("Mul7", [], 0.0),
        ("trans_Mul", [], 0.0),
        ("Mul_x", [], 0.0),
        ("", [], 0.0),
    ],
)
def test_names_are_decoded_as_a_whole_or_not_at_all(name: str, found: list[str], confidence: float) -> None:
    assert decoded(names("Add", "Add_1", "Mul", "net/a.b"), name) == (found, confidence)


def test_the_longest_way_that_reaches_the_end_is_taken() -> None:
    assert decoded(names("A", "AB", "BC", "C"), "ABC")[0] == ["AB", "C"]
    assert decoded(names("A", "AB", "BC"), "ABC")[0] == ["A", "BC"]


def test_two_operators_of_one_file_name_mean_nothing() -> None:
    assert decoded(names("a/b", "a.b"), "a_b") == ([], 0.0)
    assert decoded(names("a/b", "a.b"), "a_b", "a.b") == (["a.b"], 1.0)


def test_names_that_a_writer_shortened() -> None:
    graph = names("model/head/Add", "model/Mul", LONG)
    assert decoded(graph, "Add") == (["model/head/Add"], 0.9)
    assert decoded(graph, LONG.replace("/", "_")[:200]) == ([LONG], 0.7)


def test_the_graph_may_say_what_an_operator_was_made_from() -> None:
    graph = names("Add", "Mul", TextNode("Fused", "F", output_fx=(), originals=("Add", "Mul", "gone")))
    assert decoded(graph, "Fused") == (["Add", "Mul"], 1.0)


def test_inputs_of_a_fused_operator_are_those_from_outside() -> None:
    made = [TextNode("A", "T", ("x:0", "y:1")), TextNode("B", "T", ("A:0", "z:0", "c:-1"))]
    operators = parse_graph_text(graph_text("g", made)).operators.values()
    assert [(op.name, index) for op, index in external_inputs(operators)] == [("A", 0), ("A", 1), ("B", 1)]

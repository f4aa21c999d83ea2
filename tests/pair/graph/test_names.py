"""Names of dumped operators resolved to operators of the graph, the graph of one token, and its release."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from opdiff.core.dump import GraphKind, GraphOp, TokenDump
from opdiff.core.reasons import because
from opdiff.pair.graph.facts import Facts
from opdiff.pair.graph.fx import FxPairing
from opdiff.pair.graph.names import DumpedOperator, GraphNames, ResolvedOp, token_graph
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.sample.graph_text import TextNode, graph_text

LONG = "model/" + "x" * 250


def names(*found: str | TextNode) -> GraphNames:
    made = [node if isinstance(node, TextNode) else TextNode(node, "T") for node in found]
    return GraphNames(parse_graph_text(graph_text("g", made)))


def resolved(graph: GraphNames, name: str, full_name: str = "") -> tuple[list[str], float]:
    result = graph.resolve(name, full_name)
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
def test_names_are_resolved_as_a_whole_or_not_at_all(name: str, found: list[str], confidence: float) -> None:
    assert resolved(names("Add", "Add_1", "Mul", "net/a.b"), name) == (found, confidence)


def test_the_longest_first_part_that_can_be_continued_is_chosen() -> None:
    assert resolved(names("A", "AB", "BC", "C"), "ABC")[0] == ["AB", "C"]
    assert resolved(names("A", "AB", "BC"), "ABC")[0] == ["A", "BC"]


def test_an_ambiguous_file_form_is_not_resolved() -> None:
    assert resolved(names("a/b", "a.b"), "a_b") == ([], 0.0)
    assert resolved(names("a/b", "a.b"), "a_b", "a.b") == (["a.b"], 1.0)


def test_shortened_names_are_resolved() -> None:
    graph = names("model/head/Add", "model/Mul", LONG)
    assert resolved(graph, "Add") == (["model/head/Add"], 0.9)
    assert resolved(graph, LONG.replace("/", "_")[:200]) == ([LONG], 0.7)


def test_originals_given_in_the_graph_are_used() -> None:
    graph = names("Add", "Mul", TextNode("Fused", "F", output_fx=(), originals=("Add", "Mul", "gone")))
    assert resolved(graph, "Fused") == (["Add", "Mul"], 1.0)


def test_inputs_of_a_fused_operator_come_from_outside() -> None:
    made = [TextNode("A", "T", ("x:0", "y:1")), TextNode("B", "T", ("A:0", "z:0", "c:-1"))]
    operators = parse_graph_text(graph_text("g", made)).operators.values()
    fused = ResolvedOp(tuple(operators), because("pair.match_name"), 1.0)
    assert [(op.name, index) for op, index in fused.external_inputs] == [("A", 0), ("A", 1), ("B", 1)]


def test_operators_of_later_tokens_are_those_of_the_first() -> None:
    graph = names("Add", "net/a.b")
    first = graph.resolve("Add")
    assert graph.resolve("Add") is first
    assert graph.resolve("Add", "net/a.b") == first
    assert graph.resolve("x", "net/a.b") is not None
    assert graph.resolve("x") is None


NODES = (
    TextNode("x", "Data"),
    TextNode("Add", "Add", ("x:0", "x:0")),
    TextNode("Mul", "Mul", ("Add:0",)),
    TextNode("Sub", "Sub", ("Mul:1", "Add:0", "x:-1")),
)
CHAIN = parse_graph_text(graph_text("graph_1", NODES))


def op(name: str, time: int, inputs: int = 1) -> DumpedOperator:
    return DumpedOperator(name, f"{name}Type", time, "", inputs)


def test_edges_are_those_of_the_text_without_control_edges() -> None:
    nodes = token_graph([op("Sub", 3), op("Add", 1), op("Mul", 2)], CHAIN)
    assert [(node.name, node.op_type, node.inputs) for node in nodes] == [
        ("x", "Data", ()),
        ("Add", "AddType", ("x:0", "x:0")),
        ("Mul", "MulType", ("Add:0",)),
        ("Sub", "SubType", ("Mul:1", "Add:0")),
    ]


def test_a_fused_operator_stands_for_its_parts() -> None:
    nodes = {node.name: node for node in token_graph([op("AddMul", 1), op("Sub", 2)], CHAIN)}
    assert nodes["AddMul"].originals == ("Add", "Mul")
    assert nodes["AddMul"].inputs == ("x:0", "x:0")
    # The second input is known inside of the fused operator only.
    assert nodes["Sub"].inputs == ("AddMul:1", "")
    assert "Add" not in nodes


def test_inputs_of_an_operator_without_text_are_unknown() -> None:
    nodes = token_graph([op("Add", 1), op("trans_7", 2, inputs=2), op("Mul", 3)], CHAIN)
    assert [node.name for node in nodes] == ["x", "Add", "trans_7", "Mul", "Sub"]
    assert nodes[2].inputs == ("", "")


def test_without_a_text_the_graph_is_empty() -> None:
    assert token_graph([op("Add", 1)], parse_graph_text("")) == ()


def test_a_token_is_released_without_the_garbage_collector() -> None:
    graph = parse_graph_text(graph_text("g", [TextNode("Add", "Add")]))
    target = TokenDump(GraphKind.GE, {"Add": GraphOp("Add", "Add", 1, "file")})
    golden = TokenDump(GraphKind.FX, {})
    pairing = FxPairing(target, golden, graph, GraphNames(graph), Facts(target, golden))
    released = ref(pairing)
    gc.disable()
    try:
        del pairing
        assert released() is None
    finally:
        gc.enable()

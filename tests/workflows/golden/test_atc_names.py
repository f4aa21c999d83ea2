"""Names of operators as ATC gives them."""

from __future__ import annotations

from opdiff.workflows.golden.onnx_model import OnnxGraph, OnnxNode, name_operators


def graph(position: int, *nodes: OnnxNode) -> OnnxGraph:
    return OnnxGraph(position, nodes, frozenset(), (), ())


def node(op_type: str, name: str = "", **graphs: OnnxGraph) -> OnnxNode:
    return OnnxNode(name, op_type, "", (), (), tuple(graphs.items()))


def test_only_nameless_operators_are_counted_main_graph_first_then_breadth_first() -> None:
    deepest = graph(4, node("Exp"), node("Log"))
    then = graph(1, node("Neg"), node("If", then_branch=deepest), node("Abs", "abs"))
    otherwise = graph(2, node("Tanh"))
    body = graph(3, node("Add"))
    main = graph(
        0,
        node("Conv", "conv"),
        node("Relu"),
        node("If", "if", else_branch=otherwise, then_branch=then),
        node("Loop", body=body),
    )
    found = {position: named.names for position, named in name_operators(main).items()}
    assert found == {
        0: ("conv", "Relu_0", "if", "Loop_1"),
        2: ("if_1_else_branch/Tanh_2",),
        1: ("if_0_then_branch/Neg_3", "if_0_then_branch/If_4", "if_0_then_branch/abs"),
        3: ("Loop_1_0_body/Add_5",),
        4: (
            "if_0_then_branch/If_4_0_then_branch/Exp_6",
            "if_0_then_branch/If_4_0_then_branch/Log_7",
        ),
    }

"""Partners of one token among the tensors of FX."""

from __future__ import annotations

import gc
from weakref import ref

from opdiff.core.dump import GraphKind, GraphOp, TokenDump
from opdiff.pair.graph.fx import FxPairing
from opdiff.pair.graph.names import GraphNames
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.sample.graph_text import TextNode, graph_text


def test_a_token_is_released_without_the_garbage_collector() -> None:
    graph = parse_graph_text(graph_text("g", [TextNode("Add", "Add")]))
    target = TokenDump(GraphKind.GE, {"Add": GraphOp("Add", "Add", 1, "file")})
    pairing = FxPairing(target, TokenDump(GraphKind.FX, {}), graph, GraphNames(graph))
    released = ref(pairing)
    gc.disable()
    try:
        del pairing
        assert released() is None
    finally:
        gc.enable()

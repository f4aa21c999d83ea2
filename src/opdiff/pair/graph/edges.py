"""Facts about the edges of a graph that are the same for all of its tokens: FX names, movements, and reads by FX nodes.

An edge is a tensor of the graph: its producer and the number of the output.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import because
from opdiff.pair.graph.movement import moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.reasons import Reason

Edge = tuple[str, int]

GRAPH_INPUTS = frozenset({"Data", "RefData", "ConstPlaceHolder", "Variable"})
CONSTANTS = frozenset({"Const", "Constant"})
FX_TENSOR = re.compile(r"(.+)\.OUTPUT\.(\d{1,9})")


class NamedEdge(Struct, frozen=True):
    """An edge with the name of an FX tensor.

    Attributes:
        edge: the edge.
        node: FX node of the tensor.
        index: number of the result of the node.
        is_graph_input: whether the edge carries a tensor into the graph.
        reason: the name as evidence.
    """

    edge: Edge
    node: str
    index: int
    is_graph_input: bool
    reason: Reason


class Read(Struct, frozen=True):
    """An edge that operators of one FX node read.

    Attributes:
        edge: the edge, produced outside of these operators.
        chain: operators that move its elements on the way to its reader.
        reader: the operator that computes with the edge.
        index: which input of the reader the edge is.
    """

    edge: Edge
    chain: tuple[TextOp, ...]
    reader: TextOp
    index: int


class GraphEdges:
    """Facts about the edges of a graph.

    Attributes:
        graph: the graph.
        moving: operators that only move elements.
        outputs: outputs with FX names.
        inputs: inputs with FX names.
        reads: reads of the FX nodes, by the operator that has the node's name; without operators that read nothing.
    """

    def __init__(self, graph: TextGraph) -> None:
        self.graph = graph
        operators = graph.operators.values()
        self.moving = [op for op in operators if moves(op) and op.inputs]
        outputs = (((op.name, index), name) for op in operators for index, name in enumerate(op.output_names))
        inputs = (each for op in operators for each in zip(op.inputs, op.input_names, strict=False))
        self.outputs = [named for edge, name in outputs if (named := self._named(edge, name))]
        self.inputs = [named for edge, name in inputs if (named := self._named(edge, name))]
        reads = {op.name: tuple(self._find_reads(op)) for op in operators if any(op.output_names)}
        self.reads = {name: found for name, found in reads.items() if found}

    def is_graph_input(self, edge: Edge) -> bool:
        """Return whether an edge carries a tensor into the graph."""
        producer = self.graph.operators.get(edge[0])
        return producer is not None and producer.op_type in GRAPH_INPUTS

    def _named(self, edge: Edge, name: str) -> NamedEdge | None:
        parts = FX_TENSOR.fullmatch(name)
        if parts is None:
            return None
        return NamedEdge(edge, parts[1], int(parts[2]), self.is_graph_input(edge), because("pair.fx_name", tensor=name))

    # Reads

    def _find_reads(self, owner: TextOp) -> Iterator[Read]:
        """Yield the edges read by the operators of one FX node, from the operator with its name backwards."""
        node = fx_node(owner)
        seen, waiting = {owner.name}, [owner]
        while waiting:
            reader = waiting.pop()
            for index, edge in enumerate(reader.inputs):
                origin, chain, producer = self._origin(edge, node)
                # An edge without a producer in the text may be any tensor.
                is_outside = producer is None or producer.op_type in GRAPH_INPUTS or self._is_foreign(origin, node)
                if is_outside and origin[0]:
                    yield Read(origin, chain, reader, index)
                elif producer is None:
                    continue
                elif producer.op_type not in CONSTANTS and producer.name not in seen:
                    seen.add(producer.name)
                    waiting.append(producer)

    def _origin(self, edge: Edge, node: str) -> tuple[Edge, tuple[TextOp, ...], TextOp | None]:
        """Follow an edge backwards through operators that only move elements."""
        chain: list[TextOp] = []
        producer = self.graph.operators.get(edge[0])
        seen: set[Edge] = set()
        while producer is not None and moves(producer) and producer.inputs and not self._is_foreign(edge, node):
            if edge in seen:
                return edge, (), None
            seen.add(edge)
            chain.append(producer)
            edge = producer.inputs[0]
            producer = self.graph.operators.get(edge[0])
        return edge, tuple(reversed(chain)), producer

    def _is_foreign(self, edge: Edge, node: str) -> bool:
        """Return whether an edge has the name of another FX node's result."""
        name = self.graph.fx_name(*edge)
        return bool(name) and name.rpartition(".OUTPUT.")[0] != node


def fx_node(op: TextOp) -> str:
    """Return the FX node whose result an operator has the name of."""
    return next(name.rpartition(".OUTPUT.")[0] for name in op.output_names if name)

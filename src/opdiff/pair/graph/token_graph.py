"""Graph of one token: dumped operators with their inputs by the graph text, and the operators that were not dumped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import GraphNode
from opdiff.pair.graph.names import GraphNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.dump import GraphOp
    from opdiff.core.graph import TextGraph
    from opdiff.pair.graph.names import ResolvedOp


class DumpedOperator(Struct, frozen=True, gc=False):
    """What the graph has of a dumped operator; other processes send it in a tenth of the time of its tensors."""

    name: str
    op_type: str
    timestamp: int
    full_name: str
    input_count: int

    @classmethod
    def of(cls, op: GraphOp) -> DumpedOperator:
        """Return an operator without its tensors."""
        return cls(op.name, op.op_type, op.timestamp, op.full_name, len(op.inputs))


def token_graph(operators: Iterable[DumpedOperator], graph: TextGraph) -> tuple[GraphNode, ...]:
    """Return the operators of a graph by the names of the rows, with their inputs, in the order of the text.

    Without a text the graph is empty. The inputs of operators that the compiler inserted are not known.
    """
    if not graph.operators:
        return ()
    names = GraphNames(graph)
    in_order = sorted(operators, key=lambda op: op.timestamp)
    dumped = {op.name: (op, names.resolve(op.name, op.full_name)) for op in in_order}
    owners = _owners(dumped)
    nodes: list[tuple[int, GraphNode]] = []
    number = -1
    for op, found in dumped.values():
        # An operator that is not in the text follows the operator that was dumped before it.
        number = max(part.number for part in found.operators) if found else number
        nodes.append((number, _node(op, found, owners)))
    nodes += [
        (op.number, GraphNode(op.name, op.op_type, tuple(_source(edge, owners) for edge in op.inputs)))
        for op in graph.operators.values()
        if op.name not in owners and op.name not in dumped
    ]
    return tuple(node for _, node in sorted(nodes, key=lambda item: item[0]))


def _owners(dumped: Mapping[str, tuple[DumpedOperator, ResolvedOp | None]]) -> dict[str, tuple[str, bool]]:
    """Return the dumped operator that contains each operator of the text, and whether its outputs are the same."""
    owners: dict[str, tuple[str, bool]] = {}
    for name, (_, found) in dumped.items():
        parts = found.operators if found else ()
        for part in parts:
            owners.setdefault(part.name, (name, part is parts[-1]))
    return owners


def _node(op: DumpedOperator, found: ResolvedOp | None, owners: Mapping[str, tuple[str, bool]]) -> GraphNode:
    if found is None:
        return GraphNode(op.name, op.op_type, ("",) * op.input_count)
    inputs = tuple(_source(part.inputs[index], owners) for part, index in found.external_inputs)
    return GraphNode(op.name, op.op_type, inputs, tuple(part.name for part in found.operators))


def _source(edge: tuple[str, int], owners: Mapping[str, tuple[str, bool]]) -> str:
    producer, index = edge
    name, is_last = owners.get(producer, (producer, True))
    # A tensor inside a fused operator is not one of its outputs.
    return f"{name}:{index}" if is_last else ""

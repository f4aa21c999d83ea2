"""Operators of a graph by the names of dumped operators, and the graph of one token with these names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import GraphNode
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.pair.dump_index import split_joined_name
from opdiff.pair.graph.edges import GraphEdges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.dump import GraphOp
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.reasons import Reason

# Writers cut names that are too long for a file name.
_MIN_CUT_LENGTH = 180

_CERTAIN = 1.0
_LAST_PART_CONFIDENCE = 0.9
_JOINED_CONFIDENCE = 0.8
_CUT_CONFIDENCE = 0.7


class ResolvedOp(Struct, frozen=True, dict=True):
    """The operators of the graph that a dumped one stands for, in order; how they were found, and how sure that is."""

    operators: tuple[TextOp, ...]
    match: Reason
    confidence: float

    @property
    def is_fused(self) -> bool:
        """Whether the dumped operator stands for several operators."""
        return len(self.operators) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its operators."""
        return tuple(op.name for op in self.operators)

    @cached_property
    def is_named(self) -> bool:
        """Whether an output of its operators has the name of an FX tensor."""
        return any(any(op.output_names) for op in self.operators)

    @cached_property
    def external_inputs(self) -> tuple[tuple[TextOp, int], ...]:
        """Inputs that do not come from another part, as part and index."""
        inner = {op.name for op in self.operators}
        return tuple(
            (op, index)
            for op in self.operators
            for index, (producer, _) in enumerate(op.inputs)
            if producer not in inner
        )


class GraphNames:
    """Operators of a graph by the file form of their names, for all tokens: tokens mostly have the same operators."""

    def __init__(self, graph: TextGraph) -> None:
        self._graph = graph
        self._resolved: dict[tuple[str, str], ResolvedOp | None] = {}
        self._by_name: dict[str, TextOp | None] = {}
        self._by_last_part: dict[str, TextOp | None] = {}
        for op in graph.operators.values():
            _add(self._by_name, file_safe_name(op.name), op)
            if "/" in op.name:
                _add(self._by_last_part, file_safe_name(op.name.rpartition("/")[2]), op)

    @cached_property
    def edges(self) -> GraphEdges:
        """The edges of the graph."""
        return GraphEdges(self._graph)

    def resolve(self, name: str, full_name: str = "") -> ResolvedOp | None:
        """Return the operators that a dumped operator stands for; `None` if the graph has no operator of its name."""
        try:
            return self._resolved[name, full_name]
        except KeyError:
            found = self._resolved[name, full_name] = self._resolve(name, full_name)
            return found

    def _resolve(self, name: str, full_name: str) -> ResolvedOp | None:
        exact = self._by_name.get(name)
        if exact is not None:
            return self._with_originals(exact, because("pair.match_name"), _CERTAIN)
        recorded = self._graph.operators.get(full_name) if full_name else None
        if recorded is not None:
            return self._with_originals(recorded, because("pair.match_recorded_name"), _CERTAIN)
        if name in self._by_name:
            # Two operators of the graph have this file form.
            return None
        last_part = self._by_last_part.get(name)
        if last_part is not None:
            return self._with_originals(last_part, because("pair.match_last_part"), _LAST_PART_CONFIDENCE)
        parts = [self._by_name[part] for part in split_joined_name(name, lambda part: bool(self._by_name.get(part)))]
        if parts:
            return ResolvedOp(tuple(filter(None, parts)), because("pair.match_joined_names"), _JOINED_CONFIDENCE)
        cut = self._find_shortened(name)
        return ResolvedOp((cut,), because("pair.match_cut_name"), _CUT_CONFIDENCE) if cut is not None else None

    def _with_originals(self, op: TextOp, match: Reason, confidence: float) -> ResolvedOp:
        originals = [self._graph.operators.get(name) for name in op.originals if name != op.name]
        found = tuple(original for original in originals if original is not None)
        if found and not any(op.output_names):
            return ResolvedOp(found, because("pair.match_originals"), _CERTAIN)
        return ResolvedOp((op,), match, confidence)

    def _find_shortened(self, name: str) -> TextOp | None:
        if len(name) < _MIN_CUT_LENGTH:
            return None
        found = [op for full, op in self._by_name.items() if op is not None and full.startswith(name)]
        return found[0] if len(found) == 1 else None


def _add(names: dict[str, TextOp | None], name: str, op: TextOp) -> None:
    """Add a name; one that two operators have is ambiguous and stands for neither."""
    names[name] = None if name in names else op


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

"""Golden values of the edges of a graph, as far as names and movements determine them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import because
from opdiff.pair.graph.edges import CONSTANTS, GRAPH_INPUTS
from opdiff.pair.graph.facts import Facts
from opdiff.pair.graph.movement import CAST, Path, dtype_name, dtype_of_number, holds, moved_shape, movement_of, moves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.graph import TextOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.pair.graph.edges import Edge, GraphEdges, NamedEdge
    from opdiff.pair.graph.facts import Place, Value

_CERTAIN, _CONVERTED = 1.0, 0.95


class Match(Struct, frozen=True):
    """Golden value of an edge with evidence and confidence; `file` is the file that the text names."""

    value: Value
    reason: Reason
    confidence: float
    file: Place | None = None


class Matches:
    """Golden values of edges, and values of further edges that follow from them.

    Attributes:
        found: the golden value of each edge, with its evidence.
        refuted: edges for which the text names an FX tensor that they cannot be.
        candidates: the golden values that an undecided edge may have.
    """

    def __init__(self, edges: GraphEdges, facts: Facts, dumped: Callable[[Edge], Place | None]) -> None:
        """Take the names of the text and follow movements from the named edges.

        Args:
            edges: the edges of the graph.
            facts: the tensors of the token.
            dumped: returns the target's tensor of an edge; `None` if it was not dumped.
        """
        self.edges = edges
        self.graph = edges.graph
        self.facts = facts
        self.dumped = dumped
        self.found: dict[Edge, Match] = {}
        self.refuted: set[Edge] = set()
        self.candidates: dict[Edge, tuple[Value, ...]] = {}
        self._shapes: dict[Edge, Shape | None] = {}
        self._take_names()
        self.trace()
        self._refute_names()

    def value(self, edge: Edge) -> Value | None:
        """Return the golden value of an edge."""
        match = self.found.get(edge)
        return match.value if match is not None else None

    def producer(self, edge: Edge) -> TextOp | None:
        """Return the operator that makes an edge."""
        return self.graph.operators.get(edge[0])

    # Names

    def _take_names(self) -> None:
        for named in self.edges.outputs:
            self._take_name(named)
        # An input has the name that its producer had when the reader was made; a later view may have replaced it.
        for named in self.edges.inputs:
            if named.edge not in self.found:
                self._take_name(named)

    def _take_name(self, named: NamedEdge) -> None:
        place = self.facts.find_output(named.node, named.index)
        if place is None:
            return
        value = self.facts.value(place)
        # A graph input has the name of a node without effect; any other name is a mistake of the converter.
        if not named.is_graph_input or value.can_be_graph_input:
            self.found[named.edge] = Match(value, named.reason, _CERTAIN, place)

    def _refute_names(self) -> None:
        """Drop names that other evidence contradicts.

        Some converters return other numbers under the name of a result that they do not compute. A tensor that is moved
        from a known one must have the elements of that one, and a copy of a graph input those of a graph input.
        """
        self.refuted |= {(op.name, 0) for op in self.edges.moving if self._is_no_graph_input(op) or self._is_other(op)}
        if self.refuted:
            named = {edge: match for edge, match in self.found.items() if match.file is not None}
            self.found = {edge: match for edge, match in named.items() if edge not in self.refuted}
            self.trace()

    def _is_other(self, op: TextOp) -> bool:
        """Return whether the named result of a movement has clearly other elements than its known source."""
        before, after = self.found.get(op.inputs[0]), self.found.get((op.name, 0))
        path = self._path((op,), op.inputs[0])
        if before is None or after is None or after.file is None or path is None:
            return False
        if path.elements(before.value.stored.elements) != after.value.stored.elements:
            return False
        dtype = self.dtype((op.name, 0))
        return self.facts.ask(Facts.are_different, before.value.place, after.value.place, path, dtype)

    def _is_no_graph_input(self, op: TextOp) -> bool:
        """Return whether a copy of a graph input has the name of a tensor that a node computed."""
        source, after = op.inputs[0], self.found.get((op.name, 0))
        if (
            after is None
            or after.file is None
            or not self.edges.is_graph_input(source)
            or after.value.can_be_graph_input
        ):
            return False
        path = self._path((op,), source)
        return path is not None and path.keeps_order and self.dtype(source) == self.dtype((op.name, 0))

    # Movements

    def trace(self) -> None:
        """Follow movements in both directions until nothing new is found."""
        before = -1
        while before != len(self.found):
            before = len(self.found)
            for op in self.edges.moving:
                self._trace_forward(op)
            for op in reversed(self.edges.moving):
                self._trace_back(op)

    def _trace_forward(self, op: TextOp) -> None:
        source, result = op.inputs[0], (op.name, 0)
        known = self.found.get(source)
        if known is None or result in self.found or result in self.refuted:
            return
        value = self.moved(known.value, (op,), source)
        if value is not None:
            self.found[result] = _moved(known, value, op, source)
        elif op.op_type == CAST and holds(self.dtype(result), self.dtype(source) or known.value.stored.dtype):
            self.found[result] = _converted(known, op)

    def _trace_back(self, op: TextOp) -> None:
        source, result = op.inputs[0], (op.name, 0)
        known = self.found.get(result)
        producer = self.producer(source)
        if known is None or source in self.found or producer is None or producer.op_type in CONSTANTS:
            return
        value = self.moved_back(known.value, (op,), source)
        if value is not None:
            self.found[source] = _moved(known, value, op, result)
        elif op.op_type == CAST and holds(self.dtype(result), self.dtype(source)):
            self.found[source] = _converted(known, op)

    def moved(self, value: Value, chain: Iterable[TextOp], source: Edge) -> Value | None:
        """Return the result of moving a golden value from an edge through operators, if FX has the result."""
        dtype = value.stored.dtype
        for op in chain:
            dtype = self.dtype((op.name, 0)) or dtype if op.op_type == CAST else dtype
        return self._found_at(value, self._path(chain, source), dtype)

    def moved_back(self, value: Value, chain: Iterable[TextOp], source: Edge) -> Value | None:
        """Return the golden value at an edge from which operators make another golden value, if FX has it."""
        path = self._path(chain, source)
        dtype = value.stored.dtype
        for op in chain:
            if op.op_type == CAST:
                dtype = self.dtype(source)
                if not holds(self.dtype((op.name, 0)), dtype):
                    return None
        return self._found_at(value, path.inverse() if path is not None else None, dtype)

    def _path(self, chain: Iterable[TextOp], source: Edge) -> Path | None:
        steps = []
        for op in chain:
            step = movement_of(op, self.graph, self.shape(source))
            if step is None:
                return None
            steps.append(step)
            source = (op.name, 0)
        return Path(tuple(steps))

    def _found_at(self, value: Value, path: Path | None, dtype: str) -> Value | None:
        """The golden value with the elements of another one, moved along a path."""
        if path is None:
            return None
        if path.keeps_order and dtype == value.stored.dtype:
            return value
        found = self.facts.ask(Facts.moved, value.place, path, dtype)
        return self.facts.value(found[0]) if len(found) == 1 else None

    # Shapes and element types

    def shape(self, edge: Edge) -> Shape | None:
        """Return the shape of an edge, as FX, the text or the target has it."""
        wanted = edge
        moving: list[tuple[Edge, TextOp]] = []
        # Back to a known shape, then forward again. The edges of a cycle have none on the second visit.
        while edge not in self._shapes:
            op = self.producer(edge)
            self._shapes[edge] = self._own_shape(edge)
            if self._shapes[edge] is not None or op is None or not moves(op) or not op.inputs:
                self._shapes[edge] = self._shapes[edge] or self._dumped_shape(edge)
                break
            moving.append((edge, op))
            edge = op.inputs[0]
        shape = self._shapes[edge]
        for result, op in reversed(moving):
            shape = moved_shape(op, self.graph, shape) or self._dumped_shape(result)
            self._shapes[result] = shape
        return self._shapes[wanted]

    def _own_shape(self, edge: Edge) -> Shape | None:
        match, op = self.found.get(edge), self.producer(edge)
        if match is not None and match.file is not None:
            return self.facts.stored(match.file).shape
        return _descriptor_shape(op) if op is not None and op.op_type in GRAPH_INPUTS else None

    def _dumped_shape(self, edge: Edge) -> Shape | None:
        dumped = self.dumped(edge)
        return self.facts.stored(dumped).shape if dumped is not None else None

    def dtype(self, edge: Edge) -> str:
        """Return the element type of an edge, as the text or the target has it; empty if not known."""
        op, dumped = self.producer(edge), self.dumped(edge)
        described = op.output_descriptors[edge[1] : edge[1] + 1] if op is not None else ()
        name = dtype_name(described[0].dtype) if described else ""
        if not name and op is not None and op.op_type == CAST and op.integer("dst_type"):
            name = dtype_of_number(op.integer("dst_type")[0])
        return name or (self.facts.stored(dumped).dtype if dumped is not None else "")


def _descriptor_shape(op: TextOp) -> Shape | None:
    shape = op.output_descriptors[0].shape if op.output_descriptors else None
    return shape if shape is not None and all(extent >= 0 for extent in shape) else None


def _moved(known: Match, value: Value, op: TextOp, other: Edge) -> Match:
    reason = because("pair.moved", name=op.name, op_type=op.op_type, tensor=f"{other[0]}:{other[1]}")
    return Match(value, reason, known.confidence)


def _converted(known: Match, op: TextOp) -> Match:
    return Match(known.value, because("pair.converted", name=op.name), min(known.confidence, _CONVERTED))

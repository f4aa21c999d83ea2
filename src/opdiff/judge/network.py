"""The target's network: operators with their rows and producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import GraphNode
from opdiff.core.tensor import Slot
from opdiff.judge.error_model import Propagation, error_model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.error_model import OpErrorModel

    Port = tuple[str, int]


MIN_ELEMENTS_FOR_CONTENT = 8
"""Tensors with fewer elements may have equal statistics by chance."""


class Edge(Struct, frozen=True):
    """An input of an operator.

    Attributes:
        producer: operator and index of the output that feeds the input; `None` if unknown.
        row: index of the input's own row; `None` if the input was not dumped.
    """

    producer: Port | None
    row: int | None


class Operator(Struct, frozen=True):
    """An operator of the target.

    Attributes:
        node: its node in the graph.
        error_model: error model of its type.
        edges: its inputs.
        outputs: row index of each output, by the index of the output.
        rows: indices of all its rows.
    """

    node: GraphNode
    error_model: OpErrorModel
    edges: tuple[Edge, ...]
    outputs: dict[int, int]
    rows: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.node.name


class Network(Struct, frozen=True):
    """Operators in topological order.

    Attributes:
        operators: operators by name, producers before readers.
        readers: for each operator, the names of the operators that read its outputs.
        outputs: operators whose outputs are outputs of the network.
        has_known_edges: the edges are from a rule file or a graph, not guessed.
        has_edges: the edges are known, or guessed by addresses or contents, not by the order of execution alone.
        against_original: the golden side was not compiled.
    """

    operators: dict[str, Operator]
    readers: dict[str, list[str]]
    outputs: tuple[str, ...]
    has_known_edges: bool
    has_edges: bool
    against_original: bool = False

    def lacks(self, operator: Operator) -> bool:
        """Return whether only the golden dump of an NPU has an operator, as far as dumps without rules tell."""
        return not self.has_known_edges and not operator.rows


def build_network(rows: Sequence[Row], nodes: Sequence[GraphNode]) -> Network:
    """Return the network of a comparison; operators without a node come last, in the order of the rows."""
    by_op = _rows_by_operator(rows)
    known = {node.name: node for node in nodes}
    for name, row_indices in by_op.items():
        if name not in known:
            known[name] = GraphNode(name, rows[row_indices[0]].label.op_type, is_guess=True)
    operators: dict[str, Operator] = {}
    previous = missing = ""
    has_known_edges = any(not node.is_guess for node in nodes)
    holders: dict[object, Port] = {}
    for name, node in known.items():
        operator = _operator(node, by_op.get(name, ()), rows, known, previous)
        operators[name] = operator if has_known_edges else _with_producers(operator, rows, holders, missing)
        if operator.outputs:
            previous = name
        elif not operator.rows and operator.error_model.propagation is not Propagation.NONE:
            missing = name
    readers, is_ordered = _readers(operators)
    if not is_ordered:
        operators = _sorted(operators, readers)
        readers, _ = _readers(operators)
    has_edges = any(edge.producer and edge.producer[1] >= 0 for each in operators.values() for edge in each.edges)
    return Network(operators, readers, _outputs(operators, readers), has_known_edges, has_edges)


def _with_producers(operator: Operator, rows: Sequence[Row], holders: dict[object, Port], missing: str) -> Operator:
    """Guess unknown producers: an input and an earlier output with the same golden tensor are the same tensor.

    `holders` has the last output with each golden tensor, by the key and by the statistics of the golden tensor. Other
    inputs with differences come from the operator `missing`, the last operator without a dump, if there is one.
    """
    edges = []
    for edge in operator.edges:
        identities = _golden_identities(rows[edge.row]) if edge.producer is None and edge.row is not None else ()
        found = next((holders[found] for found in identities if found in holders), None)
        if found is None and missing and edge.producer is None and edge.row is not None and _differs(rows[edge.row]):
            found = missing, 0
        edges.append(edge if found is None else replace(edge, producer=found))
    for index, row_index in operator.outputs.items():
        holders |= dict.fromkeys(_golden_identities(rows[row_index]), (operator.name, index))
    return replace(operator, edges=tuple(edges))


def _differs(row: Row) -> bool:
    return row.metrics is not None and not row.metrics.is_equal


def _golden_identities(row: Row) -> tuple[object, ...]:
    """Return what identifies the golden tensor of a row: its key, and its statistics."""
    metrics = row.metrics
    key = () if row.golden_key is None else (row.golden_key,)
    if metrics is None or not metrics.golden_std or metrics.count < MIN_ELEMENTS_FOR_CONTENT:
        return key
    ends = metrics.golden_min, metrics.golden_max
    return *key, (metrics.count, metrics.golden_mean, metrics.golden_std, *ends)


def _rows_by_operator(rows: Sequence[Row]) -> dict[str, list[int]]:
    by_op: dict[str, list[int]] = {}
    for row_index, row in enumerate(rows):
        if row.key is not None:
            by_op.setdefault(row.key.op, []).append(row_index)
    return by_op


def _operator(
    node: GraphNode, row_indices: Sequence[int], rows: Sequence[Row], known: dict[str, GraphNode], previous: str
) -> Operator:
    inputs: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for row_index in row_indices:
        key = rows[row_index].key
        if key is not None:
            (inputs if key.slot is Slot.INPUT else outputs)[key.index] = row_index
    edges = [Edge(_port(text, known), inputs.get(index)) for index, text in enumerate(node.inputs)]
    if inputs:
        edges += [Edge(None, row_index) for index, row_index in inputs.items() if index >= len(node.inputs)]
    error_model = error_model_of(node.op_type)
    if not edges and previous and outputs and error_model.propagation is not Propagation.NONE:
        # Array files have neither inputs nor addresses: assume that the operator reads the previous one.
        edges = [Edge((previous, -1), None)]
    return Operator(node, error_model, tuple(edges), outputs, tuple(row_indices))


def _port(text: str, known: dict[str, GraphNode]) -> Port | None:
    name, _, index = text.rpartition(":")
    return (name, int(index)) if name in known and index.isdecimal() and len(index) < 10 else None


def _readers(operators: dict[str, Operator]) -> tuple[dict[str, list[str]], bool]:
    """Return the readers of each operator, and whether producers already come before their readers."""
    readers: dict[str, list[str]] = {}
    is_ordered = True
    for name, operator in operators.items():
        for edge in operator.edges:
            if edge.producer is not None:
                readers.setdefault(edge.producer[0], []).append(name)
        if name in readers:
            is_ordered = False
    return readers, is_ordered


def _sorted(operators: dict[str, Operator], readers: dict[str, list[str]]) -> dict[str, Operator]:
    """Sort producers before readers; operators of a cycle keep their order."""
    waiting = {name: sum(edge.producer is not None for edge in operator.edges) for name, operator in operators.items()}
    ready = [name for name, count in waiting.items() if not count]
    ordered: dict[str, Operator] = {}
    for name in ready:
        ordered[name] = operators[name]
        for reader in readers.get(name, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return ordered | operators


def _outputs(operators: dict[str, Operator], readers: dict[str, list[str]]) -> tuple[str, ...]:
    """Return the operators that feed a `NetOutput`, or else the operators without readers."""
    found: dict[str, None] = {}
    for operator in operators.values():
        if operator.node.op_type == "NetOutput":
            found |= dict.fromkeys(edge.producer[0] for edge in operator.edges if edge.producer)
    if not found:
        found |= dict.fromkeys(name for name, operator in operators.items() if operator.outputs and name not in readers)
    return tuple(found)

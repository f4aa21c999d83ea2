"""The target's network with its rows: which rows belong to an operator, and what feeds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import GraphNode
from opdiff.core.tensor import Slot
from opdiff.judge.error_model import Flow, trait_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.tensor import TensorKey
    from opdiff.judge.error_model import Trait

    Port = tuple[str, int]

# Every row is compared with it: to look it up in its class takes longer than to compare.
_INPUT = Slot.INPUT


class Edge(NamedTuple):
    """An input of an operator.

    Attributes:
        producer: the operator and output that feed it; `None` when not known.
        row: the number of the row of the input's own dump; `None` when there is none.
        is_order: nothing is known but that the producer ran right before.
    """

    producer: Port | None
    row: int | None
    is_order: bool = False


class Operator(NamedTuple):
    """An operator of the target.

    Attributes:
        node: what is known about it.
        trait: what is expected of its type.
        edges: its inputs.
        outputs: the numbers of the rows of its outputs, by output.
        rows: the numbers of all its rows.
    """

    node: GraphNode
    trait: Trait
    edges: tuple[Edge, ...]
    outputs: dict[int, int]
    rows: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


class Network(NamedTuple):
    """Operators in an order in which producers come before their readers.

    Attributes:
        operators: by name, in that order.
        readers: names of the operators that read one, by its name.
        ends: names of the operators whose outputs are those of the network.
        is_told: whether a rule file told what feeds what.
    """

    operators: dict[str, Operator]
    readers: dict[str, list[str]]
    ends: tuple[str, ...]
    is_told: bool


def build(rows: Sequence[Row], nodes: Sequence[GraphNode]) -> Network:
    """The network of a comparison. Operators that only rows know come last, in the order of the rows."""
    by_op = _rows_by_operator(rows)
    known = {node.name: node for node in nodes}
    for name, numbers in by_op.items():
        if name not in known:
            known[name] = GraphNode(name, rows[numbers[0]].label.op_type, is_guess=True)
    operators: dict[str, Operator] = {}
    previous = ""
    is_told = any(not node.is_guess for node in nodes)
    holders: dict[TensorKey, Port] = {}
    for name, node in known.items():
        operator = _operator(node, by_op.get(name, ()), rows, known, previous)
        operators[name] = operator if is_told else _linked(operator, rows, holders)
        if operator.outputs:
            previous = name
    readers, is_ordered = _readers(operators)
    if not is_ordered:
        operators = _in_order(operators, readers)
        readers, _ = _readers(operators)
    return Network(operators, readers, _ends(operators, readers), is_told)


def _linked(operator: Operator, rows: Sequence[Row], holders: dict[TensorKey, Port]) -> Operator:
    """The operator with producers that nobody told: what an input must equal, an earlier output must equal too.

    `holders` has the last output that was compared with each golden tensor.
    """
    edges = []
    for edge in operator.edges:
        golden = rows[edge.row].golden_key if edge.producer is None and edge.row is not None else None
        found = holders.get(golden) if golden is not None else None
        edges.append(edge if found is None else edge._replace(producer=found))
    for index, number in operator.outputs.items():
        golden = rows[number].golden_key
        if golden is not None:
            holders[golden] = operator.name, index
    return operator._replace(edges=tuple(edges))


def _rows_by_operator(rows: Sequence[Row]) -> dict[str, list[int]]:
    by_op: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row.key is not None:
            by_op.setdefault(row.key.op, []).append(number)
    return by_op


def _operator(
    node: GraphNode, numbers: Sequence[int], rows: Sequence[Row], known: dict[str, GraphNode], previous: str
) -> Operator:
    inputs: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for number in numbers:
        key = rows[number].key
        if key is not None:
            (inputs if key.slot is _INPUT else outputs)[key.index] = number
    edges = [Edge(_port(text, known), inputs.get(index)) for index, text in enumerate(node.inputs)]
    if inputs:
        edges += [Edge(None, number) for index, number in inputs.items() if index >= len(node.inputs)]
    trait = trait_of(node.op_type)
    if not edges and previous and outputs and trait.flow is not Flow.NONE:
        # Files of arrays tell neither inputs nor addresses.
        edges = [Edge((previous, -1), None, is_order=True)]
    return Operator(node, trait, tuple(edges), outputs, tuple(numbers))


def _port(text: str, known: dict[str, GraphNode]) -> Port | None:
    name, _, index = text.rpartition(":")
    return (name, int(index)) if name in known and index.isdecimal() and len(index) < 10 else None


def _readers(operators: dict[str, Operator]) -> tuple[dict[str, list[str]], bool]:
    """Who reads each operator, and whether producers come before their readers already."""
    readers: dict[str, list[str]] = {}
    is_ordered = True
    for name, operator in operators.items():
        for edge in operator.edges:
            if edge.producer is not None:
                readers.setdefault(edge.producer[0], []).append(name)
        if name in readers:
            is_ordered = False
    return readers, is_ordered


def _in_order(operators: dict[str, Operator], readers: dict[str, list[str]]) -> dict[str, Operator]:
    """Producers before readers; where the graph runs in a circle, as it was told."""
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


def _ends(operators: dict[str, Operator], readers: dict[str, list[str]]) -> tuple[str, ...]:
    """What feeds a `NetOutput`, and what nobody reads."""
    ends: dict[str, None] = {}
    for operator in operators.values():
        if operator.node.op_type == "NetOutput":
            ends |= dict.fromkeys(edge.producer[0] for edge in operator.edges if edge.producer)
    if not ends:
        ends |= dict.fromkeys(name for name, operator in operators.items() if operator.outputs and name not in readers)
    return tuple(ends)

"""Names that ATC gives to the operators of an ONNX model; rule files refer to originals by these names.

A node keeps its name. Only nodes without a name are numbered: first those of the main graph, then those of inner
graphs, breadth first. Operators of a branch have the name of their `If` and of the branch in front.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from opdiff.workflows.golden.onnx_model import OnnxGraph, OnnxNode

_BRANCH_NUMBERS = {"then_branch": 0, "else_branch": 1}


class NamedGraph(Struct, frozen=True):
    """A graph with the names of its operators, in order; `prefix` is already part of the names."""

    graph: OnnxGraph
    prefix: str
    names: tuple[str, ...]

    def operators(self) -> tuple[tuple[str, OnnxNode], ...]:
        """Names and nodes."""
        return tuple(zip(self.names, self.graph.nodes, strict=True))


def name_operators(main: OnnxGraph) -> dict[int, NamedGraph]:
    """Return every graph of a model with the names of its operators, by position."""
    unnamed = count()
    found: dict[int, NamedGraph] = {}
    pending = deque([("", main)])
    while pending:
        prefix, graph = pending.popleft()
        names = tuple(prefix + (node.name or f"{node.op_type}_{next(unnamed)}") for node in graph.nodes)
        found[graph.position] = NamedGraph(graph, prefix, names)
        for name, node in zip(names, graph.nodes, strict=True):
            for number, (attribute, inner) in enumerate(node.graphs):
                pending.append((f"{name}_{_BRANCH_NUMBERS.get(attribute, number)}_{attribute}/", inner))
    return found

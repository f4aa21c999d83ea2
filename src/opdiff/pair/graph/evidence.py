"""Assignment of the tensors of an FX run to the tensors of a graph, with the evidence.

From the strongest evidence:

1. Names: the text names the FX tensor on the descriptor.
2. Movements: an operator that only moves elements joins two tensors. Its result on a golden tensor is looked up
   among the golden files.
3. Arguments: an FX node and the operators it became read the same tensors. Known tensors are left out; shapes, element
   types, all readers and the names of descriptors (`bias`, `gamma`) decide on the others.
4. Content: of several candidates the tensor with the target's numbers, with low confidence.

Positions and equal element counts are no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.pair.graph.arguments import ArgumentMatcher
from opdiff.pair.graph.matches import Matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.tensor import Shape
    from opdiff.pair.graph.contents import Stored
    from opdiff.pair.graph.edges import Edge, GraphEdges
    from opdiff.pair.graph.fx_values import FxValue, FxValues
    from opdiff.pair.graph.matches import Match


class Evidence:
    """The golden values of the edges of one graph in one token."""

    def __init__(self, edges: GraphEdges, values: FxValues, dumped: Callable[[Edge], Stored | None]) -> None:
        """Collect the evidence.

        Args:
            edges: the edges of the graph.
            values: the golden run.
            dumped: returns the target's tensor of an edge; `None` if it was not dumped.
        """
        self._matches = Matches(edges, values, dumped)
        arguments = ArgumentMatcher(self._matches)
        while arguments.decide():
            self._matches.trace()
        self._candidates = arguments.candidates

    def match(self, edge: Edge) -> Match | None:
        """Return the golden value of an edge, if there is evidence for one."""
        return self._matches.match(edge)

    def shape(self, edge: Edge) -> Shape | None:
        """Return the shape of an edge, where it is known."""
        return self._matches.shape(edge)

    def candidates(self, edge: Edge) -> tuple[FxValue, ...]:
        """Return the golden values that an undecided edge may have."""
        return self._candidates.get(edge, ())

    def is_refuted(self, edge: Edge) -> bool:
        """Return whether the text names an FX tensor that the edge cannot be."""
        return edge in self._matches.refuted

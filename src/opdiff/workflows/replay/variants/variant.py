"""A variant of a computation, and the computation that is varied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.judgement import ErrorKind
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.replay.encoded_model import EncodedModel, EncodedNode, Subgraph
    from opdiff.workflows.replay.original_types import OriginalType


class Variant(Struct, frozen=True):
    """A changed computation.

    Attributes:
        kind: kind of error that the variant would prove.
        reason: the change.
        subgraph: the changed subgraph.
        change_input: changes the values of inputs: name and values to values.
        is_narrow_sum: whether sums are rounded to 16 bits after some products each.
    """

    kind: ErrorKind
    reason: Reason
    subgraph: Subgraph
    change_input: Callable[[str, AnyArray], AnyArray] | None = None
    is_narrow_sum: bool = False


class Computation(Struct, frozen=True):
    """The computation that is varied: a subgraph of a model, and the types of the model's tensors."""

    encoded: EncodedModel
    subgraph: Subgraph
    types: Mapping[str, OriginalType]

    def shape_of(self, tensor: str) -> Shape | None:
        """Return the shape of a tensor; `None` if it is not known."""
        if tensor in self.encoded.weights:
            return self.encoded.weights[tensor].shape
        return self.types[tensor].shape if tensor in self.types else None

    def is_constant(self, tensor: str) -> bool:
        """Return whether a tensor is a weight, or the result of a node without inputs."""
        node = self.encoded.producers.get(tensor)
        return tensor in self.encoded.weights or (node is not None and not node.reads)

    def with_node(self, node: EncodedNode, *changed: EncodedNode) -> Subgraph:
        """Return the subgraph with a node replaced by others."""
        nodes = [item for other in self.subgraph.nodes for item in (changed if other is node else (other,))]
        return replace(self.subgraph, nodes=tuple(nodes))

    def passing_on(self, node: EncodedNode, source: str) -> Subgraph:
        """Return the subgraph in which a node passes one of its inputs on."""
        return self.with_node(node, replace(node, op_type="Identity", inputs=(source,), attributes=(), domain=""))

    def computing_nodes(self) -> Sequence[EncodedNode]:
        """Return the nodes that compute something from inputs, the last first."""
        return [node for node in reversed(self.subgraph.nodes) if node.reads and node.outputs]

"""The subgraph of an original model between known tensors and the outputs of one compiled operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import Reason, because

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opdiff.workflows.replay.encoded_model import EncodedModel, EncodedNode, EncodedWeight

# More original operators than one compiled operator is ever fused from.
_MAX_NODES = 512


class Subgraph(Struct, frozen=True):
    """A part of a model.

    Attributes:
        nodes: its nodes in their order.
        weights: weights that they read.
        inputs: tensors whose values are needed.
        shapes: tensors of which only the shape is needed.
        outputs: tensors that it computes.
    """

    nodes: tuple[EncodedNode, ...]
    weights: tuple[EncodedWeight, ...]
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    outputs: tuple[str, ...]


def find_subgraph(
    encoded: EncodedModel, outputs: Sequence[str], known: Collection[str], owners: Mapping[str, str]
) -> Subgraph | Reason:
    """Walk from outputs back to the nearest tensors with known values.

    Args:
        encoded: the model.
        outputs: tensors to compute.
        known: tensors whose values are known.
        owners: the compiled operator of each tensor that one computes; the search does not go past such a tensor.

    Returns:
        The subgraph, or the reason why a value that it needs is not known.
    """
    walk = _Walk(encoded, frozenset(outputs), known, owners)
    problem = walk.run(outputs)
    if problem is not None:
        return problem
    nodes = tuple(node for node in encoded.nodes if any(name in walk.computed for name in node.outputs if name))
    shapes = tuple(name for name in walk.shapes if name not in walk.inputs and name not in walk.computed)
    return Subgraph(nodes, tuple(walk.weights.values()), tuple(walk.inputs), shapes, tuple(outputs))


class _Walk:
    """Tensors found so far."""

    def __init__(
        self, encoded: EncodedModel, outputs: frozenset[str], known: Collection[str], owners: Mapping[str, str]
    ) -> None:
        self._encoded = encoded
        self._outputs = outputs
        self._known = known
        self._owners = owners
        self.inputs: dict[str, None] = {}
        self.shapes: dict[str, None] = {}
        self.computed: set[str] = set()
        self.weights: dict[str, EncodedWeight] = {}

    def run(self, outputs: Sequence[str]) -> Reason | None:
        """Walk; return the reason why the values of a tensor are not known."""
        pending = list(outputs)
        while pending:
            tensor = pending.pop()
            if tensor in self.computed or tensor in self.inputs or tensor in self.weights:
                continue
            found = self._visit(tensor)
            if isinstance(found, Reason):
                return found
            pending += found
        return None

    def _visit(self, tensor: str) -> Reason | tuple[str, ...]:
        """Classify a tensor; return the tensors that it is computed from."""
        node = self._encoded.producers.get(tensor)
        is_constant = node is not None and not node.reads
        if tensor in self._known and tensor not in self._outputs and not is_constant:
            self.inputs[tensor] = None
            return ()
        if tensor in self._encoded.weights:
            self.weights[tensor] = self._encoded.weights[tensor]
            return ()
        if node is None:
            return because("replay.model_input_unknown", tensor=tensor)
        if tensor in self._owners and tensor not in self._outputs and not is_constant:
            return because("replay.input_unknown", tensor=tensor, producer=self._owners[tensor])
        self.computed |= {name for name in node.outputs if name}
        if len(self.computed) > _MAX_NODES:
            return because("replay.too_many_originals", limit=_MAX_NODES)
        return self._sources(node)

    def _sources(self, node: EncodedNode) -> tuple[str, ...]:
        if node.op_type != "Shape":
            return node.reads
        unknown = [name for name in node.reads if name not in self._known and name not in self._encoded.weights]
        self.shapes |= dict.fromkeys(unknown)
        return tuple(name for name in node.reads if name not in unknown)

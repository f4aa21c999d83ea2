"""Models of a subgraph of the original model that compute as a device may: weights rounded, normalizations folded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core import onnx_encoder as onnx
from opdiff.core.replay import Arithmetic
from opdiff.workflows.replay.attributes import read_attributes
from opdiff.workflows.replay.encoded_model import added_node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.runtime import FedInput
    from opdiff.workflows.replay.encoded_model import EncodedModel, EncodedNode, Subgraph
    from opdiff.workflows.replay.original_types import OriginalType

FLOAT16_ELEMENTS = {dtypes.FLOAT16: 10, dtypes.BFLOAT16: 16}
"""Numbers of 16-bit float types in ONNX."""

# Types whose constants are parameters of the computation, which devices keep exactly.
_EXACT_CONSTANTS = frozenset({
    "Resize", "Upsample", "BatchNormalization", "Clip", "Pad", "Range", "Pow", "QuantizeLinear", "DequantizeLinear",
})  # fmt: skip
_DEFAULT_EPSILON = 1e-5


class SubgraphEncoder(Struct, frozen=True):
    """Encoder of subgraphs of one model; `types` are the types of its tensors."""

    encoded: EncodedModel
    types: Mapping[str, OriginalType]

    def arithmetics(self, subgraph: Subgraph, device: DType) -> tuple[Arithmetic, ...]:
        """Return the ways of computing a subgraph that differ from each other, the usual one first."""
        if device not in FLOAT16_ELEMENTS:
            return (Arithmetic.EXACT,)
        found = [Arithmetic.FOLDED]
        if any(_folded_pairs(subgraph, self._constants(subgraph))):
            found.append(Arithmetic.UNFOLDED)
        if sum(bool(node.reads) for node in subgraph.nodes) > 1:
            found.append(Arithmetic.EACH_STEP)
        return (*found, Arithmetic.EXACT)

    def encode(self, subgraph: Subgraph, feeds: Iterable[FedInput], arithmetic: Arithmetic, device: DType) -> bytes:
        """Return a subgraph as a model of its own, with inputs of the types and shapes that are fed."""
        element = onnx.FLOAT if arithmetic is Arithmetic.EXACT else FLOAT16_ELEMENTS.get(device, onnx.FLOAT)
        graph = _Graph(self.encoded, subgraph, self._constants(subgraph), element)
        if arithmetic is Arithmetic.FOLDED:
            graph.fold()
        if arithmetic is Arithmetic.EACH_STEP:
            steps = [node for node in subgraph.nodes if not self._is_conversion(node)]
            floats = {name for node in steps for name in node.outputs if self._is_float(name)}
            graph.round_results(floats - set(subgraph.outputs))
        heads = [onnx.graph_input(item.name, item.codes.shape, item.element) for item in feeds]
        outputs = [onnx.graph_output(name) for name in subgraph.outputs]
        return self.encoded.encode_model(b"".join((*heads, *graph.encode(), *outputs)))

    def _is_conversion(self, node: EncodedNode) -> bool:
        """Return whether a node makes floats of integers, which are no result of their own."""
        return node.op_type == "Cast" and not self._is_float(node.inputs[0])

    def _is_float(self, name: str) -> bool:
        return name in self.types and self.types[name].element == onnx.FLOAT

    def _constants(self, subgraph: Subgraph) -> dict[str, Shape]:
        """Return the shapes of all constants of float32: weights, and results of nodes without inputs."""
        found = {weight.name: weight.shape for weight in subgraph.weights if weight.element == onnx.FLOAT}
        results = [node.outputs[0] for node in subgraph.nodes if not node.reads and node.outputs]
        return found | {name: self.types[name].shape or () for name in results if self._is_float(name)}


class _Graph:
    """Nodes of a subgraph, changed step by step; float constants are rounded to `element` where devices do so."""

    def __init__(self, encoded: EncodedModel, subgraph: Subgraph, constants: Mapping[str, Shape], element: int) -> None:
        self._encoded = encoded
        self._subgraph = subgraph
        self._constants = constants
        self._element = element
        self._nodes: list[EncodedNode] = list(subgraph.nodes)
        self._added: list[bytes] = []

    def encode(self) -> Iterator[bytes]:
        """Yield the fields of the graph: constants, weights, nodes."""
        yield from self._added
        rounded = self._rounded_constants() if self._element != onnx.FLOAT else set()
        for weight in self._subgraph.weights:
            yield self._encoded.encode_weight(weight, _stored(weight.name) if weight.name in rounded else "")
        steps = [step for name in sorted(rounded) for step in _rounding(_stored(name), name, self._element)]
        made = [node for node in self._nodes if not node.reads]
        renamed = [replace(node, outputs=(_stored(node.outputs[0]),)) for node in made if node.outputs[0] in rounded]
        kept = [node for node in made if node.outputs[0] not in rounded]
        others = [node for node in self._nodes if node.reads]
        yield from map(self._encoded.encode_node, (*renamed, *kept, *steps, *others))

    def _rounded_constants(self) -> set[str]:
        kept = {name for node in self._nodes if node.op_type in _EXACT_CONSTANTS for name in node.reads}
        folded = {name for node in self._nodes if not node.name for name in node.reads}
        return set(self._constants) - kept - folded

    def fold(self) -> None:
        """Replace each convolution with a normalization behind it by one convolution with changed weights."""
        for convolution, normalization in _folded_pairs(self._subgraph, self._constants):
            position = self._nodes.index(normalization)
            self._nodes[position : position + 1] = self._fold(convolution, normalization)
            self._nodes.remove(convolution)

    def _fold(self, convolution: EncodedNode, normalization: EncodedNode) -> Sequence[EncodedNode]:
        result = normalization.outputs[0]
        gamma, beta, mean, variance = normalization.inputs[1:5]
        data, weight, *bias = convolution.inputs
        name = f"opdiff:fold:{result}:"
        column = [-1] + [1] * (len(self._constants[weight]) - 1)
        epsilon = read_attributes(self._encoded, normalization).get("epsilon", _DEFAULT_EPSILON)
        self._added.append(onnx.initializer(f"{name}epsilon", np.array(epsilon, np.float32)))
        self._added.append(onnx.initializer(f"{name}shape", np.array(column, np.int64)))
        has_bias = bool(bias and bias[0])
        steps = [
            added_node("Add", (variance, f"{name}epsilon"), f"{name}positive"),
            added_node("Sqrt", (f"{name}positive",), f"{name}deviation"),
            added_node("Div", (gamma, f"{name}deviation"), f"{name}scale"),
            added_node("Reshape", (f"{name}scale", f"{name}shape"), f"{name}column"),
            added_node("Mul", (weight, f"{name}column"), f"{name}exact"),
            added_node("Sub" if has_bias else "Neg", (bias[0], mean) if has_bias else (mean,), f"{name}shifted"),
            added_node("Mul", (f"{name}shifted", f"{name}scale"), f"{name}scaled"),
            added_node("Add", (f"{name}scaled", beta), f"{name}bias"),
        ]
        rounded = f"{name}exact"
        if self._element != onnx.FLOAT:
            rounded = f"{name}weight"
            steps += _rounding(f"{name}exact", rounded, self._element)
        inputs = (data, rounded, f"{name}bias")
        return [*steps, replace(convolution, inputs=inputs, outputs=(result,))]

    def round_results(self, floats: Collection[str]) -> None:
        """Round the results of original operators that are in `floats`."""
        nodes: list[EncodedNode] = []
        for node in self._nodes:
            renamed = {name: f"opdiff:unrounded:{name}" for name in node.outputs if name in floats and node.reads}
            nodes.append(replace(node, outputs=tuple(renamed.get(name, name) for name in node.outputs)))
            for name, unrounded in renamed.items():
                nodes += _rounding(unrounded, name, self._element)
        self._nodes = nodes


def _folded_pairs(subgraph: Subgraph, constants: Mapping[str, Shape]) -> Iterator[tuple[EncodedNode, EncodedNode]]:
    """Yield each convolution whose only reader is a normalization, with this normalization."""
    producers = {name: node for node in subgraph.nodes for name in node.outputs}
    readers = Counter(name for node in subgraph.nodes for name in node.reads)
    for node in subgraph.nodes:
        source = producers.get(node.inputs[0]) if node.op_type == "BatchNormalization" else None
        if source is None or source.op_type != "Conv":
            continue
        read = [name for item in (source, node) for name in item.inputs[1:] if name]
        is_alone = readers[node.inputs[0]] == 1 and node.inputs[0] not in subgraph.outputs and not any(node.outputs[1:])
        if is_alone and all(name in constants for name in read):
            yield source, node


def _stored(name: str) -> str:
    """Return the name of a constant before it is rounded."""
    return f"opdiff:stored:{name}"


def _rounding(source: str, result: str, element: int) -> list[EncodedNode]:
    """Return the nodes that round a float32 tensor to another float type."""
    between = f"{source}:rounded"
    return [
        added_node("Cast", (source,), between, to=element),
        added_node("Cast", (between,), result, to=onnx.FLOAT),
    ]

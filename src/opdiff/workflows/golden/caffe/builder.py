"""The ONNX graph that a Caffe net becomes: tensors with their shapes, nodes and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.workflows.golden import onnx_encoder as onnx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_encoder import Attribute

OPSET = 17


class UnsupportedLayerError(Exception):
    """A layer or parameter that has no translation."""


class Blob(Struct, frozen=True):
    """A tensor of the ONNX graph and its shape."""

    tensor: str
    shape: Shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def axis(self, number: int) -> int:
        """Return an axis counted from the front.

        Raises:
            UnsupportedLayerError: there is no such axis.
        """
        if not -self.rank <= number < self.rank:
            raise UnsupportedLayerError(f"axis {number} of {self.rank}")
        return number % self.rank


class GraphBuilder:
    """Nodes and weights so far; names are unique by a counter."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        shape: Shape,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Blob:
        """Add a node with one output of a known shape."""
        return self.add_several(op_type, inputs, [shape], attributes)[0]

    def add_several(
        self,
        op_type: str,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> list[Blob]:
        """Add a node with several outputs of known shapes."""
        blobs = [Blob(self._name(), shape) for shape in shapes]
        self._parts.append(onnx.node(op_type, inputs, [blob.tensor for blob in blobs], attributes))
        return blobs

    def constant(self, array: AnyArray) -> str:
        """Add a weight of float32 or int64; return its name."""
        name = self._name()
        self._parts.append(onnx.initializer(name, array))
        return name

    def scalar(self, value: float) -> str:
        """Add a single number."""
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """Add a list of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def reshape(self, blob: Blob, shape: Shape) -> Blob:
        """Add a change of shape."""
        return self.add("Reshape", [blob.tensor, self.integers(*shape)], shape, {"allowzero": 1})

    def model(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> bytes:
        """Return the encoded model."""
        heads = [onnx.graph_input(name, shape) for name, shape in inputs.items()]
        return onnx.model([*heads, *self._parts, *(onnx.graph_output(name) for name in outputs)], OPSET)

    def _name(self) -> str:
        self._count += 1
        return f"opdiff:{self._count}"

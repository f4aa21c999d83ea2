"""The ONNX graph that a Caffe net becomes: tensors with their shapes, nodes and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core import onnx_encoder as onnx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape

OPSET = 17


class UnsupportedLayerError(Exception):
    """A layer or parameter that has no translation."""


class InvalidLayerError(Exception):
    """Parameters with which no engine would run a layer."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


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
        self, op_type: str, x: Blob, *others: Blob | str, shape: Shape | None = None, **attributes: Attribute
    ) -> Blob:
        """Add a node with one output, by default of the shape of the first input; weights are inputs by name."""
        return self.add_several(op_type, x, *others, shapes=[x.shape if shape is None else shape], **attributes)[0]

    def add_several(
        self, op_type: str, *inputs: Blob | str, shapes: Sequence[Shape], **attributes: Attribute
    ) -> list[Blob]:
        """Add a node with several outputs of known shapes."""
        blobs = [Blob(self._name(), shape) for shape in shapes]
        names = [item if isinstance(item, str) else item.tensor for item in inputs]
        self._parts.append(onnx.node(op_type, names, [blob.tensor for blob in blobs], attributes))
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
        return self.add("Reshape", blob, self.integers(*shape), shape=shape, allowzero=1)

    def model(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> bytes:
        """Return the encoded model."""
        heads = [onnx.graph_input(name, shape) for name, shape in inputs.items()]
        return onnx.model([*heads, *self._parts, *(onnx.graph_output(name) for name in outputs)], OPSET)

    def _name(self) -> str:
        self._count += 1
        return f"opdiff:{self._count}"

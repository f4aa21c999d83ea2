"""A compiled operator with its inputs, and the ONNX graph that it becomes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from opdiff.core import onnx_encoder as onnx
from opdiff.core.dtypes import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.core.tensor import Shape

_T = TypeVar("_T")


class UnsupportedOperatorError(Exception):
    """An operator or parameter that has no translation."""


class Operand(Struct, frozen=True):
    """An input of an operator: its tensor in the graph, logical shape, element type, and its numbers on request."""

    tensor: str
    shape: Shape
    dtype: DType
    load: Callable[[], AnyArray]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_list_of_integers(self) -> bool:
        """Whether it holds one integer or a list of integers, as parameters of an operator do."""
        return self.dtype.kind is Kind.INTEGER and self.rank <= 1


class Call(Struct, frozen=True):
    """An operator to translate.

    Attributes:
        op_type: its type.
        attributes: its attributes.
        operands: its inputs in order.
        output_shapes: logical shapes of its outputs in order.
    """

    op_type: str
    attributes: Mapping[str, Any]
    operands: tuple[Operand, ...]
    output_shapes: tuple[Shape, ...]

    def operand(self, index: int) -> Operand:
        """Return an input.

        Raises:
            UnsupportedOperatorError: the operator has fewer inputs.
        """
        if index >= len(self.operands):
            raise UnsupportedOperatorError(f"input {index} is missing")
        return self.operands[index]

    def get(self, name: str, default: _T) -> _T:
        """Return an attribute of the type of its default value."""
        value = self.attributes.get(name, default)
        if isinstance(default, float) and isinstance(value, int):
            return float(value)  # type: ignore[return-value]  # the type of the default
        return value if isinstance(value, type(default)) else default

    def integers(self, name: str, operand: int | None = None) -> tuple[int, ...]:
        """Return a list of integers, which is an attribute, or an input that holds one integer or a list of them.

        Raises:
            UnsupportedOperatorError: there is neither; an input of floats, or with more axes, is data.
        """
        value = self.attributes.get(name)
        if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
            return value
        if isinstance(value, int):
            return (value,)
        if operand is not None and operand < len(self.operands) and self.operands[operand].is_list_of_integers:
            return tuple(int(item) for item in np.ravel(self.operands[operand].load()))
        raise UnsupportedOperatorError(f"{name} is not known")


class OnnxBuilder:
    """Nodes, named by the operator and their types, and constants of an ONNX graph so far."""

    def __init__(self, name: str) -> None:
        self.parts: list[bytes] = []
        self._operator = name
        self._nodes: Counter[str] = Counter()
        self._count = 0

    def add(self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None) -> str:
        """Add a node with one output; return its tensor."""
        return self.add_several(op_type, inputs, 1, attributes)[0]

    def add_several(
        self, op_type: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Attribute] | None = None
    ) -> list[str]:
        """Add a node with several outputs; return their tensors."""
        outputs = [self._name() for _ in range(count)]
        self._nodes[op_type] += 1
        number = self._nodes[op_type]
        name = f"{self._operator}/{op_type}" + (f"_{number}" if number > 1 else "")
        self.parts.append(onnx.node(op_type, inputs, outputs, attributes, name=name))
        return outputs

    def constant(self, array: AnyArray) -> str:
        """Add a weight of float32 or int64; return its tensor."""
        name = self._name()
        self.parts.append(onnx.initializer(name, array))
        return name

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        """Add a node that changes the shape of a tensor; return its tensor."""
        return self.add("Reshape", [tensor, self.integers(shape)])

    def number(self, value: float) -> str:
        """Add a single float."""
        return self.constant(np.array(value, np.float32))

    def integers(self, values: Sequence[int]) -> str:
        """Add a list of integers."""
        return self.constant(np.array(values, np.int64))

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"


if TYPE_CHECKING:
    Builder = Callable[[OnnxBuilder, Call], str | list[str]]

"""Tensors and operators of the graph engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray


TYPE_NUMBERS = {"float32": 0, "float16": 1, "int32": 3, "uint8": 4, "int64": 9, "bool": 12}
# The input that operators update in place. The runtime dumps inputs after the operator.
_UPDATED = {"InplaceIndexAdd": "var", "ScatterNdUpdate": "var", "Assign": "ref"}


@dataclass(eq=False)
class GeTensor:
    """An output of an operator."""

    op: GeOp
    index: int
    array: AnyArray
    fx: str = ""
    described: bool = True
    # Whether the values differ from those of FX.
    is_stand_in: bool = False

    @property
    def edge(self) -> str:
        return f"{self.op.name}:{self.index}"


@dataclass(eq=False)
class GeOp:
    """A GE operator; an input of `None` is optional and not connected."""

    name: str
    op_type: str
    inputs: list[tuple[str, GeTensor | None]]
    attributes: dict[str, Any]
    outputs: list[GeTensor] = field(default_factory=list)
    # FX names of the inputs when the operator was created.
    input_fx: list[str] = field(default_factory=list)

    @property
    def output_name(self) -> str:
        """The name of the output's descriptor: that of the input which is updated in place, if there is one."""
        return _UPDATED.get(self.op_type, "y")

    def dumped_inputs(self) -> Iterator[tuple[GeTensor, AnyArray, bool]]:
        """The tensors that are fed, what the dump has of them, and whether that is the result already."""
        for name, tensor in self.inputs:
            if tensor is not None:
                is_updated = name == self.output_name
                yield tensor, self.outputs[0].array if is_updated else tensor.array, is_updated

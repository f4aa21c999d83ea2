"""Where the golden side keeps a tensor of the original model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from opdiff.core.dump import DumpKind
from opdiff.core.tensor import Slot, TensorKey

if TYPE_CHECKING:
    from opdiff.core.dump import DumpedOp
    from opdiff.core.tensor import Tensor
    from opdiff.pair.names import DumpIndex
    from opdiff.pair.trace import Origin


class Found(NamedTuple):
    """A golden tensor; `why` continues the reason for which it is the one."""

    key: TensorKey
    tensor: Tensor
    why: str = ""


class GoldenSide(Protocol):
    """Finds tensors of the original model."""

    def find(self, origin: Origin) -> Found | str:
        """The tensor, or why there is none."""
        ...


class NamedGolden:
    """A golden dump whose operators have the names of the original model."""

    def __init__(self, index: DumpIndex) -> None:
        self._index = index

    def find(self, origin: Origin) -> Found | str:
        """The output of the operator of that name, or why there is none."""
        return find_output(self._index, origin.name, origin.index)


def find_output(index: DumpIndex, name: str, number: int) -> Found | str:
    """An output of a golden operator, or why there is none."""
    operator = index.find(name)
    if operator is None:
        return f"the golden side has no file of {name}{index.hint(name)}"
    tensor = operator.outputs.get(number)
    if tensor is not None:
        return Found(TensorKey(name, Slot.OUTPUT, number), tensor)
    return missing_output(operator, name, number, index.dump.kind)


def missing_output(operator: DumpedOp, name: str, number: int, kind: DumpKind) -> str:
    """Why a golden operator that is there does not have an output."""
    if operator.problem:
        return f"the golden file of {name} cannot be read: {operator.problem}"
    there = ", ".join(map(str, sorted(operator.outputs))) or "none"
    what = "file" if kind is DumpKind.ARRAYS else "tensor"
    return f"the golden side has no {what} for output {number} of {name}; it has {there}"

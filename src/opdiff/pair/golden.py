"""Golden tensors by the tensor of the original model that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opdiff.core.dump import DumpKind
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey

if TYPE_CHECKING:
    from opdiff.core.dump import DumpedOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.trace import OriginalTensor


class Found(Struct, frozen=True):
    """A golden tensor; `evidence` leads from the original to the golden tensor; empty if the names are equal."""

    key: TensorKey
    tensor: Tensor
    evidence: tuple[Reason, ...] = ()


class GoldenSide(Protocol):
    """Golden dump in which tensors of the original model can be looked up."""

    def find(self, origin: OriginalTensor) -> Found | Reason:
        """Return the golden tensor, or the reason why there is none."""
        ...


class NamedGolden:
    """A golden dump whose operators have the names of the original model."""

    def __init__(self, index: DumpIndex) -> None:
        self._index = index

    def find(self, origin: OriginalTensor) -> Found | Reason:
        """Return the output of the operator of this name, or the reason why there is no such output."""
        return find_output(self._index, origin.name, origin.index)


def find_output(index: DumpIndex, name: str, number: int) -> Found | Reason:
    """Return an output of a golden operator, or the reason why there is none."""
    operator = index.find(name)
    if operator is None:
        return index.with_hint(because("pair.no_file", side="golden", name=name), name)
    tensor = operator.outputs.get(number)
    if tensor is not None:
        return Found(TensorKey(name, Slot.OUTPUT, number), tensor)
    return _missing_output(operator, name, number, index.dump.kind)


def _missing_output(operator: DumpedOp, name: str, number: int, kind: DumpKind) -> Reason:
    if operator.problem:
        return because("pair.file_unreadable", side="golden", name=name, problem=operator.problem)
    code = "pair.no_golden_output_file" if kind is DumpKind.ARRAYS else "pair.no_golden_output"
    return because(code, index=number, name=name, available=tuple(sorted(operator.outputs)))

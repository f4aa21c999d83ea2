"""One side of a comparison as it is read: operators and their tensors, described and not loaded."""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor, TensorKey
    from opdiff.core.tensor_stats import TensorStats


class Unit(NamedTuple):
    """One token of one graph of one rank; `None` where there are no ranks, or only one graph."""

    rank: int | None
    token: int
    graph: int | None

    def __str__(self) -> str:
        parts = (("rank", self.rank), ("token", self.token), ("graph", self.graph))
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)


class DumpKind(StrEnum):
    """Who wrote a dump: an NPU, or the original model's framework (one file for each tensor)."""

    NPU = "npu"
    ARRAYS = "npy"


class SkippedPath(NamedTuple):
    """A file or folder that was not read, and why."""

    path: str
    reason: Reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DumpedOp(NamedTuple):
    """One operator of a dump, described and not loaded.

    Attributes:
        name: its name as file names carry it.
        op_type: its type, where file names tell it.
        timestamp: of its newest file.
        path: its newest file.
        inputs: its inputs by index; arrays have none.
        outputs: its outputs by index; not every index need be there.
        problem: why its file, or one of its files, cannot be read; what that held is missing.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: Mapping[int, Tensor] = {}
    outputs: Mapping[int, Tensor] = {}
    problem: Reason | None = None

    def tensors(self, slot: Slot) -> Mapping[int, Tensor]:
        """The inputs or the outputs."""
        return self.inputs if slot is Slot.INPUT else self.outputs


class Dump(NamedTuple):
    """One side of a comparison: the operators of one folder by the names that their files carry, oldest first.

    `skipped` has the files of the folder that were not taken for dumps, and why.
    """

    path: str
    kind: DumpKind
    quantized: bool
    operators: Mapping[str, DumpedOp]
    skipped: tuple[SkippedPath, ...] = ()


class SideTensor(NamedTuple):
    """One tensor of one side: its data, statistics only, or the problem that leaves neither.

    Attributes:
        key: the operator, and which of its tensors. Elements of an FX argument that is a list share the key.
        path: the file.
        location: which tensor of the file, as `,outputs,0`; empty where the file holds one tensor.
        tensor: the data, described.
        stats: the statistics, where there is no data.
        problem: why there is neither.
    """

    key: TensorKey
    path: str
    location: str = ""
    tensor: Tensor | None = None
    stats: TensorStats | None = None
    problem: Reason | None = None

    @property
    def data(self) -> Tensor:
        """The data.

        Raises:
            ValueError: there is none.
        """
        if self.tensor is None:
            raise ValueError(f"{self.key} has no data")
        return self.tensor

    @property
    def count(self) -> int | None:  # type: ignore[override]  # hides tuple.count
        """Elements without padding; `None` if unknown."""
        if self.tensor is not None:
            return prod(self.tensor.spec.origin_shape or self.tensor.spec.shape)
        shape = self.stats.shape if self.stats else None
        return None if shape is None else prod(shape)

    @property
    def nbytes(self) -> int:
        """Bytes of data to be read."""
        return self.tensor.source.nbytes if self.tensor is not None else 0


def side_tensor(key: TensorKey, tensor: Tensor) -> SideTensor:
    """Return a tensor of a side whose file holds it whole."""
    return SideTensor(key, tensor.source.path, tensor=tensor)


class GraphKind(StrEnum):
    """Who wrote a dump: the graph engine, one file for each operator, or FX, one file for each tensor."""

    GE = "GE"
    FX = "FX"


class GraphOp(NamedTuple):
    """One operator of a token, described and not loaded.

    Attributes:
        name: as file names carry it; of FX operators node and target.
        op_type: its type; of FX operators the target.
        timestamp: when it was dumped.
        path: its file, or the first of its files.
        inputs: in order.
        outputs: in order.
        full_name: the name that the file itself records, else empty.
        problem: why the file cannot be read; there are no tensors then.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: tuple[SideTensor, ...] = ()
    outputs: tuple[SideTensor, ...] = ()
    full_name: str = ""
    problem: Reason | None = None

    def find_output(self, index: int) -> SideTensor | None:
        """The output of this number, if it was dumped."""
        return next((tensor for tensor in self.outputs if tensor.key.index == index), None)


class TokenDump(NamedTuple):
    """What one side dumped for one token of one graph: operators by name, and files that stand back for others."""

    kind: GraphKind
    operators: Mapping[str, GraphOp]
    duplicates: tuple[tuple[GraphOp, Reason], ...] = ()
    skipped: tuple[SkippedPath, ...] = ()

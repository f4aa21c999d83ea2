"""One side of a comparison: descriptions of operators and their tensors, without data."""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.metrics import TensorStats
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, StatedTensor, Tensor, TensorKey


class Unit(Struct, frozen=True):
    """One token of one graph of one rank; `rank` and `graph` are `None` if there are no ranks or only one graph."""

    rank: int | None
    token: int
    graph: int | None

    def __str__(self) -> str:
        parts = (("rank", self.rank), ("token", self.token), ("graph", self.graph))
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key: tokens before ranks before graphs."""
        return self.token, self.rank or 0, self.graph or 0


class DumpKind(StrEnum):
    """Kinds of dumps: of an NPU, or arrays of the original model's framework with a file for each tensor."""

    NPU = "npu"
    ARRAYS = "npy"


class SkippedPath(Struct, frozen=True):
    """A file or folder that was not read, and the reason.

    Attributes:
        path: the file or folder.
        reason: why it was not read.
        is_hash: whether its name is a number that no `mapping.csv` has.
    """

    path: str
    reason: Reason
    is_hash: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DumpedOp(Struct, frozen=True):
    """Description of one operator of a dump.

    Attributes:
        name: its name in file names.
        op_type: its type; empty if file names do not have it.
        timestamp: timestamp of its newest file.
        path: its newest file.
        inputs: its inputs by index; none for arrays.
        outputs: its outputs by index; indices may be missing.
        problem: why one of its files cannot be read; its tensors are then missing.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: Mapping[int, Tensor] = {}
    outputs: Mapping[int, Tensor] = {}
    problem: Reason | None = None

    def tensors(self, slot: Slot) -> Mapping[int, Tensor]:
        """Return the inputs or the outputs."""
        return self.inputs if slot is Slot.INPUT else self.outputs


class Dump(Struct, frozen=True):
    """One side of a comparison: the operators of one folder by their names in file names, oldest first.

    `skipped` are the files of the folder that were not read, `unused` those of other executions of its operators.
    """

    path: str
    kind: DumpKind
    quantized: bool
    operators: Mapping[str, DumpedOp]
    skipped: tuple[SkippedPath, ...] = ()
    unused: tuple[SkippedPath, ...] = ()


class SideTensor(Struct, frozen=True, gc=False):
    """One tensor of one side: its data, or statistics only, or the problem due to which it has neither.

    Attributes:
        key: the operator and its tensor. Elements of a list argument in FX share the key.
        path: the file.
        location: the tensor in the file, as `,outputs,0`; empty if the file has one tensor.
        tensor: description of the data.
        stats: the statistics, if there is no data.
        problem: why there is neither.
        stated: what the rule file states about it; `None` if nothing.
    """

    key: TensorKey
    path: str
    location: str = ""
    tensor: Tensor | None = None
    stats: TensorStats | None = None
    problem: Reason | None = None
    stated: StatedTensor | None = None

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
    def count(self) -> int | None:
        """Elements without padding; `None` if unknown."""
        if self.tensor is not None:
            return prod(self.tensor.spec.origin_shape or self.tensor.spec.shape)
        shape = self.stats.shape if self.stats else None
        return None if shape is None else prod(shape)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return self.tensor.source.nbytes if self.tensor is not None else 0

    @property
    def shape(self) -> Shape | None:
        """The stored shape, with the padding of its layout; `None` if unknown."""
        if self.tensor is not None:
            return self.tensor.spec.shape
        return self.stats.shape if self.stats else None

    @property
    def dtype(self) -> str:
        """Name of the element type, as `bfloat16`; empty if unknown."""
        if self.tensor is not None:
            return self.tensor.spec.dtype.name
        return self.stats.dtype if self.stats else ""

    @property
    def layout(self) -> str:
        """Name of the stored layout, as `NC1HWC0`; empty without data."""
        return self.tensor.spec.layout if self.tensor is not None else ""

    @property
    def doubts(self) -> tuple[Reason, ...]:
        """Contradictions in the file: the numbers may not be those of the tensor."""
        return self.tensor.doubts if self.tensor is not None else ()

    def numpy(self) -> AnyArray:
        """Read the numbers in the stored shape. The array is read-only where it is a part of the file.

        Raises:
            InputError: the tensor has no data.
            DumpError, ElementError: the file cannot be read, or the element type has no numbers.
        """
        return self._readable().array()

    def to(self, layout: str) -> AnyArray:
        """Read the numbers in another layout, as `NCHW`; `ND` is the axis order of the original model.

        Raises:
            InputError: the tensor has no data.
            LayoutError: there is no such conversion.
            DumpError, ElementError: as `numpy`.
        """
        from opdiff.align import convert
        from opdiff.core import codes as elements

        tensor = self._readable()
        return elements.decode(convert(tensor.codes(), tensor.spec, layout).codes, tensor.spec.dtype)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:  # noqa: FBT001  the protocol of NumPy
        import numpy as np

        # NumPy 1 does not know `None` as a copy mode.
        return np.asarray(self.numpy(), dtype) if copy is None else np.array(self.numpy(), dtype, copy=copy)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else str(self.shape)
        words = (str(self.key), self.dtype, shape, self.layout, "" if self.tensor else "no data")
        return f"<Tensor {printable(' '.join(filter(None, words)))}>"

    def _readable(self) -> Tensor:
        if self.tensor is None:
            raise InputError(self.path, self.problem or because("core.statistics_only", tensor=str(self.key)))
        return self.tensor


def side_tensor(key: TensorKey, tensor: Tensor, stated: StatedTensor | None = None) -> SideTensor:
    """Return a tensor that is named by its file alone."""
    return SideTensor(key, tensor.source.path, tensor=tensor, stated=stated)


class GraphKind(StrEnum):
    """Writers of dumps: the graph engine (a file for each operator), or FX (a file for each tensor)."""

    GE = "GE"
    FX = "FX"


class GraphOp(Struct, frozen=True, gc=False):
    """Description of one operator of a token, or of a dump that `opdiff.open` reads.

    Attributes:
        name: its name in file names; node and target of FX operators.
        op_type: its type; the target of FX operators.
        timestamp: its dump time.
        path: its file, or the first of its files.
        inputs: its inputs in order.
        outputs: its outputs in order.
        full_name: the name recorded in the file; empty if there is none.
        problem: why the file cannot be read; the operator then has no tensors.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: tuple[SideTensor, ...] = ()
    outputs: tuple[SideTensor, ...] = ()
    full_name: str = ""
    problem: Reason | None = None

    def __repr__(self) -> str:
        counts = f"inputs: {len(self.inputs)}, outputs: {len(self.outputs)}"
        return f"<Operator {printable(self.name)} ({printable(self.op_type) or 'unknown type'}), {counts}>"

    def find_output(self, index: int) -> SideTensor | None:
        """Return the output of this index; `None` if it was not dumped."""
        return next((tensor for tensor in self.outputs if tensor.key.index == index), None)


class TokenDump(Struct, frozen=True):
    """Dump of one token of one graph on one side: operators by name, duplicates of them, and skipped files."""

    kind: GraphKind
    operators: Mapping[str, GraphOp]
    duplicates: tuple[tuple[GraphOp, Reason], ...] = ()
    skipped: tuple[SkippedPath, ...] = ()

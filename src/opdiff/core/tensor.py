"""The values that travel through opdiff: small, frozen, picklable. They describe; only `Tensor.array` loads."""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.source import FileRange, Source

Shape = tuple[int, ...]

# Characters of an operator's name that writers of dump files replace.
_REPLACED_IN_FILE_NAMES = str.maketrans("/\\. ", "____")


def file_safe_name(name: str) -> str:
    """Return an operator's name as a file name carries it."""
    return name if name.isidentifier() else name.translate(_REPLACED_IN_FILE_NAMES)


class Slot(StrEnum):
    """On which side of an operator a tensor is."""

    INPUT = "input"
    OUTPUT = "output"


class Container(StrEnum):
    """How a file is built."""

    STANDARD = "standard"
    PROTOBUF = "protobuf"
    NANO = "nano"
    NPY = "npy"
    NPZ = "npz"


class TensorKey(NamedTuple):
    """Which tensor of which operator; prints `conv1:output:0`."""

    op: str
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index

    def __str__(self) -> str:
        return f"{self.op}:{self.slot}:{self.index}"


class TensorSpec(NamedTuple):
    """What a stored tensor is.

    Attributes:
        dtype: the type of its elements.
        shape: the stored shape, tiles and padding included.
        layout: the name of the storage layout.
        origin_shape: the shape before the device layout was applied; empty when not recorded.
        groups: the group count of a grouped convolution's weights, 1 otherwise.
        address: the device address, when one is recorded.
    """

    dtype: DType
    shape: Shape
    layout: str
    origin_shape: Shape = ()
    groups: int = 1
    address: int | None = None

    @property
    def count(self) -> int:  # type: ignore[override]  # hides tuple.count
        """Stored elements, padding included."""
        return prod(self.shape)


class Declared(NamedTuple):
    """Properties of a pair that rule files declare; empty where they do not.

    Attributes:
        layout: the layout of the golden array.
        origin_shape: the shape of the tensor in the original model.
    """

    layout: str = ""
    origin_shape: Shape = ()


NOTHING_DECLARED = Declared()


class Tensor(NamedTuple):
    """A tensor in a file.

    Attributes:
        spec: what it is.
        source: where its bytes are.
        name: a name of its own, where the file records one.
        notes: what a reader had to take for granted about it.
    """

    spec: TensorSpec
    source: Source
    name: str = ""
    notes: tuple[Reason, ...] = ()

    def codes(self) -> AnyArray:
        """The stored codes in the stored shape, read-only. This reads the file."""
        return self.source.codes(self.spec.dtype, self.spec.shape)

    def array(self) -> AnyArray:
        """The numbers in the stored shape. This reads the file."""
        from opdiff.core import codes as elements

        return elements.decode(self.codes(), self.spec.dtype)


class Blob(NamedTuple):
    """Bytes of a dump that are not a tensor: an L1 buffer (kind 0), or a workspace with a log (kind 0)."""

    kind: int
    source: FileRange


class OpDump(NamedTuple):
    """Everything one operator left in its file, described and not loaded.

    Attributes:
        path: the file.
        container: name of the format, a `Container` for built-in ones.
        op_name: the operator's full name where the file records it, else empty.
        version: the version the writer put down, else empty.
        dump_time: microseconds since the epoch, when recorded.
        attr: the JSON text with which a sliced (FFTS+) dump describes its slices, else empty.
    """

    path: str
    container: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    buffers: tuple[Blob, ...] = ()
    spaces: tuple[Blob, ...] = ()
    op_name: str = ""
    version: str = ""
    dump_time: int | None = None
    attr: str = ""

    def tensors(self, slot: Slot) -> tuple[Tensor, ...]:
        """The inputs or the outputs."""
        return self.inputs if slot is Slot.INPUT else self.outputs

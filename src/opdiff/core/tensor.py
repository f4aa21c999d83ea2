"""Descriptions of tensors and dumped operators; only `Tensor.codes` and `Tensor.array` read data.

Also the layouts by their numbers in dump headers.
"""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.source import FileRange, Source

Shape = tuple[int, ...]

# In the order of their numbers in dump headers; `align` implements them.
_LAYOUTS = (
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW", "FRACTAL_DECONV", "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE", "FRACTAL_DECONV_SP_STRIDE_TRANS", "NC1HWC0_C04", "FRACTAL_Z_C04", "CHWN",
    "DECONV_SP_STRIDE8_TRANS", "HWCN", "NC1KHKWHWC0", "BN_WEIGHT", "FILTER_HWCK", "LOOKUP_LOOKUPS", "LOOKUP_KEYS",
    "LOOKUP_VALUE", "LOOKUP_OUTPUT", "LOOKUP_HITS", "C1HWNCoC0", "MD", "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW",
    "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "CN", "NC", "DHWNC", "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G", "RESERVED", "ALL", "NULL", "ND_RNN_BIAS", "FRACTAL_ZN_RNN", "YUV", "YUV_A", "NCL",
    "FRACTAL_Z_WINO", "C1HWC0",
)  # fmt: skip

LAYOUT_NAMES: dict[int, str] = dict(enumerate(_LAYOUTS)) | {255: "MAX"}
LAYOUT_NUMBERS: dict[str, int] = {name: number for number, name in LAYOUT_NAMES.items()}

# Characters that writers of dump files replace in operator names.
_REPLACED_IN_FILE_NAMES = str.maketrans("/\\. ", "____")


def file_safe_name(name: str) -> str:
    """Return an operator's name as it is written in file names."""
    return name if name.isidentifier() else name.translate(_REPLACED_IN_FILE_NAMES)


def _layout_name(number: int) -> str:
    """Return the name of a layout; `FORMAT_` and the number if it is unknown."""
    return LAYOUT_NAMES.get(number) or f"FORMAT_{number}"


def parse_format_word(word: int) -> tuple[str, int]:
    """Return layout name (bits 0 to 7) and group count (bits 8 to 23) of a format word."""
    if 0 <= word <= 0xFF:
        return _layout_name(word), 1
    return _layout_name(word & 0xFF), max(word >> 8 & 0xFFFF, 1)


def coordinates(index: int, shape: Shape) -> Shape:
    """Return the coordinates of an element with this row-major index; the index if it is outside of the shape."""
    if not 0 <= index < prod(shape):
        return (index,)
    position = []
    for extent in reversed(shape):
        index, coordinate = divmod(index, extent)
        position.append(coordinate)
    return tuple(reversed(position))


class Slot(StrEnum):
    """Input or output of an operator."""

    INPUT = "input"
    OUTPUT = "output"


class Container(StrEnum):
    """Formats of dump files."""

    STANDARD = "standard"
    PROTOBUF = "protobuf"
    NANO = "nano"
    NPY = "npy"
    NPZ = "npz"


class TensorKey(Struct, frozen=True, gc=False):
    """Operator, slot and index of a tensor; prints `conv1:output:0`."""

    op: str
    slot: Slot
    index: int

    def __str__(self) -> str:
        return f"{self.op}:{self.slot}:{self.index}"

    @property
    def in_file_form(self) -> TensorKey:
        """The same with the operator's name as it is written in file names."""
        return TensorKey(file_safe_name(self.op), self.slot, self.index)


class TensorSpec(Struct, frozen=True, gc=False):
    """Element type, shape and layout of a stored tensor.

    Attributes:
        dtype: element type.
        shape: stored shape, including tiles and padding.
        layout: name of the storage layout.
        origin_shape: shape before the device layout was applied; empty if not recorded.
        groups: group count of a grouped convolution's weights, otherwise 1.
        address: device address, if recorded.
    """

    dtype: DType
    shape: Shape
    layout: str
    origin_shape: Shape = ()
    groups: int = 1
    address: int | None = None

    @property
    def count(self) -> int:
        """Number of stored elements, including padding."""
        return prod(self.shape)


class Declared(Struct, frozen=True, gc=False):
    """Properties of a pair that a rule file declares; empty if it does not.

    Attributes:
        layout: layout of the golden array.
        origin_shape: shape of the tensor in the original model.
        may_skip_positions: whether the compiler moved strides to earlier operators, so that tensors between have only
            every n-th row and column.
    """

    layout: str = ""
    origin_shape: Shape = ()
    may_skip_positions: bool = False


NOTHING_DECLARED = Declared()


class StatedTensor(Struct, frozen=True, gc=False):
    """What a rule file states about a dumped tensor; empty where it states nothing.

    Attributes:
        dtype: element type, as `DT_FLOAT16`.
        layout: layout of the stored tensor.
        shape: stored shape; unknown extents are negative.
        origin_shape: shape before the device layout was applied.
    """

    dtype: str = ""
    layout: str = ""
    shape: Shape = ()
    origin_shape: Shape = ()


class Tensor(Struct, frozen=True, gc=False):
    """A tensor in a file.

    Attributes:
        spec: element type, shape and layout.
        source: location of the data.
        name: name recorded in the file; empty if there is none.
        notes: assumptions of the reader.
        doubts: contradictions in the file; the numbers may not be those of the tensor.
    """

    spec: TensorSpec
    source: Source
    name: str = ""
    notes: tuple[Reason, ...] = ()
    doubts: tuple[Reason, ...] = ()

    def codes(self) -> AnyArray:
        """Read the stored codes in the stored shape; the array is read-only."""
        return self.source.codes(self.spec.dtype, self.spec.shape)

    def array(self) -> AnyArray:
        """Read the numbers in the stored shape."""
        from opdiff.core import codes as elements

        return elements.decode(self.codes(), self.spec.dtype)


class Blob(Struct, frozen=True):
    """Data of a dump that is not a tensor: an L1 buffer or a workspace with a log; `kind` is 0 for both."""

    kind: int
    source: FileRange


class OpDump(Struct, frozen=True, gc=False):
    """Description of the operator in a dump file.

    Attributes:
        path: the file.
        container: name of the format, a `Container` for built-in ones.
        op_name: full name of the operator; empty if not recorded.
        version: format version; empty if not recorded.
        dump_time: microseconds since the epoch, if recorded.
        attr: JSON description of the slices in a sliced (FFTS+) dump, otherwise empty.
        anomalies: contents that indicate damage, or a newer version of the format.
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
    anomalies: tuple[Reason, ...] = ()

    def tensors(self, slot: Slot) -> tuple[Tensor, ...]:
        """Return the inputs or the outputs."""
        return self.inputs if slot is Slot.INPUT else self.outputs

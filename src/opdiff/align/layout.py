"""What a layout is, and the small values that go in and come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import is_strided_view

if TYPE_CHECKING:
    from typing import Self

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape


class Tile(NamedTuple):
    """The sizes by which the channels (or columns) and the batch (or rows) are cut when data is packed."""

    c0: int = 16
    n0: int = 16

    @classmethod
    def of(cls, dtype: DType) -> Self:
        """The sizes that are usual for an element type: 32 channels of one byte or less, else 16."""
        return cls(c0=32 if 0 < dtype.bits <= 8 else 16)


class Extents(NamedTuple):
    """The logical shape of a stored tensor, and the assumption that was needed to find it, if any."""

    shape: Shape
    assumed: Reason | None = None


class Aligned(NamedTuple):
    """Codes in the requested layout, often a strided view, and every conversion step."""

    codes: AnyArray
    layout: str
    steps: tuple[Reason, ...] = ()


class Layout(Protocol):
    """A way to store a tensor; stateless, so that one instance serves all tensors.

    The logical array has one axis for each letter of `axes`, in this order. Without letters it has the rank and the
    order of the origin shape. `groups` is 1 unless the tensor holds the weights of a grouped convolution.
    """

    @property
    def name(self) -> str:
        """The name in dumps and on the command line."""

    @property
    def axes(self) -> str:
        """The letters of the logical axes; empty: any rank, the order as it is."""

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """The logical shape, worked out of the stored shape and the origin shape, whose order nobody recorded.

        Without an origin shape (it is empty) padding is kept. `prefer` are the letters of the target layout: where
        several orders of the origin shape fit, that one is taken, and the result says so.

        Raises:
            LayoutError: the shapes contradict each other, or leave several answers.
        """

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """The logical array of that shape, without padding; `stored` is never changed.

        Raises:
            LayoutError: `stored` is not how an array of this shape is stored.
        """

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """The stored array, padding 0; the inverse of `unpack`.

        Raises:
            LayoutError: the layout cannot hold the array.
        """


def ceil_div(extent: int, size: int) -> int:
    """How many tiles of `size` hold `extent` elements."""
    return -(-extent // size)


def pad_to(array: AnyArray, shape: Shape) -> AnyArray:
    """The array in the first corner of zeros of that shape; itself when nothing is missing."""
    import numpy as np

    if array.shape == shape:
        return array
    result = np.zeros(shape, array.dtype)
    result[tuple(slice(extent) for extent in array.shape)] = array
    return result


def to_row_major(array: AnyArray) -> AnyArray:
    """In row-major order, so that axes can be joined; places need not be moved for that."""
    if is_strided_view(array):
        return array
    from opdiff.core.codes import contiguous

    return contiguous(array)


def reshape_codes(array: AnyArray, shape: Shape, layout: str) -> AnyArray:
    """`array.reshape`, with an error that names the layout: empty arrays may have absurd shapes."""
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        problem = because("align.cannot_reshape", count=array.size, shape=array.shape, wanted=shape)
        raise LayoutError(layout, problem) from error


def shape_mismatch(layout: str, stored: Shape, shape: Shape) -> LayoutError:
    """The error for two shapes that contradict each other."""
    return LayoutError(layout, because("align.misfit", stored=stored, shape=shape))

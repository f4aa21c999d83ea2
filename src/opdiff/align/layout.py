"""Interface of layouts, its values, and functions that the layouts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import is_strided_view

if TYPE_CHECKING:
    from typing import Self

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape


class Tile(Struct, frozen=True):
    """Tile extents for packing: `c0` channels (or columns) and `n0` batches (or rows)."""

    c0: int = 16
    n0: int = 16

    @classmethod
    def of(cls, dtype: DType) -> Self:
        """Return the usual extents for an element type: 32 channels of at most one byte, otherwise 16."""
        return cls(c0=32 if 0 < dtype.bits <= 8 else 16)


class Extents(Struct, frozen=True):
    """Logical shape of a stored tensor, and the assumption on which it rests, if any."""

    shape: Shape
    assumed: Reason | None = None


class Aligned(Struct, frozen=True):
    """Codes in the requested layout, often a strided view, and the conversion steps."""

    codes: AnyArray
    layout: str
    steps: tuple[Reason, ...] = ()


class Layout(Protocol):
    """A storage layout; stateless, so that one instance serves all tensors.

    The logical array has one axis for each label in `axes`, in this order. Without labels it has the rank and the axis
    order of the origin shape. `groups` is 1 except for weights of grouped convolutions.
    """

    @property
    def name(self) -> str:
        """The name in dumps and on the command line."""

    @property
    def axes(self) -> str:
        """Labels of the logical axes, one character each; empty for any rank and order."""

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        """Derive the logical shape from the stored shape and the origin shape, whose axis order is not recorded.

        With an empty origin shape padding is kept. `prefer` are the axis labels of the target layout: if several axis
        orders of the origin shape fit, this one is used, and the result records the assumption.

        Raises:
            LayoutError: the shapes contradict each other or are ambiguous.
        """

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        """Return the logical array of this shape, without padding; `stored` is not changed.

        Raises:
            LayoutError: the stored shape does not belong to this shape.
        """

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        """Return the stored array, padded with 0; the inverse of `unpack`.

        Raises:
            LayoutError: the layout cannot store the array.
        """


def ceil_div(extent: int, size: int) -> int:
    """Return the number of tiles of `size` for `extent` elements."""
    return -(-extent // size)


def without_ones(shape: Shape) -> Shape:
    """Return the shape without axes of extent 1."""
    return tuple(extent for extent in shape if extent != 1)


def pad_to(array: AnyArray, shape: Shape) -> AnyArray:
    """Return the array padded with zeros at the end of each axis."""
    import numpy as np

    if array.shape == shape:
        return array
    result = np.zeros(shape, array.dtype)
    result[tuple(slice(extent) for extent in array.shape)] = array
    return result


def to_row_major(array: AnyArray) -> AnyArray:
    """Return the array in row-major order, so that axes can be merged; views without data stay as they are."""
    if is_strided_view(array):
        return array
    from opdiff.core.codes import contiguous

    return contiguous(array)


def reshape_codes(array: AnyArray, shape: Shape, layout: str) -> AnyArray:
    """Reshape with an error that names the layout; empty arrays of damaged files may have impossible shapes."""
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        problem = because("align.cannot_reshape", count=array.size, shape=array.shape, wanted=shape)
        raise LayoutError(layout, problem) from error


def shape_mismatch(layout: str, stored: Shape, shape: Shape) -> LayoutError:
    """Return the error for contradicting shapes."""
    return LayoutError(layout, because("align.misfit", stored=stored, shape=shape))

"""The elements of tensors in one order, block by block or one by one, without moving a tensor as a whole.

    Tensor ──strides──► align ──axes──► ElementReader ──block, take──► codes

A layout is undone by looking up where each element is stored. Where strides cannot tell that (groups on a diagonal, a
conversion of the user's, compressed files), the tensor is loaded and moved once, and read in its new order.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

from opdiff.align.pairs import align_pair
from opdiff.align.strided import align_strided
from opdiff.core.source import FileRange, codes_from_bytes
from opdiff.core.tensor import NOTHING_DECLARED

if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.strides import SplitAxis
    from opdiff.core.tensor import Declared, Shape, Tensor

    Index = npt.NDArray[np.intp]


# Elements at the end of a tensor whose places are worked out together.
_ROW = 1 << 14


class StoredCodes(NamedTuple):
    """The stored codes of a tensor, flat; `mapping` is the file behind them where it is mapped."""

    codes: AnyArray
    swapped: bool = False
    mapping: mmap.mmap | None = None

    def release(self) -> None:
        """Give the pages that were read back to the system; they can be read again."""
        if self.mapping is not None:
            import mmap

            self.mapping.madvise(mmap.MADV_DONTNEED)


class ElementReader(NamedTuple):
    """The elements of one tensor in row-major order of a logical shape.

    Attributes:
        stored: where they are taken from.
        dtype: their type.
        shape: the logical shape.
        axes: extent, split, outer, inner: index i of an axis is i // split * outer + i % split * inner elements from
            its start. Empty when the elements are stored in the order in which they are read.
    """

    stored: StoredCodes
    dtype: DType
    shape: Shape
    axes: tuple[SplitAxis, ...] = ()

    @property
    def count(self) -> int:  # type: ignore[override]  # hides tuple.count
        """How many elements there are."""
        return prod(self.shape)

    def block(self, start: int, stop: int) -> AnyArray:
        """The codes from one element to before another, flat."""
        stop = min(stop, self.count)
        if not self.axes:
            return self._in_order(self.stored.codes[start:stop])
        return self._in_order(self.stored.codes[self._range(start, stop)])

    def take(self, elements: Index) -> AnyArray:
        """The codes of these elements, by their numbers in row-major order."""
        return self._in_order(self.stored.codes[self.offsets(elements)])

    def offsets(self, elements: Index) -> Index:
        """Where these elements are among the stored codes."""
        if not self.axes:
            return elements
        return self.places(_coordinates(elements, self.shape))

    def places(self, coordinates: Sequence[Index]) -> Index:
        """Where the elements at these coordinates, one array for each axis, are among the stored codes."""
        import numpy as np

        if not self.axes:
            return (
                np.asarray(np.ravel_multi_index(tuple(coordinates), self.shape))
                if coordinates
                else np.zeros(1, np.intp)
            )
        return _added(self.axes, coordinates)

    def _range(self, start: int, stop: int) -> Index:
        """Where elements that follow each other are: rows of the last axes look alike and are worked out once."""
        import numpy as np

        first, row = len(self.shape), 1
        while first and row * self.shape[first - 1] <= _ROW:
            first -= 1
            row *= self.shape[first]
        rows = np.arange(start // row, -(-stop // row))
        outer = _added(self.axes[:first], _coordinates(rows, self.shape[:first]))
        inner = _added(self.axes[first:], _coordinates(np.arange(row), self.shape[first:]))
        skipped = start // row * row
        return (outer[:, None] + inner).reshape(-1)[start - skipped : stop - skipped]

    def _in_order(self, codes: AnyArray) -> AnyArray:
        return codes.byteswap() if self.stored.swapped else codes


def _coordinates(elements: Index, shape: Shape) -> list[Index]:
    """The coordinates of elements that are given by their numbers; of a scalar, one that is always 0."""
    import numpy as np

    return [np.asarray(index) for index in np.unravel_index(elements, shape)] if shape else [np.zeros_like(elements)]


def _added(axes: tuple[SplitAxis, ...], coordinates: Sequence[Index]) -> Index:
    """What the steps along the axes add up to."""
    import numpy as np

    total = np.zeros(coordinates[0].shape, np.intp)
    for (extent, split, outer, inner), index in zip(axes, coordinates, strict=False):
        if extent > 1:
            total += index * outer if split == 1 else index // split * outer + index % split * inner
    return total


class PairReader(NamedTuple):
    """Two tensors with equally many elements: element k of one belongs to element k of the other.

    `shape` is the shape in which they are compared, `steps` what was done, `warning` what is doubtful about that,
    `layout` the order of the axes, where it has one.
    """

    target: ElementReader
    golden: ElementReader
    shape: Shape
    steps: tuple[Reason, ...]
    warning: Reason | None = None
    layout: str = ""

    def release(self) -> None:
        """See `StoredCodes`."""
        self.target.stored.release()
        self.golden.stored.release()


def open_pair(
    target: Tensor, golden: Tensor, declared: Declared = NOTHING_DECLARED, custom: Conversions | None = None
) -> PairReader:
    """Return walks over two tensors that were brought to one layout.

    Raises:
        DumpError, ElementError: one of them cannot be read.
        LayoutError: they cannot be brought to one shape.
    """
    dtypes = target.spec.dtype, golden.spec.dtype
    strided = align_strided(target, golden, declared) if custom is None else None
    if strided is None:
        pair = align_pair(target, golden, declared, custom)
        readers = array_reader(pair.target, dtypes[0]), array_reader(pair.golden, dtypes[1])
    else:
        pair = strided.pair
        readers = (
            ElementReader(open_stored_codes(target), dtypes[0], pair.target.shape, strided.target_axes),
            ElementReader(open_stored_codes(golden), dtypes[1], pair.golden.shape, strided.golden_axes),
        )
    return PairReader(*readers, pair.shape, pair.steps, pair.warning, pair.layout)


def open_tensor(tensor: Tensor) -> ElementReader:
    """A tensor as it is stored, tiles, padding and all."""
    if not isinstance(tensor.source, FileRange) or tensor.source.fortran_order:
        return array_reader(tensor.codes(), tensor.spec.dtype)
    return ElementReader(open_stored_codes(tensor), tensor.spec.dtype, tensor.spec.shape)


def array_reader(codes: AnyArray, dtype: DType) -> ElementReader:
    """An array that is in memory."""
    from opdiff.core.codes import contiguous

    return ElementReader(StoredCodes(contiguous(codes).reshape(-1)), dtype, codes.shape)


def open_stored_codes(tensor: Tensor) -> StoredCodes:
    """The codes of a tensor that lies in a file in one piece, in the order of the file.

    Raises:
        DumpError, ElementError: it cannot be read.
    """
    source = cast("FileRange", tensor.source)
    raw = source.raw()
    plain = source._replace(big_endian=False, fortran_order=False)
    codes = codes_from_bytes(raw, plain, tensor.spec.dtype, tensor.spec.shape).reshape(-1)
    mapped = isinstance(raw, memoryview) and tensor.spec.dtype.bits >= 8
    return StoredCodes(codes, source.big_endian, cast("mmap.mmap", cast("memoryview", raw).obj) if mapped else None)

"""Elements of tensors in logical order, by block or by index, without converting whole tensors.

    Tensor ──strides──► align ──axes──► ElementReader ──block, take──► codes

Stored offsets are computed from strides. Where strides do not suffice (grouped weights, user scripts, compressed
files), the tensor is loaded and converted once.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from opdiff.align.conversion import convert
from opdiff.align.pairs import align_pair, align_strided, strides_in_nd
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


# Maximum number of elements of the last axes whose offsets are computed once and reused.
_MAX_ROW_ELEMENTS = 1 << 14


class StoredCodes(Struct, frozen=True):
    """Flat stored codes of a tensor; `mapping` is the memory map, if the file is mapped."""

    codes: AnyArray
    swapped: bool = False
    mapping: mmap.mmap | None = None

    def release(self) -> None:
        """Release the pages read so far; they are read again on access."""
        if self.mapping is not None:
            import mmap

            self.mapping.madvise(mmap.MADV_DONTNEED)


class ElementReader(Struct, frozen=True):
    """Elements of one tensor in row-major order of a logical shape.

    Attributes:
        stored: the stored codes.
        dtype: element type.
        shape: logical shape.
        axes: strides; empty if the elements are stored in this order.
    """

    stored: StoredCodes
    dtype: DType
    shape: Shape
    axes: tuple[SplitAxis, ...] = ()

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def block(self, start: int, stop: int) -> AnyArray:
        """Return the codes of elements `start` to `stop` - 1."""
        stop = min(stop, self.count)
        if not self.axes:
            return self._in_order(self.stored.codes[start:stop])
        return self._in_order(self.stored.codes[self._range(start, stop)])

    def take(self, elements: Index) -> AnyArray:
        """Return the codes of elements by their row-major indices."""
        return self._in_order(self.stored.codes[self.offsets(elements)])

    def offsets(self, elements: Index) -> Index:
        """Return the stored offsets of elements by their row-major indices."""
        return _sum_strides(self.axes, _coordinates(elements, self.shape)) if self.axes else elements

    def offsets_at(self, coordinates: Sequence[Index]) -> Index:
        """Return the stored offsets of elements by their coordinates, one array for each axis."""
        import numpy as np

        if self.axes:
            return _sum_strides(self.axes, coordinates)
        return np.asarray(np.ravel_multi_index(tuple(coordinates), self.shape)) if coordinates else np.zeros(1, np.intp)

    def _range(self, start: int, stop: int) -> Index:
        """Return the stored offsets of consecutive elements; those of a row are computed once."""
        import numpy as np

        first, row = len(self.shape), 1
        while first and row * self.shape[first - 1] <= _MAX_ROW_ELEMENTS:
            first -= 1
            row *= self.shape[first]
        rows = np.arange(start // row, -(-stop // row))
        outer = _sum_strides(self.axes[:first], _coordinates(rows, self.shape[:first]))
        inner = _sum_strides(self.axes[first:], _coordinates(np.arange(row), self.shape[first:]))
        skipped = start // row * row
        return (outer[:, None] + inner).reshape(-1)[start - skipped : stop - skipped]

    def _in_order(self, codes: AnyArray) -> AnyArray:
        return codes.byteswap() if self.stored.swapped else codes


def _coordinates(elements: Index, shape: Shape) -> list[Index]:
    """Return coordinates for row-major indices; one coordinate of 0 for scalars."""
    import numpy as np

    return [np.asarray(index) for index in np.unravel_index(elements, shape)] if shape else [np.zeros_like(elements)]


def _sum_strides(axes: tuple[SplitAxis, ...], coordinates: Sequence[Index]) -> Index:
    """Return the sum of the offsets along all axes."""
    import numpy as np

    total = np.zeros(coordinates[0].shape, np.intp)
    for (extent, split, outer, inner), index in zip(axes, coordinates, strict=False):
        if extent > 1:
            total += index * outer if split == 1 else index // split * outer + index % split * inner
    return total


class PairReader(Struct, frozen=True):
    """Readers of two aligned tensors; the other attributes are those of `AlignedPair`."""

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
    """Align two tensors and return readers of them.

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
    """Return a reader of a tensor in its stored shape, including padding."""
    if not isinstance(tensor.source, FileRange) or tensor.source.fortran_order:
        return array_reader(tensor.codes(), tensor.spec.dtype)
    return ElementReader(open_stored_codes(tensor), tensor.spec.dtype, tensor.spec.shape)


def open_logical(tensor: Tensor) -> ElementReader:
    """Return a reader of a tensor in logical order, without padding.

    Raises:
        DumpError, ElementError: it cannot be read.
        LayoutError: its layout does not tell the logical order.
    """
    converted = strides_in_nd(tensor)
    if converted is None:
        return array_reader(convert(tensor.codes(), tensor.spec, "ND").codes, tensor.spec.dtype)
    return ElementReader(open_stored_codes(tensor), tensor.spec.dtype, *converted)


def array_reader(codes: AnyArray, dtype: DType) -> ElementReader:
    """Return a reader of an array in memory."""
    from opdiff.core.codes import contiguous

    return ElementReader(StoredCodes(contiguous(codes).reshape(-1)), dtype, codes.shape)


def open_stored_codes(tensor: Tensor) -> StoredCodes:
    """Open the stored codes of a tensor in one file range.

    Raises:
        DumpError, ElementError: it cannot be read.
    """
    import mmap

    source = cast("FileRange", tensor.source)
    raw = source.raw()
    plain = replace(source, big_endian=False, fortran_order=False)
    codes = codes_from_bytes(raw, plain, tensor.spec.dtype, tensor.spec.shape).reshape(-1)
    mapping = raw.obj if isinstance(raw, memoryview) and isinstance(raw.obj, mmap.mmap) else None
    return StoredCodes(codes, source.big_endian, mapping if tensor.spec.dtype.bits >= 8 else None)

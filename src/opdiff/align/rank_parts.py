"""Sources of tensors that several ranks hold together: a part of a whole tensor, and the sum of partial ones."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.align import convert
from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.source import FileRange
from opdiff.core.tensor import Tensor, TensorSpec

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

    Span = tuple[int, int]


class TensorPart(Struct, frozen=True):
    """Some indices along one axis of a tensor in a plain layout; `spans` are first and last index, exclusive."""

    whole: Tensor
    axis: int
    spans: tuple[Span, ...]

    @property
    def path(self) -> str:
        """The file of the whole tensor."""
        return self.whole.source.path

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the whole tensor."""
        return self.whole.source.paths

    @property
    def nbytes(self) -> int:
        """Size of the part in bytes."""
        shape = part_shape(self.whole.spec.shape, self.axis, self.spans)
        return self.whole.spec.dtype.nbytes(prod(shape))

    def codes(self, dtype: DType, shape: Shape) -> AnyArray:
        """Read the stored codes; see `Source`."""
        import numpy as np

        whole = self.whole.source.codes(dtype, self.whole.spec.shape)
        before = (slice(None),) * self.axis
        found = np.concatenate([whole[(*before, slice(*span))] for span in self.spans], axis=self.axis)
        if found.shape != shape:
            raise DumpError(self.path, because("core.joined_shape", joined=found.shape, shape=shape))
        found.flags.writeable = False
        return found


class AddedTensors(Struct, frozen=True):
    """The sum of tensors of the same logical shape, in float32, or in float64 if they are."""

    parts: tuple[Tensor, ...]

    @property
    def path(self) -> str:
        """The file of the first tensor."""
        return self.parts[0].source.path

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of all tensors."""
        return tuple(path for part in self.parts for path in part.source.paths)

    @property
    def nbytes(self) -> int:
        """Size of all tensors in bytes."""
        return sum(part.source.nbytes for part in self.parts)

    def codes(self, dtype: DType, shape: Shape) -> AnyArray:
        """Read and add the numbers; see `Source`."""
        import numpy as np

        from opdiff.core import codes as elements

        total: AnyArray = np.zeros(shape)
        for part in self.parts:
            logical = convert(part.codes(), part.spec, "ND").codes
            if logical.shape != shape:
                raise DumpError(part.source.path, because("core.joined_shape", joined=logical.shape, shape=shape))
            with np.errstate(all="ignore"):
                total += elements.decode(logical, part.spec.dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            found: AnyArray = total.astype(dtype.decoded)
        found.flags.writeable = False
        return found


def part_of(whole: Tensor, axis: int, spans: tuple[Span, ...]) -> Tensor:
    """Return a part of a tensor; it is a byte range of the same file if it is contiguous there."""
    spec = replace(whole.spec, shape=part_shape(whole.spec.shape, axis, spans), origin_shape=())
    source = _contiguous(whole, axis, spans) or TensorPart(whole, axis, spans)
    return replace(whole, spec=spec, source=source)


def part_shape(shape: Shape, axis: int, spans: tuple[Span, ...]) -> Shape:
    """Return the shape of a part."""
    return (*shape[:axis], sum(stop - start for start, stop in spans), *shape[axis + 1 :])


def _contiguous(whole: Tensor, axis: int, spans: tuple[Span, ...]) -> FileRange | None:
    source, dtype, shape = whole.source, whole.spec.dtype, whole.spec.shape
    if not isinstance(source, FileRange) or source.fortran_order or dtype.bits < 8:
        return None
    if len(spans) > 1 or prod(shape[:axis]) != 1:
        return None
    row = dtype.nbytes(prod(shape[axis + 1 :]))
    (start, stop) = spans[0]
    if source.nbytes < row * shape[axis]:
        return None
    return replace(source, offset=source.offset + start * row, nbytes=(stop - start) * row)


def added(parts: tuple[Tensor, ...], dtype: DType, shape: Shape) -> Tensor:
    """Return the sum of tensors."""
    doubts = tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))
    return Tensor(TensorSpec(dtype, shape, "ND"), AddedTensors(parts), parts[0].name, doubts=doubts)

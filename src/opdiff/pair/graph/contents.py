"""Contents of tensors: numbers at sampled positions, to tell whether two files hold the same tensor.

Positions are flat, row-major and logical. Small tensors are taken whole; of large tensors only samples are read, so
that the cost does not grow with the tensor. Tensors known by their extremes alone are compared by the extremes.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dtypes import BY_NAME, Kind
from opdiff.core.errors import DumpError, ElementError
from opdiff.core.source import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape, Tensor

    PositionMap = Callable[[AnyArray], AnyArray]
    # Element type and number of elements.
    Class = tuple[str, int]

MAX_WHOLE = 4096
"""Tensors of up to so many elements are compared whole."""

SAMPLES = 1024
_EXTREMES = "extremes"
# Contents of up to this size are no longer than what is kept of them otherwise, and keys by themselves.
_MAX_PLAIN_NBYTES = 64
_DIGEST_NBYTES = 16
# A relative difference that no rounding makes, and the share of elements that must have this difference.
_CLEAR, _MANY = 0.1, 0.1
# Element types that FX writes in a wider type.
_WRITTEN_AS = {"bfloat16": "float32"}


class Key(Struct, frozen=True, gc=False):
    """Key of a tensor's elements in order, without its shape; equal for files of the same tensor.

    `content` is a digest of the elements, or the elements themselves if they are few.
    """

    dtype: str
    elements: int
    content: bytes

    @property
    def is_whole(self) -> bool:
        """Whether equal keys prove equal content."""
        return self.dtype != _EXTREMES and self.elements <= MAX_WHOLE

    @property
    def size(self) -> Class:
        """Class of the tensors that may have the key."""
        return self.dtype, self.elements


class Stored(Struct, frozen=True, gc=False):
    """A tensor that may be read: its data, or only its extremes, or neither."""

    tensor: Tensor | None = None
    extremes: tuple[float | int, float | int] | None = None

    @property
    def shape(self) -> Shape | None:
        """The logical shape, where it is known."""
        if self.tensor is None:
            return None
        return self.tensor.spec.origin_shape or self.tensor.spec.shape

    @property
    def dtype(self) -> str:
        """Name of the element type; empty if not known."""
        return self.tensor.spec.dtype.name if self.tensor is not None else ""

    @property
    def elements(self) -> int | None:
        """Number of elements without padding, where it is known."""
        shape = self.shape
        return None if shape is None else prod(shape)


def class_of(stored: Stored) -> Class:
    """Return element type and number of elements; only tensors of one class may have equal keys."""
    if stored.tensor is None or stored.elements is None:
        return _EXTREMES, 0
    return _WRITTEN_AS.get(stored.dtype, stored.dtype), stored.elements


def key_of(stored: Stored) -> Key | None:
    """Return the key of a tensor; `None` if it cannot be read."""
    elements = stored.elements
    whole = None
    if stored.tensor is not None and elements is not None and elements <= MAX_WHOLE:
        whole = _plain_bytes(stored.tensor, elements)
    if whole is None or elements is None:
        return moved_key(stored, elements, None)
    return _key(stored.dtype, elements, whole)


def _plain_bytes(tensor: Tensor, elements: int) -> bytes | None:
    """Return the bytes of a tensor that are kept in memory, if they are its elements in order."""
    spec, source = tensor.spec, tensor.source
    if not isinstance(source, FileRange):
        return None
    kept = source.kept
    if kept is None or not spec.dtype.is_native:
        return None
    has_order = not source.fortran_order or len(spec.shape) < 2
    if source.big_endian or not has_order or (spec.origin_shape and spec.count != elements):
        return None
    needed = spec.dtype.nbytes(elements)
    return kept[:needed] if needed <= source.nbytes else None


def moved_key(stored: Stored, elements: int | None, source: PositionMap | None, dtype: str = "") -> Key | None:
    """Return the key of a tensor whose elements are moved, and converted to another type.

    Args:
        stored: the tensor that is moved.
        elements: number of elements after the movement.
        source: the position in the tensor of each position after the movement; `None` for the same order.
        dtype: the element type after the movement; empty for the same. Numbers are rounded to this type.
    """
    if stored.extremes is not None:
        return Key(_EXTREMES, 0, repr(tuple(float(number) for number in stored.extremes)).encode())
    if stored.tensor is None or elements is None:
        return None
    found = sample(stored, _positions(elements) if source is None else source(_positions(elements)))
    if found is None:
        return None
    wanted = dtype or stored.dtype
    converted = _converted(found, stored.dtype, wanted)
    if converted is None:
        return None
    return _key(wanted, elements, converted.tobytes())


def _key(dtype: str, elements: int, content: bytes) -> Key:
    if len(content) > _MAX_PLAIN_NBYTES:
        content = blake2b(content, digest_size=_DIGEST_NBYTES).digest()
    return Key(_WRITTEN_AS.get(dtype, dtype), elements, content)


def whole_digest(stored: Stored) -> bytes | None:
    """Return a digest of all elements; this reads the whole tensor."""
    import numpy as np

    if stored.tensor is None:
        return None
    try:
        codes = np.ascontiguousarray(stored.tensor.codes())
    except (DumpError, ElementError):
        return None
    return blake2b(codes.data if codes.size else b"", digest_size=_DIGEST_NBYTES).digest()


def same_numbers(first: Stored, second: Stored) -> bool:
    """Return whether two tensors of possibly different element types are equal at the sampled positions."""
    import numpy as np

    if first.extremes is not None or second.extremes is not None:
        return first.extremes is not None and first.extremes == second.extremes
    elements = first.elements
    if elements is None or elements != second.elements:
        return False
    samples = [_numbers(stored, _positions(elements)) for stored in (first, second)]
    if samples[0] is None or samples[1] is None:
        return False
    return bool(np.array_equal(samples[0], samples[1], equal_nan=samples[0].dtype.kind in "fc"))


def is_uniform(stored: Stored) -> bool:
    """Return whether all sampled elements of a tensor are the same number."""
    codes = None if stored.elements is None else sample(stored, _positions(stored.elements))
    return codes is not None and bool((codes == codes[:1]).all())


def are_different(before: Stored, after: Stored, source: PositionMap, dtype: str) -> bool:
    """Return whether a tensor is clearly not another one, moved and converted; small errors do not count."""
    import numpy as np

    elements = after.elements
    if elements is None or before.elements is None:
        return False
    moved, found = sample(before, source(_positions(elements))), _numbers(after, _positions(elements))
    rounded = None if moved is None else _converted(moved, before.dtype, dtype or before.dtype)
    if rounded is None or found is None or rounded.dtype.kind == "c":
        return False
    expected = rounded.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.abs(expected - found) > _CLEAR * np.maximum(np.abs(expected), np.abs(found))
    return bool(off.size and off.mean() > _MANY)


def sample(stored: Stored, positions: AnyArray) -> AnyArray | None:
    """Return the stored codes at flat positions; `None` if the codes cannot be read in this order."""
    import numpy as np

    tensor = stored.tensor
    if tensor is None or tensor.spec.count != stored.elements:
        return None
    try:
        codes = tensor.codes()
    except (DumpError, ElementError):
        return None
    if codes.flags.c_contiguous:
        return codes.reshape(-1)[positions]
    return codes[np.unravel_index(positions, codes.shape)]


def _numbers(stored: Stored, positions: AnyArray) -> AnyArray | None:
    codes = sample(stored, positions)
    return None if codes is None else _converted(codes, stored.dtype, "float64")


def _converted(codes: AnyArray, dtype: str, wanted: str) -> AnyArray | None:
    import numpy as np

    from opdiff.core.codes import decode, encode

    if wanted == dtype:
        return codes
    if dtype not in BY_NAME or wanted not in BY_NAME:
        return None
    try:
        with np.errstate(all="ignore"):
            numbers = decode(codes, BY_NAME[dtype])
            if BY_NAME[wanted].is_native or BY_NAME[wanted].kind is Kind.BOOL:
                return numbers.astype(BY_NAME[wanted].decoded)
            return decode(encode(numbers, BY_NAME[wanted]), BY_NAME[wanted])
    except (ElementError, TypeError, ValueError):
        return None


# A network has few different sizes.
@lru_cache(maxsize=256)
def _positions(elements: int) -> AnyArray:
    """All positions of a small tensor; the same random positions of every large tensor of one size; read-only."""
    import numpy as np

    if elements <= MAX_WHOLE:
        found = np.arange(elements)
    else:
        found = np.sort(np.random.default_rng(elements).integers(0, elements, SAMPLES))
    found.flags.writeable = False
    return found

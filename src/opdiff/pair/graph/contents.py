"""Contents of tensors: numbers at sampled positions, to tell whether two files hold the same tensor.

Positions are flat, row-major and logical. Small tensors are taken whole; of large tensors only samples are read, so
that the cost does not grow with the tensor. Tensors known by their extremes alone are compared by the extremes.

FX writes the inputs and outputs of every node, so one tensor is in many files: as the output of its node, as input of
each reader, and, in another shape, of views. Files with the same numbers in the same order are one value here.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opdiff.core.dtypes import BY_NAME, Kind
from opdiff.core.errors import DumpError, ElementError
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape, Tensor

    PositionMap = Callable[[AnyArray], AnyArray]

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


class FxFile(NamedTuple):
    """One file of an FX dump.

    Attributes:
        node: FX node and target.
        slot: input or output.
        index: number of the argument or result.
        element: position in an argument that is a list, 0 otherwise.
        stored: its data.
    """

    node: str
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    element: int
    stored: Stored


class FxValue:
    """One tensor of the golden run; files in the order in which they were written."""

    def __init__(self, files: list[FxFile]) -> None:
        self.files = files

    @cached_property
    def can_be_graph_input(self) -> bool:
        """Whether a graph input may have the value: it was read before any node returned it, or has no identity.

        A bias of zeros has the content of every other tensor of zeros.
        """
        return self.files[0].slot is Slot.INPUT or is_uniform(self.stored)

    @property
    def stored(self) -> Stored:
        """The data."""
        return self.files[0].stored

    @cached_property
    def _shapes(self) -> set[Shape | None]:
        return {file.stored.shape for file in self.files}

    def has_shape(self, shape: Shape | None) -> bool:
        """Return whether a file of the value has this shape; unknown extents are negative, unknown shapes fit."""
        return shape is None or shape in self._shapes or any(_fits(known, shape) for known in self._shapes)

    def outputs(self) -> Iterator[FxFile]:
        """Files that are results of nodes."""
        return (file for file in self.files if file.slot is Slot.OUTPUT)


class FxValues:
    """The values of one token, by file and by content."""

    def __init__(self, files: Iterable[FxFile]) -> None:
        """Group files, nodes in the order of execution and inputs before outputs."""
        self._by_file: dict[tuple[str, Slot, int, int], tuple[FxValue, FxFile]] = {}
        self._by_key: dict[Key, list[FxValue]] = defaultdict(list)
        self._arguments: dict[str, list[FxFile]] = defaultdict(list)
        groups: dict[Key, list[FxFile]] = defaultdict(list)
        for file in files:
            if file.slot is Slot.INPUT:
                self._arguments[file.node].append(file)
            key = key_of(file.stored)
            if key is None:
                self._add([file], None)
            else:
                groups[key].append(file)
        for key, members in groups.items():
            for same in _separated(key, members):
                self._add(same, key)

    def of_file(self, file: FxFile) -> FxValue:
        """Return the value that a file holds."""
        return self._by_file[file[:4]][0]

    def find_output(self, node: str, index: int) -> tuple[FxValue, FxFile] | None:
        """Return a result of a node, and its file; `None` if the result was not dumped."""
        return self._by_file.get((node, Slot.OUTPUT, index, 0))

    def find(self, key: Key | None) -> list[FxValue]:
        """Return the values with this content; several if samples do not tell them apart."""
        return self._by_key.get(key, []) if key is not None else []

    def arguments(self, node: str) -> list[FxFile]:
        """Return the arguments of a node that were written."""
        return self._arguments.get(node, [])

    def _add(self, files: list[FxFile], key: Key | None) -> None:
        value = FxValue(files)
        for file in files:
            self._by_file[file[:4]] = value, file
        if key is not None:
            self._by_key[key].append(value)


def _separated(key: Key, files: list[FxFile]) -> Iterable[list[FxFile]]:
    """Files of one key, by their whole content where samples may hide a difference.

    A node that updates a few elements of a large tensor has an input and an output with the same samples.
    """
    if key.is_whole:
        return [files]
    nodes = {slot: {file.node for file in files if file.slot is slot} for slot in Slot}
    if not nodes[Slot.INPUT] & nodes[Slot.OUTPUT]:
        return [files]
    groups: dict[bytes | None, list[FxFile]] = defaultdict(list)
    for file in files:
        groups[whole_digest(file.stored)].append(file)
    return groups.values()


def _fits(shape: Shape | None, wanted: Shape) -> bool:
    if shape is None:
        return True
    same = (new < 0 or old == new for old, new in zip(shape, wanted, strict=False))
    return len(shape) == len(wanted) and all(same)

"""Agreement of a dump file with itself: the data of a tensor covers its stored shape, and nothing else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.reasons import because
from opdiff.core.source import MAX_RANK
from opdiff.core.tensor import Container, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import OpDump, Tensor

# Buffers of the device are padded to multiples of 32 bytes, of which the graph engine allocates up to two more, or to
# multiples of 512 bytes. Files of arrays are not padded.
_ALIGNMENT = 32
_MAX_GUARD_NBYTES = 64
_PAGE_ALIGNMENT = 512
_DEVICE_CONTAINERS = frozenset({Container.STANDARD, Container.PROTOBUF, Container.NANO})


def with_doubts(operator: OpDump) -> OpDump:
    """Return the operator with a doubt on each tensor whose data has bytes that its shape and type do not explain.

    Data that is too short is not doubtful: it cannot be read at all.
    """
    tensors = (*operator.inputs, *operator.outputs)
    if not any(map(_surplus, tensors)):
        return operator
    may_be_padded = operator.container in _DEVICE_CONTAINERS
    inputs, outputs = (
        tuple([_checked(tensor, may_be_padded=may_be_padded) for tensor in operator.tensors(slot)]) for slot in Slot
    )
    return replace(operator, inputs=inputs, outputs=outputs)


def joined_doubts(parts: Iterable[Tensor]) -> tuple[Reason, ...]:
    """Return the doubts about the parts of a tensor, each once."""
    return tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))


def _surplus(tensor: Tensor) -> int:
    """Return the bytes that no element needs; 0 if elements have no fixed size or the data is too short."""
    spec = tensor.spec
    if not spec.dtype.bits or len(spec.shape) > MAX_RANK:
        return 0
    return max(tensor.source.nbytes - spec.dtype.nbytes(spec.count), 0)


def _checked(tensor: Tensor, *, may_be_padded: bool) -> Tensor:
    surplus, nbytes = _surplus(tensor), tensor.source.nbytes
    is_aligned = nbytes % _ALIGNMENT == 0 and surplus < _ALIGNMENT + _MAX_GUARD_NBYTES
    is_page = nbytes % _PAGE_ALIGNMENT == 0 and surplus < _PAGE_ALIGNMENT
    if not surplus or (may_be_padded and (is_aligned or is_page)):
        return tensor
    spec = tensor.spec
    sizes = {"needed": nbytes - surplus, "nbytes": nbytes}
    doubt = because("read.unused_bytes", shape=spec.shape, dtype=spec.dtype.name, **sizes)
    return replace(tensor, doubts=(*tensor.doubts, doubt))

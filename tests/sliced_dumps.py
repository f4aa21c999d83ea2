"""Encoder of FFTS+ slices: one file for each, from the dump of the whole operator."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from opdiff.core import codes as elements
from opdiff.core.dtypes import DType
from opdiff.core.errors import LayoutError
from opdiff.sample.container import EncodedDump, EncodedTensor, standard_dump
from opdiff.sample.names import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.tensor import Shape
    from opdiff.sample.names import DumpName

# Task type of sliced operators.
_FFTS_PLUS = 4

Bounds = tuple[tuple[int, int], ...]
"""Start and stop of a slice along each axis."""


@dataclass(frozen=True, slots=True)
class SliceFile:
    """Name and bytes of one file."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Cuts:
    """Division of an operator: for each output the number of parts along each axis of its stored shape.

    As in real files, an axis with 1 part is not divided, and an output is divided along at most one axis.
    """

    outputs: tuple[Shape, ...]

    @property
    def threads(self) -> int:
        """Number of slices."""
        return max((parts for output in self.outputs for parts in output), default=1)


def automatic_slices(name: DumpName, dump: EncodedDump, cuts: Cuts, *, context_id: int = 0) -> tuple[SliceFile, ...]:
    """Return the files of automatic mode: each header has the full shape, each payload only its slice.

    Threads do not end in order: timestamps decrease.
    """
    files = []
    for thread in range(cuts.threads):
        parts = zip(dump.outputs, _slice_outputs(dump, cuts, thread), strict=True)
        outputs = tuple(replace(part, shape=whole.shape) for whole, part in parts)
        stamped = replace(name, timestamp=name.timestamp - thread)
        files.append(_file(automatic_slice(stamped, context_id, thread), dump, outputs, _automatic_attr(dump, cuts)))
    return tuple(files)


def manual_slices(name: DumpName, dump: EncodedDump, cuts: Cuts, *, context_id: int = 0) -> tuple[SliceFile, ...]:
    """Return the files of manual mode: each header has the shape of its slice."""
    files = []
    for number in range(cuts.threads):
        stamped = replace(name, timestamp=name.timestamp + number)
        outputs = _slice_outputs(dump, cuts, number)
        files.append(_file(manual_slice(stamped, context_id, number), dump, outputs, _attr(cuts, automatic=False)))
    return tuple(files)


def _file(name: DumpName, dump: EncodedDump, outputs: tuple[EncodedTensor, ...], attr: dict[str, object]) -> SliceFile:
    part = replace(dump, outputs=outputs, attr=json.dumps(attr), dump_time=name.timestamp)
    return SliceFile(str(name), standard_dump(part))


def _slice_outputs(dump: EncodedDump, cuts: Cuts, thread: int) -> tuple[EncodedTensor, ...]:
    pairs = zip(dump.outputs, cuts.outputs, strict=True)
    return tuple(_slice(tensor, _bounds(_shape(tensor), parts, thread)) for tensor, parts in pairs)


def _bounds(shape: Shape, parts: Shape, thread: int) -> Bounds:
    """Return the bounds of slice `thread`; the first slices are longer by one if the parts are not equal."""
    bounds = []
    for extent, count in zip(shape, parts, strict=True):
        part = min(thread, count - 1)
        size, more = divmod(extent, count)
        low = part * size + min(part, more)
        bounds.append((low, low + size + (part < more)))
    return tuple(bounds)


def _slice(tensor: EncodedTensor, bounds: Bounds) -> EncodedTensor:
    dtype, shape = tensor.dtype, _shape(tensor)
    if not isinstance(dtype, DType):
        raise LayoutError(str(tensor.layout), f"elements of type {dtype} cannot be cut in slices")
    codes = elements.unpack(tensor.payload, dtype, prod(shape)).reshape(shape)
    part = codes[tuple(slice(low, high) for low, high in bounds)]
    return replace(tensor, shape=part.shape, payload=elements.pack(part, dtype))


def _shape(tensor: EncodedTensor) -> Shape:
    return tensor.shape or ()


def _attr(cuts: Cuts, *, automatic: bool) -> dict[str, object]:
    return {"threadMode": int(automatic), "slice_instance_num": cuts.threads, "outputCutList": cuts.outputs}


def _automatic_attr(dump: EncodedDump, cuts: Cuts) -> dict[str, object]:
    threads = range(cuts.threads)
    whole = [_ranges((0, extent) for extent in _shape(tensor)) for tensor in dump.inputs]
    outputs = tuple(zip(dump.outputs, cuts.outputs, strict=True))
    lists = {
        "input_tensor_slice": [whole for _ in threads],
        "output_tensor_slice": [
            [_ranges(_bounds(_shape(tensor), parts, thread)) for tensor, parts in outputs] for thread in threads
        ],
    }
    return _attr(cuts, automatic=True) | lists


def _ranges(bounds: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"lower": low, "higher": high} for low, high in bounds]


def automatic_slice(name: DumpName, context_id: int, thread_id: int, device_id: int = 0) -> DumpName:
    """Return the file name of a slice made by the scheduler."""
    return replace(name, task=Task(_FFTS_PLUS, context_id, thread_id, device_id))


def manual_slice(name: DumpName, context_id: int, number: int, device_id: int = 0) -> DumpName:
    """Return the file name of a slice made by the compiler, whose number is part of the operator name."""
    part = replace(name, op_name=f"{name.op_name}_lxslice{number}")
    return replace(part, task=Task(_FFTS_PLUS, context_id, 0, device_id))

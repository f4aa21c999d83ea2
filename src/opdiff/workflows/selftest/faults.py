"""Faults that can be injected into a tensor, functions from its values to wrong values; and their injection."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.align.element_reader import open_pair, open_stored_codes
from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.dump import side_tensor
from opdiff.core.source import FileRange
from opdiff.read import read_operator
from opdiff.read.directory import real_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.pairing import Pairing
    from opdiff.core.tensor import Tensor

_SCALE = 1.25
_QUANTIZATION_STEPS = 255
_ZERO_POINT_STEPS = 8
_ELEMENTS_PER_OVERFLOW = 100


class FaultTarget(Struct, frozen=True):
    """A tensor that gets a fault.

    Attributes:
        values: its values in the logical shape, as float64.
        dtype: its element type.
        channel_axis: the axis of its channels.
        other: values of another tensor of as many elements, if there is one.
        random: source of random choices.
    """

    values: AnyArray
    dtype: DType
    channel_axis: int
    other: AnyArray | None
    random: np.random.Generator

    @property
    def root_mean_square(self) -> float:
        """Root mean square of the values."""
        return float(np.sqrt(np.mean(np.square(self.values))))


class Fault(Struct, frozen=True):
    """A fault.

    Attributes:
        name: identifier on the command line.
        description: effect of the fault.
        right_name: the correct diagnosis.
        corrupt: returns the wrong values, or `None` if the tensor cannot have this fault.
    """

    name: str
    description: str
    right_name: str
    corrupt: Callable[[FaultTarget], AnyArray | None]


def _shift(target: FaultTarget) -> AnyArray | None:
    step = target.root_mean_square / 2
    return target.values + (step if target.dtype.kind is Kind.FLOAT else max(round(step), 1))


def _shift_zero_point(target: FaultTarget) -> AnyArray | None:
    if target.dtype.kind is not Kind.FLOAT:
        return target.values + _ZERO_POINT_STEPS
    return target.values + _ZERO_POINT_STEPS * float(np.ptp(target.values)) / _QUANTIZATION_STEPS


def _swap_longest_axes(target: FaultTarget) -> AnyArray | None:
    values = target.values
    axes = [axis for axis, extent in enumerate(values.shape) if extent > 1]
    if len(axes) < 2:
        return None
    longest = sorted(axes, key=lambda axis: -values.shape[axis])[:2]
    return values.swapaxes(*longest).reshape(values.shape)


def _corrupt_channel(target: FaultTarget) -> AnyArray | None:
    values, axis = target.values, target.channel_axis
    extent = values.shape[axis] if values.ndim else 1
    if extent < 2:
        return None
    result = values.copy()
    selection = [slice(None)] * values.ndim
    channel = int(target.random.integers(extent))
    selection[axis] = slice(channel, channel + 1)
    # Noise, which no offset explains, and enough of it to be significant among many channels.
    deviation = target.root_mean_square * max(2.0, 0.3 * float(np.sqrt(extent)))
    result[tuple(selection)] += target.random.normal(0, deviation, result[tuple(selection)].shape)
    return result


def _overflow(target: FaultTarget) -> AnyArray | None:
    if target.dtype.kind is not Kind.FLOAT or target.dtype.bits < 16:
        return None
    result = target.values.copy()
    overflowed = target.random.permutation(result.size)[: max(result.size // _ELEMENTS_PER_OVERFLOW, 1)]
    result.reshape(-1)[overflowed] = np.inf
    return result


def _other_tensor(target: FaultTarget) -> AnyArray | None:
    return None if target.other is None else target.other.reshape(target.values.shape)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("scale", "all values are multiplied by 1.25", "scale", lambda target: target.values * _SCALE),
        Fault("offset", "half of the root mean square is added to all values", "offset", _shift),
        Fault("zero-point", "all values are shifted by 8 steps of an 8-bit quantization", "offset", _shift_zero_point),
        Fault("permuted", "the two longest axes are swapped", "order", _swap_longest_axes),
        Fault("channel", "one channel is noise", "channel", _corrupt_channel),
        Fault("overflow", "1 % of the values are infinite", "overflow", _overflow),
        Fault("zero", "all values are zero", "zero", lambda target: np.zeros_like(target.values)),
        Fault("other-tensor", "the values are those of another tensor", "other tensor", _other_tensor),
    )
}


# Injection into a copy of a dump file: only the bytes of one tensor change


def is_injectable(pairing: Pairing) -> bool:
    """Return whether the target is stored uncompressed in a file."""
    return isinstance(pairing.target.data.source, FileRange)


def logical_values(pairing: Pairing) -> AnyArray:
    """Return the values of the target in the shape in which they are compared, as float64."""
    pair = open_pair(*pairing.operands)
    codes = pair.target.block(0, pair.target.count)
    return elements.decode(codes, pair.target.dtype).astype(np.float64).reshape(pair.golden.shape)


def inject(pairing: Pairing, values: AnyArray, folder: str) -> Pairing | None:
    """Return the pairing with a copy of the target's file in which the tensor has these values.

    Returns `None` if the values cannot be stored in place, as in tensors that are rearranged to be compared.

    Raises:
        DumpError, ElementError, LayoutError: the tensor cannot be read, or cannot hold the values.
    """
    target = pairing.target.data
    source = cast("FileRange", target.source)
    reader = open_pair(*pairing.operands).target
    codes = elements.encode(_clip_to_range(values, reader.dtype), reader.dtype).reshape(-1)
    stored = open_stored_codes(target)
    stored_codes = stored.codes.copy()
    all_elements = np.arange(reader.count)
    stored_codes[reader.offsets(all_elements)] = codes.byteswap() if stored.swapped else codes
    copy = os.path.join(folder, os.path.basename(source.path))
    shutil.copyfile(source.path, copy)
    with open(copy, "r+b") as file:
        file.seek(source.offset)
        file.write(elements.pack(stored_codes, reader.dtype))
    injected = replace(pairing, target=side_tensor(pairing.key, _read_copy(copy, target)))
    written = open_pair(*injected.operands).target.take(all_elements)
    return injected if np.array_equal(_bits(written), _bits(codes)) else None


def _read_copy(copy: str, tensor: Tensor) -> Tensor:
    """Return the tensor as described in the copy."""
    source = cast("FileRange", tensor.source)
    operator = read_operator(copy, real_name(source.path), sliced=False)
    moved = replace(source, path=copy)
    for found in (*operator.inputs, *operator.outputs):
        if found.source == moved and found.spec == tensor.spec:
            return found
    return replace(tensor, source=moved)


def _bits(codes: AnyArray) -> AnyArray:
    """Return the bytes of codes, so that NaN equals itself."""
    return np.ascontiguousarray(codes).view(np.uint8)


def _clip_to_range(values: AnyArray, dtype: DType) -> AnyArray:
    """Round and clip values to the range of an integer type, as on the device."""
    if dtype.kind is not Kind.INTEGER:
        return values
    info = np.iinfo(dtype.decoded)
    low = -(1 << (dtype.bits - 1)) if info.min else 0
    return np.clip(np.rint(values), low, low + (1 << dtype.bits) - 1)

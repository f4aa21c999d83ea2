"""Faults that can be injected into a tensor: functions from its values to wrong values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.dtypes import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

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


def _scale(target: FaultTarget) -> AnyArray | None:
    return target.values * _SCALE


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


def _zero(target: FaultTarget) -> AnyArray | None:
    return np.zeros_like(target.values)


def _other_tensor(target: FaultTarget) -> AnyArray | None:
    return None if target.other is None else target.other.reshape(target.values.shape)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("scale", "all values are multiplied by 1.25", "scale", _scale),
        Fault("offset", "half of the root mean square is added to all values", "offset", _shift),
        Fault("zero-point", "all values are shifted by 8 steps of an 8-bit quantization", "offset", _shift_zero_point),
        Fault("permuted", "the two longest axes are swapped", "order", _swap_longest_axes),
        Fault("channel", "one channel is noise", "channel", _corrupt_channel),
        Fault("overflow", "1 % of the values are infinite", "overflow", _overflow),
        Fault("zero", "all values are zero", "zero", _zero),
        Fault("other-tensor", "the values are those of another tensor", "other tensor", _other_tensor),
    )
}

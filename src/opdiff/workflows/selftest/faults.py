"""Faults that can be planted in a tensor: from its numbers to wrong ones, without touching a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core.dtypes import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

_STEPS = 255
_WRONG_STEPS = 8


class Victim(NamedTuple):
    """A tensor that is to be spoiled.

    Attributes:
        numbers: what it holds, in the logical shape, as float64.
        dtype: its element type.
        channel: the axis of its channels.
        other: the numbers of another tensor of as many elements; `None` when there is none.
        random: where choices come from.
    """

    numbers: AnyArray
    dtype: DType
    channel: int
    other: AnyArray | None
    random: np.random.Generator

    @property
    def size(self) -> float:
        """The root of the mean square."""
        return float(np.sqrt(np.mean(np.square(self.numbers))))


class Fault(NamedTuple):
    """A fault: how it is switched on, what it is, what it should be called, and how it is made.

    `plant` returns the wrong numbers, or `None` where the tensor cannot have this fault.
    """

    name: str
    text: str
    right_name: str
    plant: Callable[[Victim], AnyArray | None]


def _scale(victim: Victim) -> AnyArray | None:
    return victim.numbers * 1.25


def _offset(victim: Victim) -> AnyArray | None:
    step = victim.size / 2
    return victim.numbers + (step if victim.dtype.kind is Kind.FLOAT else max(round(step), 1))


def _zero_point(victim: Victim) -> AnyArray | None:
    if victim.dtype.kind is not Kind.FLOAT:
        return victim.numbers + _WRONG_STEPS
    return victim.numbers + _WRONG_STEPS * float(np.ptp(victim.numbers)) / _STEPS


def _permuted(victim: Victim) -> AnyArray | None:
    """The results are written with the two longest axes in the opposite order."""
    numbers = victim.numbers
    solid = [axis for axis, extent in enumerate(numbers.shape) if extent > 1]
    if len(solid) < 2:
        return None
    longest = sorted(solid, key=lambda axis: -numbers.shape[axis])[:2]
    return numbers.swapaxes(*longest).reshape(numbers.shape)


def _channel(victim: Victim) -> AnyArray | None:
    numbers, axis = victim.numbers, victim.channel
    extent = numbers.shape[axis] if numbers.ndim else 1
    if extent < 2:
        return None
    result = numbers.copy()
    place = [slice(None)] * numbers.ndim
    bad = int(victim.random.integers(extent))
    place[axis] = slice(bad, bad + 1)
    # Noise, so that no offset explains it, and enough of it that it shows among many channels.
    wrong = victim.random.normal(0, victim.size * max(2.0, 0.3 * float(np.sqrt(extent))), result[tuple(place)].shape)
    result[tuple(place)] += wrong
    return result


def _overflow(victim: Victim) -> AnyArray | None:
    if victim.dtype.kind is not Kind.FLOAT or victim.dtype.bits < 16:
        return None
    result = victim.numbers.copy()
    bad = victim.random.permutation(result.size)[: max(result.size // 100, 1)]
    result.reshape(-1)[bad] = np.inf
    return result


def _zero(victim: Victim) -> AnyArray | None:
    return np.zeros_like(victim.numbers)


def _other(victim: Victim) -> AnyArray | None:
    return None if victim.other is None else victim.other.reshape(victim.numbers.shape)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("scale", "all numbers are 1.25 times what they should be", "scale", _scale),
        Fault("offset", "half of the root mean square is added to all numbers", "offset", _offset),
        Fault("zero-point", "all numbers are off by 8 steps of a quantization to 8 bits", "offset", _zero_point),
        Fault("permuted", "the two longest axes are written in the opposite order", "order", _permuted),
        Fault("channel", "one channel is noise", "channel", _channel),
        Fault("overflow", "every hundredth number is infinite", "overflow", _overflow),
        Fault("zero", "all numbers are zero", "zero", _zero),
        Fault("other-tensor", "the numbers are those of another tensor", "other tensor", _other),
    )
}

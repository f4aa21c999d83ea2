"""Variants of quantization: other scale, zero point, rounding or range of quantized values.

The values before rounding, or the integers before scaling, are computed again; each variant makes the output from
them in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.variants.outputs import OutputVariant, by_axis, channel_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason

# Elements per channel below which a fitted scale fits by chance.
_MIN_ELEMENTS = 8
_MIN_CLIPPED_COUNT = 3
_MAX_WRONG_CHANNEL_SHARE = 0.25
# Factors nearer to 1 are the rounding of the scale itself.
_MIN_SCALE_ERROR = 1e-3
# The same for channels, which have few elements.
_MIN_CHANNEL_SCALE_ERROR = 4e-3
_MAX_LISTED = 8
_INT16 = -32768, 32767

_ROUNDINGS: dict[str, Callable[[AnyArray], AnyArray]] = {
    "down": np.floor,
    "up": np.ceil,
    "toward zero": np.trunc,
    "half away from zero": lambda array: np.copysign(np.floor(np.abs(array) + 0.5), array),
    "half to even": np.rint,
}


class Rounded(Struct, frozen=True):
    """Integers of the device, and the numbers that they were rounded from.

    Attributes:
        target: output of the device.
        values: computed numbers, scaled and shifted, before they are rounded.
        zero_point: the integer that zero becomes.
        low: smallest integer of the type.
        high: largest integer of the type.
    """

    target: AnyArray
    values: AnyArray
    zero_point: float
    low: int
    high: int

    def made(self, values: AnyArray) -> AnyArray:
        """Return numbers rounded to integers, with saturation."""
        return np.clip(np.rint(values), self.low, self.high)


def smallest_and_largest(dtype: DType) -> tuple[int, int]:
    """Return the range of an integer type."""
    bits = int("".join(filter(str.isdecimal, dtype.name)) or 8)
    return (0, (1 << bits) - 1) if dtype.name.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def rounded_otherwise(output: Rounded) -> Iterator[OutputVariant]:
    """Yield variants of a quantization: zero point, scale, rounding, range, scales of single channels."""
    yield from _zero_point(output)
    yield from _roundings(output)
    yield from _range(output)
    factor = _fitted_factor(output.target, output.values, output)
    if factor is not None and abs(factor - 1) > _MIN_SCALE_ERROR:
        made = output.made((output.values - output.zero_point) * factor + output.zero_point)
        yield _variant("replay.cause_quantization_scale", output.target, made, factor=factor)
    yield from _channel_scales(output)


def _variant(code: str, target: AnyArray, made: AnyArray, **facts: object) -> OutputVariant:
    reason: Reason = because(code, **facts)  # type: ignore[arg-type]  # facts of several types
    return OutputVariant(ErrorKind.QUANTIZATION, reason, target, made)


def _zero_point(output: Rounded) -> Iterator[OutputVariant]:
    inside = _inside(output.target, output)
    if not inside.any():
        return
    shift = float(np.rint(np.median((output.target - output.values)[inside])))
    if not shift:
        return
    made = output.made(output.values + shift)
    if shift == -output.zero_point:
        yield _variant("replay.cause_no_zero_point", output.target, made, zero_point=output.zero_point)
    yield _variant("replay.cause_zero_point", output.target, made, shift=shift)


def _roundings(output: Rounded) -> Iterator[OutputVariant]:
    usual = output.made(output.values)
    for name, function in _ROUNDINGS.items():
        made = np.clip(function(output.values), output.low, output.high)
        if not np.array_equal(made, usual):
            yield _variant("replay.cause_rounding", output.target, made, mode=name)


def _range(output: Rounded) -> Iterator[OutputVariant]:
    """Another range of the integers, and integers that wrap around in place of saturation."""
    usual = output.made(output.values)
    low, high = float(output.target.min(initial=np.inf)), float(output.target.max(initial=-np.inf))
    outside = np.count_nonzero((usual < low) | (usual > high))
    if low < high and outside >= _MIN_CLIPPED_COUNT:
        made = np.clip(usual, low, high)
        yield _variant("replay.cause_quantization_range", output.target, made, low=low, high=high)
    whole = np.rint(output.values)
    count = output.high - output.low + 1
    wrapped = (whole - output.low) % count + output.low
    if not np.array_equal(wrapped, usual):
        yield _variant("replay.cause_wrapped", output.target, wrapped, bits=count.bit_length() - 1)


def _inside(target: AnyArray, output: Rounded) -> AnyArray:
    """Return which elements neither device nor computation saturated."""
    made = output.made(output.values)
    return np.asarray((target > output.low) & (target < output.high) & (made > output.low) & (made < output.high))


def _fitted_factor(target: AnyArray, values: AnyArray, output: Rounded) -> float | None:
    """Return the factor of the scale for which most numbers are rounded to the numbers of the device."""
    numbers, found = (array - output.zero_point for array in (values, target))
    is_used = (target > output.low) & (target < output.high) & (np.abs(numbers) > 1)
    if np.count_nonzero(is_used) < _MIN_ELEMENTS:
        return None
    numbers, found = numbers[is_used], found[is_used]
    ends = np.sort(np.stack([(found - 0.5) / numbers, (found + 0.5) / numbers]), axis=0)
    low, high = float(ends[0].max()), float(ends[1].min())
    if low > high:
        low, high = float(np.percentile(ends[0], 99)), float(np.percentile(ends[1], 1))
    return (low + high) / 2


def _channel_scales(output: Rounded) -> Iterator[OutputVariant]:
    """Other scales of a few channels only."""
    for axis in channel_axes(output.target):
        target, values = by_axis(output.target, axis), by_axis(output.values, axis)
        wrong = np.flatnonzero((target != output.made(values)).mean(axis=1) > 0.05)
        factors = np.ones(target.shape[0])
        for index in wrong if _is_few(wrong, target.shape[0]) else ():
            factors[index] = _fitted_factor(target[index], values[index], output) or 1.0
        if (factors != 1).any():
            made = output.made((values - output.zero_point) * factors[:, None] + output.zero_point)
            yield _few_scales(target, made, axis, factors)


def _is_few(wrong: AnyArray, count: int) -> bool:
    return 0 < wrong.size <= max(1, _MAX_WRONG_CHANNEL_SHARE * count)


def _few_scales(target: AnyArray, made: AnyArray, axis: int, factors: AnyArray) -> OutputVariant:
    wrong = np.flatnonzero(factors != 1)[:_MAX_LISTED]
    indices, shown = tuple(map(int, wrong)), tuple(f"{factors[index]:.3g}" for index in wrong)
    return _variant("replay.cause_few_scales", target, made, axis=axis, indices=indices, factors=shown)


def scaled_otherwise(target: AnyArray, replayed: AnyArray, integers: AnyArray) -> Iterator[OutputVariant]:
    """Yield variants of a dequantization: zero point, scale, one scale for all, scales of single channels.

    Args:
        target: output of the device.
        replayed: computed output.
        integers: the integers that are scaled, in the same shape.
    """
    yield from _sixteen_bits(target, replayed, integers)
    for axis in channel_axes(target):
        if target.size >= _MIN_ELEMENTS * target.shape[axis]:
            rows = [by_axis(array, axis) for array in (target, replayed, integers)]
            yield from _shifted_integers(*rows)
            yield from _one_scale(*rows)
            yield from _factors(rows[0], rows[1], axis)


def scales_of_channels(target: AnyArray, replayed: AnyArray) -> Iterator[OutputVariant]:
    """Yield variants of a result of dequantized values: another scale of all channels, or of a few."""
    for axis in channel_axes(target):
        if target.size >= _MIN_ELEMENTS * target.shape[axis]:
            yield from _factors(by_axis(target, axis), by_axis(replayed, axis), axis)


def _lines(replayed: AnyArray, integers: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return scale and offset of each row, by least squares where no activation cut the numbers off."""
    weight = (replayed != 0).astype(float)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1)
    means = [(weight * array).sum(axis=1, keepdims=True) / total for array in (integers, replayed)]
    centred = weight * (integers - means[0])
    variance = np.square(centred).sum(axis=1, keepdims=True)
    products = (centred * (replayed - means[1])).sum(axis=1, keepdims=True)
    scales = np.divide(products, variance, where=variance > 0, out=np.zeros_like(variance))
    return scales, means[1] - scales * means[0]


def _shifted_integers(target: AnyArray, replayed: AnyArray, integers: AnyArray) -> Iterator[OutputVariant]:
    """Another zero point: the same integer is added before all scales."""
    scales, offsets = _lines(replayed, integers)
    is_used = (target != 0) & (replayed != 0) & (scales != 0)
    if not is_used.any():
        return
    weights = np.broadcast_to(scales, target.shape)[is_used]
    shift = float(np.rint(((target - replayed)[is_used] * weights).sum() / np.square(weights).sum()))
    if shift:
        before = scales * integers + offsets
        is_cut = bool((before < 0).any() and (replayed >= 0).all())
        made = before + shift * scales
        yield _variant("replay.cause_zero_point", target, np.maximum(made, 0) if is_cut else made, shift=shift)


def _factors(target: AnyArray, replayed: AnyArray, axis: int) -> Iterator[OutputVariant]:
    """Another scale for all channels, for a few channels, or for each channel."""
    factor = float((target * replayed).sum() / max(float(np.square(replayed).sum()), 1e-300))
    if abs(factor - 1) > _MIN_SCALE_ERROR:
        yield _variant("replay.cause_quantization_scale", target, factor * replayed, factor=factor)
    squares = np.square(replayed).sum(axis=1)
    factors = np.divide((target * replayed).sum(axis=1), squares, where=squares > 0, out=np.ones_like(squares))
    factors = np.where(np.abs(factors - 1) > _MIN_CHANNEL_SCALE_ERROR, factors, 1.0)
    wrong = np.flatnonzero(factors != 1)
    if _is_few(wrong, factors.size):
        yield _few_scales(target, factors[:, None] * replayed, axis, factors)
    elif wrong.size:
        yield _variant("replay.cause_channel_scales", target, factors[:, None] * replayed, axis=axis)


def _one_scale(target: AnyArray, replayed: AnyArray, integers: AnyArray) -> Iterator[OutputVariant]:
    """One scale for all channels, where each has its own."""
    used = (target != 0) & (integers != 0)
    if not used.any():
        return
    scale = float(np.median(target[used] / integers[used]))
    made = scale * integers
    is_cut = bool((replayed >= 0).all() and (integers < 0).any())
    yield _variant("replay.cause_one_scale", target, np.maximum(made, 0) if is_cut else made, scale=scale)


def _sixteen_bits(target: AnyArray, replayed: AnyArray, integers: AnyArray) -> Iterator[OutputVariant]:
    """Sums that end or wrap around at the range of 16 bits before they are scaled."""
    for code, narrow in _sixteen_bit_sums(integers):
        ratio = np.divide(narrow, integers, where=integers != 0, out=np.ones_like(integers))
        yield _variant(code, target, replayed * ratio, bits=16)


def _sixteen_bit_sums(integers: AnyArray) -> Iterator[tuple[str, AnyArray]]:
    """Yield integers that saturate, or wrap around, at the range of 16 bits, if any is outside."""
    low, high = _INT16
    if np.abs(integers).max(initial=0) > high:
        yield "replay.cause_saturated_sums", np.clip(integers, low, high)
        yield "replay.cause_wrapped", (integers - low) % (high - low + 1) + low


def summed_otherwise(target: AnyArray, replayed: AnyArray) -> Iterator[OutputVariant]:
    """Yield variants of integer sums of products: 16 bits in place of 32."""
    for code, integers in _sixteen_bit_sums(replayed):
        yield _variant(code, target, integers, bits=16)

"""Variants of results: the right numbers in another order, scaled, clipped, or wrong in a part only.

Each compares the output of the device with a changed result, or only a part of both.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.workflows.replay.own_error import Allowance

_MAX_PRODUCT = 1 << 31
_MAX_CHANNELS = 4096
# Elements per channel below which a fitted number per channel fits by chance.
_MIN_CHANNEL_ELEMENTS = 8
_MAX_BAD_SLICE_SHARE = 0.25
_MIN_BAD_SHARE_OF_SLICE = 0.25
_MAX_BAD_ELEMENT_SHARE = 0.01
_FEW_ELEMENTS, _MIN_ELEMENTS_FOR_FEW = 2, 32
_MIN_CLIPPED_SHARE = 1e-4
_MIN_CLIPPED_COUNT = 3
_IMAGE_RANK = 4
_MIN_IMAGE_EXTENT = 3
_MIN_FUNCTION_ELEMENTS = 64
_MAX_LISTED = 8
_MIN_SHUFFLED_ERROR = 0.1
# Errors of fewer digits, relative to the result; their mean and their largest, relative to their spread.
_MAX_NOISE = 0.25
_MAX_NOISE_BIAS = 0.3
_MAX_NOISE_PEAK = 10.0
_MIN_NOISE_ELEMENTS = 16
# Standard deviations of a mean that are chance.
_CHANCE = 2.5


class OutputVariant(Struct, frozen=True):
    """The output of the device and a changed result, or parts of both, that agree if the variant is right."""

    kind: ErrorKind
    reason: Reason
    target: AnyArray
    replayed: AnyArray


class Output(Struct, frozen=True):
    """The output of the device, the replayed one, and the difference that is allowed.

    Attributes:
        target: output of the device, of floats.
        replayed: replayed output in the same shape.
        allowance: the difference that is noise.
        before_activation: replayed values before the last activation; `None` if there is none.
        activation: type of that activation.
        axis: axis over which that activation normalizes.
        is_function: the operator computes nothing but a function that devices approximate.
    """

    target: AnyArray
    replayed: AnyArray
    allowance: Allowance
    before_activation: AnyArray | None = None
    activation: str = ""
    axis: int = -1
    is_function: bool = False


def iter_outputs(output: Output) -> Iterator[OutputVariant]:
    """Yield all variants, the most specific first."""
    for variants in (
        _orders,
        _permuted_channels,
        _clipped,
        _scaled,
        _border,
        _few,
        _by_channel,
        _function,
        _shuffled,
    ):
        yield from variants(output)


def has_small_errors(output: Output) -> bool:
    """Return whether most elements have small errors, without outliers; zeros on both sides do not count."""
    errors, replayed = _visible(output)
    scale = float(np.sqrt(np.square(replayed).mean())) if errors.size else 0.0
    spread = float(np.sqrt(np.square(errors).mean())) if errors.size else 0.0
    if errors.size < _MIN_NOISE_ELEMENTS or spread > _MAX_NOISE * scale:
        return False
    # Errors of elements that are small beside the others count relative to themselves.
    least = spread / 10 * np.minimum(np.abs(replayed) / scale, 1.0)
    is_common = int(np.count_nonzero(np.abs(errors) > least)) > errors.size / 2
    return is_common and float(np.abs(errors).max()) < _MAX_NOISE_PEAK * spread


def has_both_signs(output: Output) -> bool:
    """Return whether errors have both signs, as errors of fewer digits have; means of few elements are not near 0."""
    errors, _ = _visible(output)
    spread = float(np.sqrt(np.square(errors).mean()))
    return abs(float(errors.mean())) < max(_MAX_NOISE_BIAS, _CHANCE / sqrt(errors.size)) * spread


def _visible(output: Output) -> tuple[AnyArray, AnyArray]:
    """Return errors and replayed values of the elements that are not 0 on both sides."""
    shown = (output.target != 0) | (output.replayed != 0)
    return (output.target - output.replayed)[shown], output.replayed[shown]


def _orders(output: Output) -> Iterator[OutputVariant]:
    """Other orders of axes, with the elements in the order of memory, and reversed axes."""
    target, replayed = output.target, output.replayed
    rank = target.ndim
    orders = {"NHWC": (0, 2, 3, 1), "NCHW": (0, 3, 1, 2)} if rank == _IMAGE_RANK else {}
    for name, order in orders.items():
        moved = replayed.transpose(order).reshape(target.shape)
        yield OutputVariant(ErrorKind.PERMUTED, because("replay.cause_layout", layout=name), target, moved)
    if rank > 1:
        moved = replayed.swapaxes(-1, -2).reshape(target.shape)
        yield OutputVariant(
            ErrorKind.PERMUTED, because("replay.cause_swapped_axes", axes=(rank - 2, rank - 1)), target, moved
        )
    for axis in range(rank):
        if target.shape[axis] > 1:
            reason = because("replay.cause_reversed_axis", axis=axis)
            yield OutputVariant(ErrorKind.PERMUTED, reason, target, np.flip(replayed, axis))


def _permuted_channels(output: Output) -> Iterator[OutputVariant]:
    """Slices along an axis in another order, found by their distances."""
    for axis in channel_axes(output.target):
        target, replayed = by_axis(output.target, axis), by_axis(output.replayed, axis)
        if target.shape[0] ** 2 * target.shape[1] > _MAX_PRODUCT:
            continue
        squares = np.square(replayed).sum(axis=1)
        distances = squares - 2 * target @ replayed.T
        # Of equal slices, such as those without values above zero, each is its own nearest; wrong ones take places of
        # each other.
        nearest = np.arange(target.shape[0])
        wrong = np.flatnonzero(np.diagonal(distances) > distances.min(axis=1))
        if wrong.size:
            nearest[wrong] = wrong[distances[np.ix_(wrong, wrong)].argmin(axis=1)]
        if len(set(nearest.tolist())) == nearest.size and not np.array_equal(nearest, np.arange(nearest.size)):
            moved = tuple(int(index) for index in np.flatnonzero(nearest != np.arange(nearest.size))[:_MAX_LISTED])
            reason = because("replay.cause_permuted", axis=axis, indices=moved)
            yield OutputVariant(ErrorKind.PERMUTED, reason, target, replayed[nearest])


def _clipped(output: Output) -> Iterator[OutputVariant]:
    low, high = float(output.target.min(initial=np.inf)), float(output.target.max(initial=-np.inf))
    outside = np.count_nonzero((output.replayed < low) | (output.replayed > high))
    if low < high and outside >= max(_MIN_CLIPPED_COUNT, _MIN_CLIPPED_SHARE * output.target.size):
        reason = because("replay.cause_clipped", low=low, high=high)
        yield OutputVariant(ErrorKind.CLIPPING, reason, output.target, np.clip(output.replayed, low, high))


def _scaled(output: Output) -> Iterator[OutputVariant]:
    """A factor and an offset for all elements."""
    target, replayed = output.target, output.replayed
    variance = float(np.var(replayed))
    if not variance or target.size < _MIN_CHANNEL_ELEMENTS:
        return
    scale = float(np.mean((target - target.mean()) * (replayed - replayed.mean()))) / variance
    factor = float((target * replayed).sum() / np.square(replayed).sum())
    yield OutputVariant(ErrorKind.SCALE, because("replay.cause_scaled", scale=factor), target, factor * replayed)
    offset = float(np.mean(target - replayed))
    yield OutputVariant(ErrorKind.OFFSET, because("replay.cause_shifted", offset=offset), target, replayed + offset)
    if scale > 0:
        offset = float(target.mean() - scale * replayed.mean())
        reason = because("replay.cause_linear", scale=scale, offset=offset)
        yield OutputVariant(ErrorKind.SCALE, reason, target, scale * replayed + offset)


def _by_channel(output: Output) -> Iterator[OutputVariant]:
    """An offset or a factor for each channel; offsets before a Relu, too."""
    for axis in channel_axes(output.target):
        target, replayed = by_axis(output.target, axis), by_axis(output.replayed, axis)
        if target.shape[1] < _MIN_CHANNEL_ELEMENTS:
            continue
        biased = because("replay.cause_channel_offsets", axis=axis)
        offsets = np.mean(target - replayed, axis=1, keepdims=True)
        found = [OutputVariant(ErrorKind.BIAS, biased, target, replayed + offsets)]
        if output.before_activation is not None and output.activation == "Relu":
            before = by_axis(output.before_activation, axis)
            moved = np.maximum(before + _offsets(target, before), 0.0)
            found.append(OutputVariant(ErrorKind.BIAS, biased, target, moved))
        scaled = because("replay.cause_channel_scales", axis=axis)
        found.append(OutputVariant(ErrorKind.SCALE, scaled, target, _factors(target, replayed) * replayed))
        # Where all elements of a channel are alike, offsets and factors both explain much.
        yield from sorted(found, key=lambda each: float(np.linalg.norm(each.target - each.replayed)))


def _offsets(target: AnyArray, before: AnyArray) -> AnyArray:
    """Return an offset for each row: the median of the differences where a Relu lets them through."""
    differences = np.where(target > 0, target - before, np.nan)
    has_any = (target > 0).any(axis=1)
    differences[~has_any] = 0.0
    return np.asarray(np.nanmedian(differences, axis=1, keepdims=True))


def _factors(target: AnyArray, replayed: AnyArray) -> AnyArray:
    """Return a factor for each row, by least squares."""
    squares = np.square(replayed).sum(axis=1, keepdims=True)
    products = (target * replayed).sum(axis=1, keepdims=True)
    return np.asarray(np.divide(products, squares, where=squares > 0, out=np.ones_like(squares)))


def _border(output: Output) -> Iterator[OutputVariant]:
    """Errors at the border of images only, and in much of the border."""
    shape = output.target.shape
    if len(shape) != _IMAGE_RANK or min(shape[2:]) < _MIN_IMAGE_EXTENT:
        return
    inner = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    bad = _bad_elements(output)
    at_border = bad.size - bad[inner].size
    if not bad[inner].any() and np.count_nonzero(bad) >= _MIN_BAD_SHARE_OF_SLICE * at_border:
        reason = because("replay.cause_border")
        yield OutputVariant(ErrorKind.PADDING, reason, output.target[inner], output.replayed[inner])


def _bad_elements(output: Output) -> AnyArray:
    rms = np.sqrt(np.square(output.replayed).mean())
    limits = output.allowance.peak * (np.abs(output.replayed) + rms)
    return np.asarray(np.abs(output.target - output.replayed) > limits)


def _few(output: Output) -> Iterator[OutputVariant]:
    """Errors in a few slices along an axis, or in a few elements."""
    target, replayed = output.target, output.replayed
    bad = _bad_elements(output)
    for axis in range(target.ndim):
        wrong = _wrong_slices(bad, axis)
        if wrong.size:
            kept = np.setdiff1d(np.arange(target.shape[axis]), wrong)
            indices = tuple(int(index) for index in wrong[:_MAX_LISTED])
            facts = {"axis": axis, "count": int(wrong.size), "extent": target.shape[axis]}
            reason = because("replay.cause_few_slices", indices=indices, **facts)
            yield OutputVariant(ErrorKind.CHANNEL, reason, target.take(kept, axis), replayed.take(kept, axis))
    count = int(np.count_nonzero(bad))
    few = _FEW_ELEMENTS if target.size >= _MIN_ELEMENTS_FOR_FEW else 1
    if 0 < count <= max(few, _MAX_BAD_ELEMENT_SHARE * target.size):
        reason = because("replay.cause_few_elements", count=count, total=int(target.size))
        yield OutputVariant(ErrorKind.OUTLIERS, reason, target[~bad], replayed[~bad])


def _wrong_slices(bad: AnyArray, axis: int) -> AnyArray:
    """Return the indices of slices with bad elements; nothing if there are many, or if only few elements are bad."""
    others = tuple(number for number in range(bad.ndim) if number != axis)
    counts = np.count_nonzero(bad, axis=others)
    wrong = np.flatnonzero(counts)
    extent = bad.shape[axis]
    is_whole = counts.max(initial=0) > max(1, bad.size // max(extent, 1) * _MIN_BAD_SHARE_OF_SLICE)
    is_few = extent > 2 and wrong.size <= max(1, extent * _MAX_BAD_SLICE_SHARE)
    return wrong if is_whole and is_few else wrong[:0]


def _function(output: Output) -> Iterator[OutputVariant]:
    """An error that is a function of the operand of the last activation: neighbours have nearly the same error."""
    if output.before_activation is None or output.target.size < _MIN_FUNCTION_ELEMENTS:
        return
    if output.activation == "Softmax":
        operand, target, replayed = _powers(output.before_activation, output)
    else:
        operand, target, replayed = output.before_activation, output.target, output.replayed
    order = np.argsort(operand, axis=None)
    operand, target, replayed = (array.ravel()[order] for array in (operand, target, replayed))
    errors = target - replayed
    spacing = operand[2:] - operand[:-2]
    weight = np.divide(operand[1:-1] - operand[:-2], spacing, where=spacing > 0, out=np.full_like(spacing, 0.5))
    expected = errors[:-2] * (1 - weight) + errors[2:] * weight
    reason = because("replay.cause_function", op_type=output.activation)
    yield OutputVariant(ErrorKind.FUNCTION, reason, target[1:-1], replayed[1:-1] + expected)


def _powers(operand: AnyArray, output: Output) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the operand of a softmax relative to its largest element, and both results relative to those there."""
    position = operand.argmax(output.axis, keepdims=True)
    highest = np.take_along_axis(operand, position, output.axis)
    at_highest = [np.take_along_axis(array, position, output.axis) for array in (output.target, output.replayed)]
    safe = [np.where(array > 0, array, 1.0) for array in at_highest]
    return operand - highest, output.target / safe[0], output.replayed / safe[1]


def _shuffled(output: Output) -> Iterator[OutputVariant]:
    """All values in any other order; sorted values of smaller errors agree by chance."""
    target, replayed = output.target.ravel(), output.replayed.ravel()
    if np.linalg.norm(target - replayed) > _MIN_SHUFFLED_ERROR * np.linalg.norm(replayed):
        reason = because("replay.cause_shuffled")
        yield OutputVariant(ErrorKind.PERMUTED, reason, np.sort(target), np.sort(replayed))


def channel_axes(array: AnyArray) -> list[int]:
    """Return the axes that may be the axis of channels: the second and the last."""
    axes = dict.fromkeys(axis for axis in (1, array.ndim - 1) if 0 <= axis < array.ndim)
    return [axis for axis in axes if 1 < array.shape[axis] <= _MAX_CHANNELS]


def by_axis(array: AnyArray, axis: int) -> AnyArray:
    """Return the slices along an axis as rows."""
    moved: AnyArray = np.moveaxis(array, axis, 0)
    return moved.reshape(moved.shape[0], -1)

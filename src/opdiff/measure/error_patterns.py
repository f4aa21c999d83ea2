"""Patterns of errors: wrong computations that turn the golden tensor into the target, tested on the elements.

Each test predicts one tensor from the other one, or both from the inputs of the operator, and measures the error that
the prediction leaves. Errors are relative to the Euclidean norm of the golden tensor.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.error_facts import ErrorPattern
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.codes import AnyArray

    Function = Callable[[AnyArray], AnyArray]

# Predictions from the inputs of the operator have the noise of the inputs: this much may remain.
_MAX_INPUT_NOISE = 0.05
_MAX_CONCATENATED = 3
# Fewer elements fit many patterns by chance.
_MIN_ELEMENTS = 16
# Patterns that leave more of the error are not worth mentioning.
_MAX_REMAINDER = 0.5
_MIN_ELEMENTS_FOR_FUNCTION = 64
_IMAGE_AXES = 4
_MIN_IMAGE_EXTENT = 6
_BORDER = 1
# The border has this share of the elements at most, or its share of the error tells nothing.
_MAX_BORDER_SHARE = 0.6
_MIN_EXTENT = 3
_MIN_ELEMENTS_PER_SLICE = 4
# Slices that may have exchanged places.
_MAX_EXCHANGED = 64
# Wrong slices: this share of all at most, each with errors above this multiple of the median one.
_MAX_WRONG_SHARE = 0.25
_MIN_ERROR_RATIO = 8.0
# Offsets of an output behind an activation show in elements that it does not clip: this share must be left.
_MIN_UNCLIPPED_SHARE = 0.2


class TensorErrors(Struct, frozen=True):
    """Target and golden values of equal shape, finite elements only, and the norm of the golden ones.

    Elements that are not finite on both sides are 0 on both.
    """

    target: AnyArray
    golden: AnyArray
    norm: float

    def distance(self, first: AnyArray, second: AnyArray) -> float:
        """Return the relative distance of two tensors; infinite if one is not finite."""
        if first.shape != second.shape:
            return np.inf
        with np.errstate(all="ignore"):
            difference = float(np.linalg.norm((first - second).reshape(-1)))
        return difference / self.norm if np.isfinite(difference) else np.inf


def find_error_patterns(
    target: AnyArray, golden: AnyArray, inputs: Sequence[AnyArray] = ()
) -> tuple[ErrorPattern, ...]:
    """Return what turns the golden tensor into the target, with the error that remains, the simplest first.

    Args:
        target: the target, in the shape of the golden tensor.
        golden: the golden tensor.
        inputs: what the operator read on the device, as far as it is known.
    """
    x, y = (array.astype(np.float64) for array in (target, golden))
    is_finite = np.isfinite(x) & np.isfinite(y)
    x, y = np.where(is_finite, x, 0.0), np.where(is_finite, y, 0.0)
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(y))
    if x.size < _MIN_ELEMENTS or not norm or not np.isfinite(norm):
        return ()
    errors = TensorErrors(x, y, norm)
    operands = [array.astype(np.float64) for array in inputs]
    found = [*_operands(errors, operands), *_axes(errors, operands), *_activations(errors), *_slices(errors)]
    found += [*_border(errors), *_function(errors, operands)]
    return tuple(pattern for pattern in found if pattern.rest <= _MAX_REMAINDER * errors.distance(x, y))


def _pattern(kind: ErrorKind, code: str, rest: float, **facts: object) -> ErrorPattern:
    return ErrorPattern(kind, because(code, rest=rest, **facts), rest)  # type: ignore[arg-type]


def _operands(errors: TensorErrors, inputs: list[AnyArray]) -> Iterator[ErrorPattern]:
    """Operands that are exchanged, or not applied."""
    yield _pattern(ErrorKind.OPERAND, "measure.sign_reversed", errors.distance(errors.target, -errors.golden))
    if len(inputs) == 2:
        yield from _exchanged(errors, *inputs)
        yield from _not_applied(errors, *inputs)
    if 2 <= len(inputs) <= _MAX_CONCATENATED:
        yield from _concatenated(errors, inputs)


_OPERATIONS: dict[str, Callable[[AnyArray, AnyArray], AnyArray]] = {
    "a - b": np.subtract,
    "a / b": np.divide,
    "a ** b": np.power,
    "a @ b": np.matmul,
}


def _exchanged(errors: TensorErrors, first: AnyArray, second: AnyArray) -> Iterator[ErrorPattern]:
    for operation, function in _OPERATIONS.items():
        right = _apply(function, first, second)
        if right is None or errors.distance(right, errors.golden) > _MAX_INPUT_NOISE:
            continue
        exchanged = _apply(function, second, first)
        if exchanged is not None:
            rest = errors.distance(exchanged, errors.target)
            yield _pattern(ErrorKind.OPERAND, "measure.exchanged", rest, operation=operation)


def _apply(function: Callable[[AnyArray, AnyArray], AnyArray], first: AnyArray, second: AnyArray) -> AnyArray | None:
    """Return the result of an operation, 0 where it is not finite; `None` if the shapes do not fit."""
    try:
        with np.errstate(all="ignore"):
            result = function(first, second)
    except ValueError:
        return None
    return np.where(np.isfinite(result), result, 0.0)


def _not_applied(errors: TensorErrors, first: AnyArray, second: AnyArray) -> Iterator[ErrorPattern]:
    for operation, function in (("a + b", np.add), ("a * b", np.multiply)):
        whole = _apply(function, first, second)
        if whole is None:
            continue
        for activation in _BOUNDED.values():
            if errors.distance(activation(whole), errors.golden) > _MAX_INPUT_NOISE:
                continue
            for index, operand in enumerate((first, second)):
                rest = errors.distance(activation(operand), errors.target)
                yield _pattern(ErrorKind.OPERAND, "measure.not_applied", rest, operation=operation, index=1 - index)


def _concatenated(errors: TensorErrors, inputs: list[AnyArray]) -> Iterator[ErrorPattern]:
    for axis in range(errors.golden.ndim):
        for order in permutations(range(len(inputs))):
            try:
                whole = np.concatenate([inputs[index] for index in order], axis)
            except ValueError:
                break
            if order == tuple(range(len(inputs))):
                if errors.distance(whole, errors.golden) > _MAX_INPUT_NOISE:
                    break
                continue
            rest = errors.distance(whole, errors.target)
            yield _pattern(ErrorKind.OPERAND, "measure.concatenated", rest, order=order, axis=axis)


def _softmax(x: AnyArray, axis: int) -> AnyArray:
    powers: AnyArray = np.exp(x - x.max(axis=axis, keepdims=True))
    total: AnyArray = powers.sum(axis=axis, keepdims=True)
    return powers / total


def _axes(errors: TensorErrors, inputs: list[AnyArray]) -> Iterator[ErrorPattern]:
    """A softmax over another axis."""
    if len(inputs) != 1 or inputs[0].shape != errors.golden.shape or not np.isfinite(inputs[0]).all():
        return
    axes = [axis for axis, extent in enumerate(errors.golden.shape) if extent > 1]
    results = {axis: _softmax(inputs[0], axis) for axis in axes}
    for axis in axes:
        if errors.distance(results[axis], errors.golden) <= _MAX_INPUT_NOISE:
            for other in axes:
                rest = errors.distance(results[other], errors.target)
                if other != axis:
                    yield _pattern(ErrorKind.AXIS, "measure.other_axis", rest, axis=axis, actual=other)


def _sigmoid(x: AnyArray) -> AnyArray:
    return 1 / (1 + np.exp(-x))


def _gelu(x: AnyArray) -> AnyArray:
    step: AnyArray = 1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * step


def _hard_sigmoid(x: AnyArray) -> AnyArray:
    return np.clip(x / 6 + 0.5, 0, 1)


_BOUNDED: dict[str, Function] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "identity": lambda x: x,
}
_ACTIVATIONS: dict[str, Function] = {
    "Relu": _BOUNDED["Relu"],
    "Relu6": _BOUNDED["Relu6"],
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
    "Gelu": _gelu,
    "Swish": lambda x: x * _sigmoid(x),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda x: x * _hard_sigmoid(x),
    "Softplus": lambda x: np.logaddexp(x, 0),
}


def _activations(errors: TensorErrors) -> Iterator[ErrorPattern]:
    """An activation that is missing, or one that is applied though it should not be."""
    for name, function in _ACTIVATIONS.items():
        with np.errstate(all="ignore"):
            missing = errors.distance(function(errors.target), errors.golden)
            extra = errors.distance(function(errors.golden), errors.target)
        yield _pattern(ErrorKind.ACTIVATION, "measure.activation_missing", missing, name=name)
        yield _pattern(ErrorKind.ACTIVATION, "measure.activation_extra", extra, name=name)


def _border(errors: TensorErrors) -> Iterator[ErrorPattern]:
    """Errors at the border of images only."""
    y = errors.golden
    if y.ndim != _IMAGE_AXES or min(y.shape[2:]) < _MIN_IMAGE_EXTENT:
        return
    inner = (slice(None), slice(None), slice(_BORDER, -_BORDER), slice(_BORDER, -_BORDER))
    if 1 - y[inner].size / y.size <= _MAX_BORDER_SHARE:
        rest = errors.distance(errors.target[inner], y[inner])
        yield _pattern(ErrorKind.PADDING, "measure.border", rest, width=_BORDER)


def _function(errors: TensorErrors, inputs: list[AnyArray]) -> Iterator[ErrorPattern]:
    """An error that is a function of the input: another approximation of the function that the operator computes."""
    if len(inputs) != 1 or inputs[0].shape != errors.golden.shape:
        return
    rest = _rest_by_value(errors.target - errors.golden, inputs[0])
    if rest is not None:
        yield _pattern(ErrorKind.FUNCTION, "measure.by_value", rest / errors.norm)
    yield from _softmax_function(errors, inputs[0])


def _softmax_function(errors: TensorErrors, given: AnyArray) -> Iterator[ErrorPattern]:
    """As `_function` for a softmax: the exponentials are approximated, and then divided by their sum."""
    x, y = errors.target, errors.golden
    if x.min() < 0 or not np.allclose(y.sum(axis=-1), 1.0, atol=0.01):
        return
    shifted = given - given.max(axis=-1, keepdims=True)
    known = (x > 0) & (y > 0)
    with np.errstate(all="ignore"):
        ratios = np.where(known, np.log(x / y), 0.0)
    # Each row is divided by its own sum, which the largest element, whose exponential is exact, tells.
    ratios -= np.take_along_axis(ratios, y.argmax(axis=-1, keepdims=True), axis=-1)
    rest = _rest_by_value(ratios[known], shifted[known])
    whole = float(np.linalg.norm(ratios[known]))
    if rest is not None and whole:
        left = rest / whole * errors.distance(x, y)
        yield _pattern(ErrorKind.FUNCTION, "measure.by_value", left)


def _rest_by_value(error: AnyArray, value: AnyArray) -> float | None:
    """Return the norm of the error that is no function of the value: neighbours in order of the value differ by it."""
    if error.size < _MIN_ELEMENTS_FOR_FUNCTION:
        return None
    ordered = error.reshape(-1)[np.argsort(value, axis=None, kind="stable")]
    return float(np.linalg.norm(np.diff(ordered)) / np.sqrt(2))


# Slices: channels, or other indices of an axis, as rows


def _slices(errors: TensorErrors) -> Iterator[ErrorPattern]:
    """Patterns along each axis that has enough indices, channels first."""
    for axis in _sliced_axes(errors.golden.shape):
        x, y = (np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (errors.target, errors.golden))
        rows = TensorErrors(x, y, errors.norm)
        yield from _wrong_slices(rows, axis)
        yield from _slice_offsets(rows, axis)
        yield from _slice_factors(rows, axis)


def _sliced_axes(shape: tuple[int, ...]) -> list[int]:
    count = int(np.prod(shape))
    axes = [1, *range(2, len(shape)), 0] if len(shape) >= 4 else list(range(len(shape) - 1, -1, -1))
    return [axis for axis in axes if shape[axis] >= _MIN_EXTENT and count // shape[axis] >= _MIN_ELEMENTS_PER_SLICE]


def _wrong_slices(rows: TensorErrors, axis: int) -> Iterator[ErrorPattern]:
    """Slices that have each other's places, and a few wrong ones."""
    x, y = rows.target, rows.golden
    errors: AnyArray = ((x - y) ** 2).sum(axis=1)
    wrong = np.flatnonzero(errors > _MIN_ERROR_RATIO * np.median(errors))
    indices, others = tuple(wrong.tolist()), errors.sum() - errors[wrong].sum()
    if 2 <= wrong.size <= min(_MAX_EXCHANGED, len(x) // 2):
        distances = ((x[wrong, None] - y[None, wrong]) ** 2).sum(axis=2)
        source = distances.argmin(axis=1)
        if len(set(source.tolist())) == wrong.size and not (source == np.arange(wrong.size)).any():
            rest = float(np.sqrt(max(others + distances.min(axis=1).sum(), 0.0))) / rows.norm
            reason = because("measure.slices_exchanged", indices=indices, axis=axis, rest=rest)
            yield ErrorPattern(ErrorKind.PERMUTED, reason, rest)
    if 2 <= wrong.size <= _MAX_WRONG_SHARE * len(x):
        rest = float(np.sqrt(max(others, 0.0))) / rows.norm
        reason = because("measure.slices_wrong", indices=indices, extent=len(x), axis=axis, rest=rest)
        yield ErrorPattern(ErrorKind.CHANNEL, reason, rest)


def _slice_offsets(rows: TensorErrors, axis: int) -> Iterator[ErrorPattern]:
    """A constant for each slice that is added; elements at the ends of the golden range may be clipped."""
    x, y = rows.target, rows.golden
    is_free = _is_unclipped(x, y)
    counts = is_free.sum(axis=1)
    if is_free.mean() < _MIN_UNCLIPPED_SHARE:
        return
    used = counts >= _MIN_ELEMENTS_PER_SLICE
    offsets = np.where(is_free, x - y, 0.0).sum(axis=1) / np.maximum(counts, 1)
    predicted = np.clip(y + offsets[:, None], y.min(), y.max()) if not is_free.all() else y + offsets[:, None]
    left = np.where(is_free & used[:, None], x - predicted, 0.0)
    # Noise that the mean of few elements takes off counts as an error again.
    gain = np.sqrt((counts[used] / np.maximum(counts[used] - 1, 1)).max(initial=1.0))
    rest = float(np.linalg.norm(left) * gain) / rows.norm
    ends = float(offsets[used].min(initial=0.0)), float(offsets[used].max(initial=0.0))
    reason = because("measure.slice_offsets", low=ends[0], high=ends[1], axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.BIAS, reason, rest)


def _is_unclipped(x: AnyArray, y: AnyArray) -> AnyArray:
    """Return which elements are inside the ranges of both sides, if many golden elements are at an end of theirs."""
    inside: AnyArray = np.ones(y.shape, bool)
    for end in (y.min(), y.max()):
        if (y == end).mean() > 1 / y.shape[0] / 8 and (y == end).sum() > 2:
            inside &= (y != end) & (x != end)
    return inside


def _slice_factors(rows: TensorErrors, axis: int) -> Iterator[ErrorPattern]:
    """A factor for each slice."""
    x, y = rows.target, rows.golden
    squares = (y**2).sum(axis=1)
    factors = np.divide((x * y).sum(axis=1), squares, out=np.ones(len(y)), where=squares > 0)
    rest = rows.distance(x, factors[:, None] * y)
    reason = because("measure.slice_factors", low=float(factors.min()), high=float(factors.max()), axis=axis, rest=rest)
    yield ErrorPattern(ErrorKind.SCALE, reason, rest)

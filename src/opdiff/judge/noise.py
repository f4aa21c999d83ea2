"""Error budget of an operator: by its element types, its reduction length and the errors of its inputs.

A golden run in float32 and a target with fewer bits never agree: inputs and weights are rounded, a fused operator
rounds once where several operators did, sums are truncated. All errors here are relative to the Euclidean norm of the
golden tensor.
"""

from __future__ import annotations

from math import hypot, inf, log2, prod, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.judge.error_magnitude import ratio
from opdiff.judge.error_model import Propagation, is_quantizing
from opdiff.judge.limits import coarser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.error_model import OpErrorModel
    from opdiff.judge.network import Operator

# Root mean square of the error of rounding to 256 steps, relative to the range.
_INT8_ROUNDING_OF_RANGE = 1 / (255 * sqrt(12))
# Relative error of 8-bit weights, whose largest value in a channel is about four times their root mean square.
_INT8_WEIGHT_ERROR = 0.011
# The matrix unit accumulates in float32.
_ACCUMULATOR_UNIT = 2.0**-24
_SMALL_INTEGERS = frozenset({"int8", "uint8", "int4", "qint8", "quint8", "int2", "uint2"})
_PAIRWISE_SUMS = (Propagation.POOL, Propagation.SOFTMAX, Propagation.NORMALIZE)
_SUMS = (*_PAIRWISE_SUMS, Propagation.UNKNOWN)
PEAK_TO_RMS = 16.0
"""Largest of many errors, relative to their root mean square."""

# Least number of elements from which a systematic error is estimated.
_MIN_ELEMENTS_FOR_GAIN = 256
# Operators whose outputs do not have the systematic errors of their inputs.
_WITHOUT_GAIN = (Propagation.NONE, Propagation.SOFTMAX, Propagation.SELECT, Propagation.UNKNOWN)
# Part of the error budget that may be systematic.
_GAIN_OF_BUDGET = 0.05
# Factor by which the systematic error of inputs may grow.
_INHERITED_GAIN = 1.25
# Standard errors of the slope within which a systematic error is chance.
_GAIN_DEVIATIONS = 4.0
# Bounds of factors that are quotients of measured values.
_MAX_QUOTIENT = 1e3
_MAX_CONCENTRATION = 16.0
_MAX_TERMS_TO_SUM = 2.0**30
# Of smaller quotients, the rounding of the result is all that matters.
_MIN_TERMS_TO_SUM = 256.0
# Largest number of elements of a tensor in which most sums may cancel by chance.
_MAX_FEW_ELEMENTS = 64
# Factor that is added for a tensor of a single element.
_SINGLE_ELEMENT_FACTOR = 9.0
# Operators from which the noise of a run is estimated, at least.
_MIN_OPERATORS_FOR_NOISE = 8
# If at least this share of the operators adds more than rounding, the run is noisy (other implementations), not faulty:
# one fault makes few such operators.
_MIN_NOISY_SHARE = 1 / 3
# Margin above the median noise of a run, and the largest noise of a run that is accepted.
_NOISE_MARGIN = 2.5
MAX_RUN_NOISE = 4.0


class TensorState(Struct, frozen=True):
    """Error of a tensor that operators read, as far as it is known.

    Attributes:
        error: relative error.
        noise: the part of it that is noise.
        rms: root mean square of the golden tensor; 0 if unknown.
        std: standard deviation of the golden tensor.
        peak: largest absolute error.
        range: difference of the largest and the smallest golden value.
        count: number of elements.
        is_bad: the error is more than noise.
        has_special_mismatch: NaN or infinity at other positions than in the golden tensor.
        source: operator that wrote it; empty if unknown.
        skipped: operators between it and the reader that could not be compared.
        is_quantized: one of the skipped operators works on quantized values.
        is_quantized_value: its integers are quantized quantities, not indices or counts.
        is_cancelled_sum: its relative error is large because nearly equal tensors were subtracted.
        gain: systematic relative error, the slope of the fitted line less 1.
    """

    error: float
    noise: float
    rms: float
    std: float
    peak: float
    range: float
    count: int
    is_bad: bool
    has_special_mismatch: bool
    source: str
    skipped: tuple[str, ...] = ()
    is_quantized: bool = False
    is_quantized_value: bool = False
    is_cancelled_sum: bool = False
    gain: float = 0.0


def worst_state(inputs: Sequence[TensorState]) -> TensorState:
    """Return the state with NaN or infinity at other positions, otherwise the one with the largest error."""
    return max(inputs, key=lambda state: (state.has_special_mismatch, state.error))


def combined_state(read: TensorState, own: TensorState) -> TensorState:
    """State of a tensor whose own error comes on top of the error of the tensor that was read."""
    return replace(
        own,
        error=hypot(read.error, own.error),
        noise=hypot(read.noise, own.noise),
        is_bad=read.is_bad or own.is_bad,
        has_special_mismatch=read.has_special_mismatch or own.has_special_mismatch,
        skipped=read.skipped,
    )


class Budget(Struct, frozen=True):
    """Allowed error of an output.

    Attributes:
        rounding: relative error that the operator itself may add.
        allowed: relative error that the output may have if its inputs have no more than their noise.
        peak: largest absolute error that an element may have if the inputs have no more than their noise.
        expected: relative error that the output has if the operator only propagates the errors of its inputs.
        noise: relative error that the output has if the operator only propagates the noise of its inputs.
    """

    rounding: float
    allowed: float
    peak: float
    expected: float = 0.0
    noise: float = 0.0

    @property
    def unavoidable(self) -> float:
        """Relative error that the output must have."""
        return max(self.rounding, self.expected)

    @property
    def expected_noise(self) -> float:
        """Expected noise of the output."""
        return hypot(self.noise, self.rounding / 2)


def error_budget(
    model: OpErrorModel, inputs: Sequence[TensorState], rounding: float, magnitude: ErrorMagnitude, count: int
) -> Budget:
    """Return the budget of an output with `count` elements whose operator adds the error `rounding`."""
    expected = noise = _propagated(model, inputs, magnitude, count)
    good = inputs
    if any(state.is_bad or state.noise != state.error for state in inputs):
        noise = _propagated(model, [replace(state, error=state.noise) for state in inputs], magnitude, count)
        good = [state for state in inputs if not state.is_bad]
    allowed = _noise_gain(model, inputs, count) * noise + rounding
    peak = PEAK_TO_RMS * magnitude.rms * allowed + model.noise_gain * _propagated_peak(model, good, magnitude)
    return Budget(rounding, allowed, peak, expected, noise)


def max_inherited(
    model: OpErrorModel, inputs: Sequence[TensorState], budget: Budget, magnitude: ErrorMagnitude, count: int
) -> tuple[float, float]:
    """Return the relative and the largest absolute error that the errors of the inputs can explain."""
    gain = _noise_gain(model, inputs, count)
    if any(state.is_bad for state in inputs):
        gain = max(model.error_gain, gain)
    error = max(budget.allowed, gain * budget.expected + budget.rounding)
    # Large errors of single input elements reach single output elements.
    peak = model.error_gain * _propagated_peak(model, inputs, magnitude)
    return error, PEAK_TO_RMS * magnitude.rms * error + peak


def _noise_gain(model: OpErrorModel, inputs: Sequence[TensorState], count: int) -> float:
    """Return the factor by which noise may grow; with few elements it may grow more by chance."""
    if model.is_absolute:
        return model.noise_gain
    fewest = min([count, *(state.count for state in inputs if state.count > 0)])
    return model.noise_gain * (1 + 3 / sqrt(max(fewest, 1)))


def _propagated(model: OpErrorModel, inputs: Sequence[TensorState], magnitude: ErrorMagnitude, count: int) -> float:
    """Return the relative error of an output that only propagates the errors of its inputs."""
    propagation = model.propagation
    wrong = [state for state in inputs if state.error]
    if not wrong:
        return 0.0
    if model.is_absolute and magnitude.rms:
        errors = [_concentration(propagation, state, count) * state.error * _scale(state, magnitude) for state in wrong]
        return ratio(sum(errors) if propagation is Propagation.ADD else max(errors), magnitude.rms)
    if propagation is Propagation.NORMALIZE:
        return hypot(*[state.error * min(ratio(state.rms, state.std), _MAX_QUOTIENT) for state in wrong])
    if propagation is Propagation.SOFTMAX:
        return hypot(*[state.error * max(state.rms, 1.0) for state in wrong])
    return hypot(*[state.error for state in wrong])


def _scale(state: TensorState, magnitude: ErrorMagnitude) -> float:
    """Return the root mean square of a tensor that is read; behind operators that were not compared, the output's."""
    return max(state.rms, magnitude.rms) if state.skipped else state.rms


def _concentration(propagation: Propagation, state: TensorState, count: int) -> float:
    """Return the growth of the error if the part of a tensor that is moved has all of its error."""
    if propagation is not Propagation.MOVE or not count or not state.count:
        return 1.0
    return min(sqrt(max(state.count / count, 1.0)), _MAX_CONCENTRATION)


def _propagated_peak(model: OpErrorModel, inputs: Sequence[TensorState], magnitude: ErrorMagnitude) -> float:
    if model.is_absolute:
        return sum([state.peak for state in inputs])
    return magnitude.rms * sum([min(ratio(state.peak, state.rms), _MAX_QUOTIENT) for state in inputs])


def noise_of_run(added: Sequence[float]) -> float:
    """Return the noise that operators of a run may add, from what each of them adds, in units of the expected noise."""
    if len(added) < _MIN_OPERATORS_FOR_NOISE:
        return 1.0
    noisy = [noise for noise in added if noise > 1.0]
    # Operators that only move data add nothing, and behind large errors the noise of an operator does not show.
    is_most = len(noisy) >= max(_MIN_OPERATORS_FOR_NOISE, _MIN_NOISY_SHARE * len(added))
    ordered = sorted(noisy if is_most else added)
    return _NOISE_MARGIN * ordered[len(ordered) // 2]


def created_share(error: float, inherited: float) -> float:
    """Return the share of a squared error that is not inherited."""
    return 1 - min(inherited / error, 1.0) ** 2 if error else 1.0


def rounding_error(
    operator: Operator, rows: Sequence[Row], inputs: Sequence[TensorState], noise: float, *, quantized: bool
) -> float:
    """Return the error that an operator adds by rounding; `noise` is the limit of the coarsest type it works with."""
    model = operator.model
    error = model.rounding * noise
    if model.propagation is Propagation.LINEAR:
        error += _ACCUMULATOR_UNIT * sqrt(reduction_length(operator, rows))
    elif model.propagation in _PAIRWISE_SUMS:
        # Vector units sum in pairs and round each sum.
        error *= 1 + log2(max(reduction_length(operator, rows), 1)) / 16
    if quantized:
        error += 2 * hypot(_quantization_error(inputs), _INT8_WEIGHT_ERROR)
    return error


def cancellation_error(model: OpErrorModel, inputs: Sequence[TensorState], magnitude: ErrorMagnitude) -> float:
    """Return the relative rounding error of sums that are small against their terms, as the mean of centred values."""
    if model.propagation not in _SUMS or not magnitude.rms:
        return 0.0
    terms = max((ratio(state.rms, magnitude.rms) for state in inputs), default=0.0)
    return _ACCUMULATOR_UNIT * min(terms, _MAX_TERMS_TO_SUM) if terms > _MIN_TERMS_TO_SUM else 0.0


def few_sums_factor(model: OpErrorModel, magnitude: ErrorMagnitude, golden_peak: float, count: int) -> float:
    """Return the factor by which the relative error of a few sums may be larger, since all may nearly cancel by chance.

    Elements that an activation set to zero do not count. A normal variable is below a tenth of its standard deviation
    with a chance of 8 %, two are at once with 0.6 %.
    """
    if model.propagation is not Propagation.LINEAR or count > _MAX_FEW_ELEMENTS or not magnitude.rms:
        return 1.0
    elements = count * min(ratio(magnitude.rms, golden_peak), 1.0) ** 2
    return 1 + _SINGLE_ELEMENT_FACTOR / max(elements, 1.0) ** 2


def is_quantized(operator: Operator, rows: Sequence[Row], inputs: Sequence[TensorState]) -> bool:
    """Return whether an operator, or one right before it that was not compared, works on small integers."""
    if is_quantizing(operator.node.op_type) or any(state.is_quantized for state in inputs):
        return True
    if operator.model.propagation is not Propagation.LINEAR:
        return False
    return not _SMALL_INTEGERS.isdisjoint([rows[number].target_dtype for number in operator.rows])


def allowed_gain(
    model: OpErrorModel, inputs: Sequence[TensorState], metrics: Metrics, noise: float, budget: Budget
) -> float:
    """Return the systematic relative error that an output may have; infinite if it tells nothing.

    Rounding errors of many elements cancel in the slope of the fitted line. What is left are the slopes of the inputs
    and the rounding of weights; `noise` is the limit of the element type.
    """
    if metrics.fit_distance is None or metrics.count < _MIN_ELEMENTS_FOR_GAIN or model.propagation in _WITHOUT_GAIN:
        return inf
    gains = [abs(state.gain) for state in inputs]
    inherited = sum(gains) if model.propagation is Propagation.MULTIPLY else max(gains, default=0.0)
    chance = _GAIN_DEVIATIONS * metrics.fit_distance / sqrt(metrics.count)
    return _INHERITED_GAIN * inherited + noise + _GAIN_OF_BUDGET * budget.allowed + chance


def is_quantized_value(operator: Operator, rows: Sequence[Row], inputs: Sequence[TensorState]) -> bool:
    """Return whether integers that an operator writes are quantized quantities, not indices or counts."""
    moves = operator.model.propagation not in (Propagation.SELECT, Propagation.UNKNOWN)
    return is_quantized(operator, rows, inputs) or (moves and any(state.is_quantized_value for state in inputs))


def is_cancelled_sum(operator: Operator, inputs: Sequence[TensorState], limit: float) -> bool:
    """Return whether the error of a sum is above `limit` because its terms nearly cancel, or an earlier sum did.

    The errors of the terms are at most `limit` relative to the terms, and larger relative to the sum.
    """
    large = [state for state in inputs if state.error > limit]
    if large:
        return all(state.is_cancelled_sum for state in large)
    return operator.model.propagation is Propagation.ADD and len(inputs) > 1


def _quantization_error(inputs: Sequence[TensorState]) -> float:
    """Return the relative error of rounding the inputs to 256 steps."""
    errors = [min(ratio(state.range * _INT8_ROUNDING_OF_RANGE, state.rms), 1.0) for state in inputs if state.range]
    return max(errors, default=_INT8_WEIGHT_ERROR)


def coarsest(operator: Operator, rows: Sequence[Row], dtype: str) -> str:
    """Return the coarsest of a float type and the target's types that an operator reads or writes."""
    for number in operator.rows:
        dtype = coarser(dtype, rows[number].target_dtype)
    return dtype


def reduction_length(operator: Operator, rows: Sequence[Row]) -> int:
    """Return the number of products or values that make one output element, by the shapes."""
    propagation = operator.model.propagation
    inputs = [rows[edge.row].shape or () for edge in operator.edges if edge.row is not None]
    if not inputs or not operator.outputs:
        return 1
    output = rows[next(iter(operator.outputs.values()))].shape or ()
    if not prod(output):
        return 1
    if propagation is Propagation.LINEAR:
        return _length_of_products(operator.node.op_type, inputs, output)
    if propagation in (Propagation.SOFTMAX, Propagation.NORMALIZE):
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    return max(prod(inputs[0]) // prod(output), 1)


def _length_of_products(op_type: str, inputs: Sequence[Shape], output: Shape) -> int:
    if len(inputs) < 2:
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    first, second = prod(inputs[0]), prod(inputs[1])
    if "conv" in op_type.lower():
        channels = output[1] if len(output) > 1 else 1
        return max(second // max(channels, 1), 1)
    # A (m x k), B (k x n) and C (m x n), for each matrix of a batch.
    return max(round(sqrt(first * second / prod(output))), 1)

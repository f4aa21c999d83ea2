"""Error budget of an operator: the error that its output may have, by its rounding error and the errors of its inputs.

A golden run in float32 and a target with fewer bits never agree: inputs and weights are rounded, a fused operator
rounds once where several operators did, sums are truncated. What an operator adds by rounding depends on its element
types, its reduction length and quantization. All errors here are relative to the Euclidean norm of the golden tensor.
"""

from __future__ import annotations

from math import hypot, inf, log2, prod, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.judge.error_model import Propagation, is_quantizing
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_errors import golden_peak, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.judge.error_model import OpErrorModel
    from opdiff.judge.levels import MeasuredTensor
    from opdiff.judge.network import Operator
    from opdiff.judge.tensor_errors import ErrorMagnitude, ErrorState

PEAK_TO_RMS = 16.0
"""Largest of many errors, relative to their root mean square."""

# Root mean square of the error of rounding to 8 bits, relative to the range.
_INT8_ROUNDING_OF_RANGE = 1 / (255 * sqrt(12))
# Relative error of 8-bit weights, whose largest value in a channel is about four times their root mean square.
_INT8_WEIGHT_ERROR = 0.011
# The matrix unit accumulates in float32.
_ACCUMULATOR_UNIT = 2.0**-24
_SMALL_INTEGERS = frozenset({"int8", "uint8", "int4", "qint8", "quint8", "int2", "uint2"})
_MAX_TERMS_TO_SUM = 2.0**30
# Of smaller quotients, the rounding of the result is all that matters.
_MIN_TERMS_TO_SUM = 256.0
# Largest number of elements of a tensor in which most sums may cancel by chance.
_MAX_FEW_ELEMENTS = 64
# Factor that is added for a tensor of a single element.
_SINGLE_ELEMENT_FACTOR = 9.0
# Least number of elements from which a systematic error is estimated.
_MIN_ELEMENTS_FOR_GAIN = 256
# Part of the error budget that may be systematic.
_GAIN_OF_BUDGET = 0.05
# Factor by which the systematic error of inputs may grow.
_INHERITED_GAIN = 1.25
# Standard errors of the slope within which a systematic error is chance.
_GAIN_DEVIATIONS = 4.0
# Bounds of factors that are quotients of measured values.
_MAX_QUOTIENT = 1e3
_MAX_CONCENTRATION = 16.0


def rounding_error(
    operator: Operator, rows: Sequence[Row], inputs: Sequence[ErrorState], noise_limit: float, *, quantized: bool
) -> float:
    """Return the error that an operator adds by rounding; `noise_limit` is the limit of its coarsest type."""
    error_model = operator.error_model
    error = error_model.rounding * noise_limit
    if error_model.sums_products:
        error += _ACCUMULATOR_UNIT * sqrt(reduction_length(operator, rows))
    elif error_model.sums_pairwise:
        error *= 1 + log2(max(reduction_length(operator, rows), 1)) / 16
    if quantized:
        error += 2 * hypot(_quantization_error(inputs), _INT8_WEIGHT_ERROR)
    return error


def cancellation_error(inputs: Sequence[ErrorState], magnitude: ErrorMagnitude) -> float:
    """Return the relative rounding error of sums that are small against their terms, as the mean of centred values."""
    if not magnitude.rms:
        return 0.0
    terms = ratio(max([0.0, *[state.rms for state in inputs]]), magnitude.rms)
    return _ACCUMULATOR_UNIT * min(terms, _MAX_TERMS_TO_SUM) if terms > _MIN_TERMS_TO_SUM else 0.0


def few_sums_factor(magnitude: ErrorMagnitude, metrics: Metrics) -> float:
    """Return the factor by which the error of a few sums of products may be larger: all may nearly cancel by chance.

    Elements that an activation set to zero do not count. A normal variable is below a tenth of its standard deviation
    with a chance of 8 %, two are at once with 0.6 %.
    """
    if metrics.count > _MAX_FEW_ELEMENTS or not magnitude.rms:
        return 1.0
    elements = metrics.count * min(ratio(magnitude.rms, golden_peak(metrics)), 1.0) ** 2
    return 1 + _SINGLE_ELEMENT_FACTOR / max(elements, 1.0) ** 2


def is_quantized(operator: Operator, rows: Sequence[Row], inputs: Sequence[ErrorState]) -> bool:
    """Return whether an operator, or an uncompared operator right before it, works on small integers."""
    if is_quantizing(operator.node.op_type) or any(state.is_quantized for state in inputs):
        return True
    if not operator.error_model.sums_products:
        return False
    return not _SMALL_INTEGERS.isdisjoint([rows[row_index].target_dtype for row_index in operator.rows])


def is_quantized_value(operator: Operator, rows: Sequence[Row], inputs: Sequence[ErrorState]) -> bool:
    """Return whether integers that an operator writes are quantized quantities, not indices or counts."""
    moves = operator.error_model.propagation not in (Propagation.SELECT, Propagation.UNKNOWN)
    return is_quantized(operator, rows, inputs) or (moves and any(state.is_quantized_value for state in inputs))


def is_cancelled_sum(operator: Operator, inputs: Sequence[ErrorState], limit: float) -> bool:
    """Return whether the error of a sum is above `limit` because its terms nearly cancel, or an earlier sum did.

    The errors of the terms are at most `limit` relative to the terms, and larger relative to the sum.
    """
    large = [state for state in inputs if state.error > limit]
    if large:
        return all(state.is_cancelled_sum for state in large)
    return operator.error_model.propagation is Propagation.ADD and len(inputs) > 1


def _quantization_error(inputs: Sequence[ErrorState]) -> float:
    """Return the relative error of rounding the inputs to 8 bits."""
    errors = [min(ratio(state.range * _INT8_ROUNDING_OF_RANGE, state.rms), 1.0) for state in inputs if state.range]
    return max(errors, default=_INT8_WEIGHT_ERROR)


def coarsest(operator: Operator, rows: Sequence[Row], tensor: MeasuredTensor) -> str:
    """Return the coarsest of the float type of a tensor and the target's types that its operator reads or writes."""
    dtype = tensor.dtype
    for row_index in operator.rows:
        if row_index != tensor.row_index:
            dtype = coarser(dtype, rows[row_index].target_dtype)
    return dtype


def reduction_length(operator: Operator, rows: Sequence[Row]) -> int:
    """Return the number of products or values that make one output element, by the shapes."""
    propagation = operator.error_model.propagation
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


class Budget(Struct, frozen=True, gc=False):
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
    error_model: OpErrorModel, inputs: Sequence[ErrorState], rounding: float, magnitude: ErrorMagnitude, count: int
) -> Budget:
    """Return the budget of an output with `count` elements whose operator adds the error `rounding`."""
    expected = noise = _propagated(error_model, inputs, magnitude, count)
    good = inputs
    if any(state.exceeds_noise or state.noise != state.error for state in inputs):
        noise = _propagated(error_model, [replace(state, error=state.noise) for state in inputs], magnitude, count)
        good = [state for state in inputs if not state.exceeds_noise]
    allowed = _noise_gain(error_model, inputs, count) * noise + rounding
    inherited_peak = error_model.noise_gain * _propagated_peak(error_model, good, magnitude)
    peak = PEAK_TO_RMS * magnitude.rms * allowed + inherited_peak
    return Budget(rounding, allowed, peak, expected, noise)


def max_inherited(
    error_model: OpErrorModel, inputs: Sequence[ErrorState], budget: Budget, magnitude: ErrorMagnitude, count: int
) -> tuple[float, float]:
    """Return the relative and the largest absolute error that the errors of the inputs can explain."""
    gain = _noise_gain(error_model, inputs, count)
    if any(state.exceeds_noise for state in inputs):
        gain = max(error_model.error_gain, gain)
    error = max(budget.allowed, gain * budget.expected + budget.rounding)
    # Large errors of single input elements reach single output elements.
    peak = error_model.error_gain * _propagated_peak(error_model, inputs, magnitude)
    return error, PEAK_TO_RMS * magnitude.rms * error + peak


def _noise_gain(error_model: OpErrorModel, inputs: Sequence[ErrorState], count: int) -> float:
    """Return the factor by which noise may grow; with few elements noise may grow more by chance."""
    if error_model.is_absolute:
        return error_model.noise_gain
    fewest = count or 1
    for state in inputs:
        if 0 < state.count < fewest:
            fewest = state.count
    return error_model.noise_gain * (1 + 3 / sqrt(fewest))


def _propagated(
    error_model: OpErrorModel, inputs: Sequence[ErrorState], magnitude: ErrorMagnitude, count: int
) -> float:
    """Return the relative error of an output that only propagates the errors of its inputs."""
    propagation = error_model.propagation
    if error_model.is_absolute and magnitude.rms:
        errors = [_absolute_error(propagation, state, magnitude, count) for state in inputs if state.error]
        return ratio(sum(errors) if propagation is Propagation.ADD else max(errors, default=0.0), magnitude.rms)
    if propagation is Propagation.NORMALIZE:
        errors = [state.error * min(ratio(state.rms, state.std), _MAX_QUOTIENT) for state in inputs if state.error]
    elif propagation is Propagation.SOFTMAX:
        errors = [state.error * max(state.rms, 1.0) for state in inputs if state.error]
    else:
        errors = [state.error for state in inputs if state.error]
    return hypot(*errors)


def _absolute_error(propagation: Propagation, state: ErrorState, magnitude: ErrorMagnitude, count: int) -> float:
    """Return the absolute error of an input; behind uncompared operators, its scale is at least that of the output."""
    rms = max(state.rms, magnitude.rms) if state.uncompared else state.rms
    concentration = 1.0
    if propagation is Propagation.MOVE and count and state.count:
        # The moved part of a tensor may have all errors of the tensor.
        concentration = min(sqrt(max(state.count / count, 1.0)), _MAX_CONCENTRATION)
    return concentration * state.error * rms


def _propagated_peak(error_model: OpErrorModel, inputs: Sequence[ErrorState], magnitude: ErrorMagnitude) -> float:
    if error_model.is_absolute:
        return sum([state.peak for state in inputs])
    return magnitude.rms * sum([min(ratio(state.peak, state.rms), _MAX_QUOTIENT) for state in inputs])


def created_share(error: float, inherited: float) -> float:
    """Return the share of a squared error that is not inherited."""
    return 1 - min(inherited / error, 1.0) ** 2 if error else 1.0


def allowed_gain(
    error_model: OpErrorModel, inputs: Sequence[ErrorState], metrics: Metrics, noise: float, budget: Budget
) -> float:
    """Return the systematic relative error that an output may have; infinite if the error cannot be estimated.

    Rounding errors of many elements cancel in the slope of the fitted line. What is left are the slopes of the inputs
    and the rounding of weights; `noise` is the limit of the element type.
    """
    if metrics.fit_distance is None or metrics.count < _MIN_ELEMENTS_FOR_GAIN or not error_model.keeps_gain:
        return inf
    gains = [abs(state.gain) for state in inputs]
    inherited = sum(gains) if error_model.propagation is Propagation.MULTIPLY else max(gains, default=0.0)
    chance = _GAIN_DEVIATIONS * metrics.fit_distance / sqrt(metrics.count)
    return _INHERITED_GAIN * inherited + noise + _GAIN_OF_BUDGET * budget.allowed + chance

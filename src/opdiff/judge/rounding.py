"""Error that an operator adds by rounding: by its element types, its reduction length and quantization."""

from __future__ import annotations

from math import hypot, log2, prod, sqrt
from typing import TYPE_CHECKING

from opdiff.judge.error_magnitude import golden_peak, ratio
from opdiff.judge.error_model import Propagation, is_quantizing
from opdiff.judge.limits import coarser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.error_state import ErrorState
    from opdiff.judge.network import Operator
    from opdiff.judge.tensor_limits import MeasuredTensor

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

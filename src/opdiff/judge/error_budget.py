"""Error budget of an operator: the error that its output may have, by its rounding error and the errors of its inputs.

A golden run in float32 and a target with fewer bits never agree: inputs and weights are rounded, a fused operator
rounds once where several operators did, sums are truncated. All errors here are relative to the Euclidean norm of the
golden tensor.
"""

from __future__ import annotations

from math import hypot, inf, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.judge.error_magnitude import ratio
from opdiff.judge.error_model import Propagation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.metrics import Metrics
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.error_model import OpErrorModel
    from opdiff.judge.error_state import ErrorState

PEAK_TO_RMS = 16.0
"""Largest of many errors, relative to their root mean square."""

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
    return _concentration(propagation, state, count) * state.error * rms


def _concentration(propagation: Propagation, state: ErrorState, count: int) -> float:
    """Return the growth of the relative error if the moved part of a tensor has all errors of the tensor."""
    if propagation is not Propagation.MOVE or not count or not state.count:
        return 1.0
    return min(sqrt(max(state.count / count, 1.0)), _MAX_CONCENTRATION)


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

"""Verdicts for inputs of operators that were dumped themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Origin
from opdiff.judge.error_budget import PEAK_TO_RMS, Budget, error_budget
from opdiff.judge.error_model import error_model_of
from opdiff.judge.judged_tensor import JudgedTensor, judged_input
from opdiff.judge.origins import CreatedError
from opdiff.judge.tensor_limits import assess

if TYPE_CHECKING:
    from opdiff.judge.error_state import ErrorState
    from opdiff.judge.network import Operator
    from opdiff.judge.tensor_limits import MeasuredTensor, TensorLimits

# An input equals the output of its producer if the error of the input is at most this many times as large.
_SAME_TENSOR_GROWTH = 1.25


def is_unchanged(tensor: MeasuredTensor, producer_state: ErrorState) -> bool:
    """Return whether an input has about the error of the output of its producer."""
    has_new_mismatch = tensor.magnitude.has_special_mismatch and not producer_state.has_special_mismatch
    return tensor.magnitude.error <= _SAME_TENSOR_GROWTH * producer_state.error + 1e-12 and not has_new_mismatch


def judge_first_seen(
    operator: Operator, tensor: MeasuredTensor, read: ErrorState | None, rounding: float
) -> JudgedTensor:
    """Judge an input whose producer was not compared: alone, or by the state that the producer read."""
    magnitude = tensor.magnitude
    if read:
        budget = error_budget(error_model_of(""), (read,), rounding, magnitude, tensor.metrics.count)
    else:
        budget = Budget(rounding, rounding, PEAK_TO_RMS * rounding * magnitude.rms)
    assessment = assess(tensor, budget.allowed, budget.peak)
    origin = Origin.NONE
    if assessment[0].is_bad:
        origin = Origin.INHERITED if read and read.exceeds_noise else Origin.CREATED
    error = CreatedError(operator, tensor.row_index, magnitude, budget, (read,) if read else (), is_input=True)
    return judged_input(error, tensor, assessment, origin, budget.expected_noise)


def judge_changed(
    operator: Operator, tensor: MeasuredTensor, producer_state: ErrorState, limits: TensorLimits
) -> JudgedTensor:
    """Judge an input that is worse than the output of its producer: the tensor changed in memory."""
    magnitude = tensor.magnitude
    allowed = 2 * producer_state.error + limits.noise(tensor)
    peak = 4 * producer_state.peak + PEAK_TO_RMS * allowed * magnitude.rms
    assessment = assess(tensor, allowed, peak)
    origin = Origin.NONE
    if assessment[0].is_bad:
        is_over = magnitude.error > allowed or magnitude.peak > peak
        is_new = is_over or (magnitude.has_special_mismatch and not producer_state.has_special_mismatch)
        origin = Origin.CREATED if is_new else Origin.INHERITED
    budget = Budget(tensor.limit.noise, allowed, peak, producer_state.error)
    error = CreatedError(operator, tensor.row_index, magnitude, budget, (producer_state,), is_input=True)
    return judged_input(error, tensor, assessment, origin, producer_state.noise)

"""Verdicts for the inputs and outputs of operators, by the errors of the inputs.

The error of a bad tensor has an origin: created here, inherited or accumulated. The errors of outputs that were not
compared are estimated.
"""

from __future__ import annotations

from math import hypot, inf, isfinite, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.judgement import Level, Origin, Verdict
from opdiff.core.reasons import because
from opdiff.judge.error_budget import (
    PEAK_TO_RMS,
    Budget,
    allowed_gain,
    cancellation_error,
    coarsest,
    created_share,
    error_budget,
    few_sums_factor,
    is_cancelled_sum,
    is_quantized,
    is_quantized_value,
    max_inherited,
    rounding_error,
)
from opdiff.judge.error_model import error_model_of
from opdiff.judge.levels import assess, assess_floats, assess_indices, assess_integers
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_errors import measured_state, worst_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.error_model import OpErrorModel
    from opdiff.judge.levels import Assessment, MeasuredTensor, TensorLimits
    from opdiff.judge.limits import Limit
    from opdiff.judge.network import Operator
    from opdiff.judge.tensor_errors import ErrorMagnitude, ErrorState


# An input equals the output of its producer if the error of the input is at most this many times as large.
_SAME_TENSOR_GROWTH = 1.25
# Uncompared operators that are remembered; an operator at the end of a long chain would have all of the chain.
_MAX_UNCOMPARED = 16
_NO_BUDGET = Budget(0.0, 0.0, 0.0)


class CreatedError(Struct, frozen=True):
    """A tensor at which an error was created.

    Attributes:
        operator: operator of the tensor.
        row_index: index of the tensor's row.
        magnitude: magnitude of the error.
        budget: allowed error.
        inputs: errors of the operator's inputs.
        is_input: the tensor is an input whose producer is unknown, or that changed after it was written.
        is_stand_in: the operator's own output was not compared; the row belongs to an operator that reads the output.
        refuted_by: reader whose error is far smaller than this error would cause; the golden tensor is probably wrong.
    """

    operator: Operator
    row_index: int
    magnitude: ErrorMagnitude
    budget: Budget
    inputs: tuple[ErrorState, ...]
    is_input: bool = False
    is_stand_in: bool = False
    refuted_by: str = ""


class JudgedTensor(Struct, frozen=True, gc=False):
    """Verdict for a tensor, and what follows for other operators.

    Attributes:
        verdict: the verdict.
        state: error of the tensor, for the operators that read the tensor.
        created: the error that was created at this tensor; `None` if none was.
        own_share: share of the squared error of an output that its operator created.
        added_noise: error that the operator added to an output, in units of its rounding error; `None` if unknown.
    """

    verdict: Verdict
    state: ErrorState
    created: CreatedError | None = None
    own_share: float = 0.0
    added_noise: float | None = None


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
    return _judged_input(error, tensor, assessment, origin, budget.expected_noise)


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
    return _judged_input(error, tensor, assessment, origin, producer_state.noise)


def _judged_input(
    error: CreatedError, tensor: MeasuredTensor, assessment: Assessment, origin: Origin, noise: float
) -> JudgedTensor:
    """Return the result for an input whose error has this origin.

    `error` applies if the error was created. `noise` is the part of the error that is noise if the tensor is bad.
    """
    created = error if origin is Origin.CREATED else None
    state = measured_state(tensor.metrics, tensor.magnitude, noise if assessment[0].is_bad else None)
    return JudgedTensor(_verdict_of(tensor, assessment, origin, error.budget, created), state, created)


class OutputJudge:
    """Verdicts for the outputs of one operator with these inputs."""

    def __init__(
        self, operator: Operator, inputs: tuple[ErrorState, ...], rows: Sequence[Row], limits: TensorLimits
    ) -> None:
        self._operator = operator
        self._inputs = inputs
        self._rows = rows
        self._limits = limits
        self._is_quantized = is_quantized(operator, rows, inputs)

    def judge_values(self, tensor: MeasuredTensor, index: int) -> JudgedTensor:
        """Judge an output of floats, or of integers other than indices."""
        magnitude = tensor.magnitude
        is_quantity = not tensor.is_integer or is_quantized_value(self._operator, self._rows, self._inputs)
        budget = self._budget(tensor)
        assessment, origin = self._assess_origin(tensor, budget, is_quantity=is_quantity)
        is_accumulated, is_cancelled, created = False, False, None
        if origin:  # good tensors have none
            is_accumulated = origin is Origin.ACCUMULATED
            is_cancelled = is_accumulated and is_cancelled_sum(self._operator, self._inputs, tensor.limit.distance)
            created = self._error(tensor, index, budget) if origin is Origin.CREATED else None
        if is_cancelled:
            assessment, origin = (Level.NOISE, because("judge.small_difference", error=magnitude.error)), Origin.NONE
        noise = budget.expected_noise if origin else None
        state = measured_state(tensor.metrics, magnitude, noise, self._operator.node.name)
        if is_accumulated or tensor.is_integer:
            state = replace(
                state,
                exceeds_noise=state.exceeds_noise and not is_accumulated,
                is_quantized_value=tensor.is_integer and is_quantity,
                is_cancelled_sum=is_cancelled,
            )
        verdict = _verdict_of(tensor, assessment, origin, budget, created)
        own_share = 0.0
        if created is not None:
            own_share = 1.0 if magnitude.has_special_mismatch else created_share(magnitude.error, budget.expected)
        added_noise = _added_noise(magnitude, budget) if is_quantity else None
        return JudgedTensor(verdict, state, created, own_share, added_noise)

    def judge_indices(self, tensor: MeasuredTensor, index: int, *, values_agree: bool | None) -> JudgedTensor:
        """Judge indices that the operator returns; `values_agree` is `None` if the operator returns no values."""
        inputs_agree = not any(state.exceeds_noise for state in self._inputs)
        assessment = assess_indices(tensor.metrics, tensor.limit, values_agree=values_agree, inputs_agree=inputs_agree)
        level, created, origin = assessment[0], None, Origin.NONE
        if level.is_bad:
            origin = Origin.CREATED if inputs_agree and values_agree is not False else Origin.INHERITED
        if origin is Origin.CREATED:
            created = self._error(tensor, index, _NO_BUDGET)
        verdict = _verdict_of(tensor, assessment, origin, _NO_BUDGET, created)
        state = measured_state(tensor.metrics, tensor.magnitude, 0.0 if origin else None, self._operator.name)
        return JudgedTensor(verdict, state, created if level is Level.WRONG else None)

    def _error(self, tensor: MeasuredTensor, index: int, budget: Budget) -> CreatedError:
        is_stand_in = self._operator.outputs.get(index) != tensor.row_index
        return CreatedError(
            self._operator, tensor.row_index, tensor.magnitude, budget, self._inputs, is_stand_in=is_stand_in
        )

    def _budget(self, tensor: MeasuredTensor) -> Budget:
        operator, inputs, magnitude, metrics = self._operator, self._inputs, tensor.magnitude, tensor.metrics
        error_model = operator.error_model
        dtype = coarsest(operator, self._rows, tensor)
        limit = tensor.limit if dtype == tensor.dtype else self._limits.of_type(dtype, tensor.row)
        rounding = rounding_error(operator, self._rows, inputs, limit.noise, quantized=self._is_quantized)
        rounding *= self._limits.run_noise
        if error_model.sums_products:
            rounding *= few_sums_factor(magnitude, metrics)
        if error_model.may_cancel:
            rounding += cancellation_error(inputs, magnitude)
        return error_budget(error_model, inputs, rounding, magnitude, metrics.count)

    def _assess_origin(self, tensor: MeasuredTensor, budget: Budget, *, is_quantity: bool) -> tuple[Assessment, Origin]:
        """Return level and reason, and the origin of the error; a systematic error within the budget is suspicious."""
        if is_quantity:
            limit = self._quantized_limit(tensor) if self._is_quantized else tensor.limit
            assessment = assess_floats(tensor.metrics, tensor.magnitude, limit, budget.allowed, budget.peak)
        else:
            assessment = assess_integers(tensor.metrics, tensor.limit)
        if assessment[0].is_bad:
            metrics = tensor.metrics if is_quantity else None
            return assessment, _origin_of(metrics, tensor.magnitude, self._operator.error_model, budget, self._inputs)
        systematic = None if tensor.is_integer else self._systematic_error(tensor, budget)
        if systematic is None:
            return assessment, Origin.NONE
        return (Level.SUSPICIOUS, systematic), Origin.CREATED

    def _quantized_limit(self, tensor: MeasuredTensor) -> Limit:
        """Return the limits of a tensor, with the distance that quantized values may have."""
        distance = self._limits.of_type("integer", tensor.row).distance
        return replace(tensor.limit, distance=max(tensor.limit.distance, distance))

    def _systematic_error(self, tensor: MeasuredTensor, budget: Budget) -> Reason | None:
        """Return the rule that a small systematic error breaks; `None` if there is no such error."""
        metrics, scale = tensor.metrics, tensor.metrics.fit_scale
        if scale is None:
            return None
        noise = self._limits.noise(tensor)
        allowed = allowed_gain(self._operator.error_model, self._inputs, metrics, noise, budget)
        if abs(scale - 1) <= allowed:
            return None
        return because("judge.systematic_scale", scale=scale, allowed=allowed, count=metrics.count)

    def uncompared_state(self) -> ErrorState:
        """Return the error of an output that was not compared: the error of the worst input, and the rounding error."""
        worst = worst_state(self._inputs)
        names = (*(name for state in self._inputs for name in state.uncompared), self._operator.name)
        rounding = self._operator.error_model.rounding * self._noise_limit() * self._limits.run_noise
        return replace(
            worst,
            error=hypot(worst.error, rounding),
            noise=hypot(worst.noise, rounding),
            uncompared=tuple(dict.fromkeys(names))[-_MAX_UNCOMPARED:],
            is_quantized=self._is_quantized,
        )

    def _noise_limit(self) -> float:
        """Return the limit of the coarsest float type that the operator reads or writes; 0 if there are no floats."""
        rows = (self._rows[row_index] for row_index in self._operator.rows)
        # By the target alone: a damaged file may have integers where the golden dump has floats.
        types = ((coarser(row.target_dtype, row.target_dtype), row) for row in rows)
        return max((self._limits.of_type(dtype, row).noise for dtype, row in types if dtype != "integer"), default=0.0)


def _added_noise(magnitude: ErrorMagnitude, budget: Budget) -> float | None:
    if not budget.rounding or not magnitude.error < inf:
        return None
    return magnitude.error * sqrt(created_share(magnitude.error, budget.expected)) / budget.rounding


def _origin_of(
    metrics: Metrics | None,
    magnitude: ErrorMagnitude,
    error_model: OpErrorModel,
    budget: Budget,
    inputs: tuple[ErrorState, ...],
) -> Origin:
    """Return the origin of the error of a bad output; `metrics` is `None` for integers, which have no magnitude."""
    if any(state.has_special_mismatch for state in inputs):
        return Origin.INHERITED
    if magnitude.has_special_mismatch:
        return Origin.CREATED
    has_bad_input = any(state.exceeds_noise for state in inputs)
    if metrics is None:
        return Origin.INHERITED if has_bad_input else Origin.CREATED
    error, peak = max_inherited(error_model, inputs, budget, magnitude, metrics.count)
    peak += 10 * budget.rounding * abs(metrics.worst_golden or 0)
    if magnitude.error > error or magnitude.peak > peak:
        return Origin.CREATED
    return Origin.INHERITED if has_bad_input else Origin.ACCUMULATED


def _verdict_of(
    tensor: MeasuredTensor, assessment: Assessment, origin: Origin, budget: Budget, created: CreatedError | None
) -> Verdict:
    """Return the verdict for a tensor whose error has this origin; `created` is the error if it was created."""
    level, reason = assessment
    # A stand-in is a row of another operator, which reads the error.
    shown = Origin.INHERITED if created is not None and created.is_stand_in else origin
    allowed = budget.allowed
    return Verdict(level, reason, shown, tensor.magnitude.error / allowed if allowed and isfinite(allowed) else None)

"""One pass over the network in the order of execution: a verdict for each tensor by the errors of its inputs.

Inputs good, output bad: the error is created here. Inputs bad, output about as bad: inherited. Output bad although no
operator adds more than noise: accumulated. If an output was not compared, the input of an operator that reads it stands
in for it. If there is none either, the operator propagates the errors of its inputs, and a finding at the next compared
operator lists it as a suspect.
"""

from __future__ import annotations

from functools import partial
from math import hypot, inf, isfinite, sqrt
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Level, Origin, Verdict
from opdiff.core.reasons import because
from opdiff.judge.defects import result_or_defect
from opdiff.judge.error_magnitude import error_magnitude, golden_peak, has_magnitude
from opdiff.judge.error_model import Propagation, error_model_of
from opdiff.judge.levels import assess_floats, assess_indices, assess_integers, is_integer
from opdiff.judge.limits import Limits, coarser
from opdiff.judge.noise import (
    MAX_RUN_NOISE,
    PEAK_TO_RMS,
    Budget,
    TensorState,
    allowed_gain,
    cancellation_error,
    coarsest,
    combined_state,
    created_share,
    error_budget,
    few_sums_factor,
    is_cancelled_sum,
    is_quantized,
    is_quantized_value,
    noise_of_run,
    rounding_error,
    worst_state,
)
from opdiff.judge.origins import ErrorOrigin, Located, Propagated, find_stand_ins, origin_of, own_share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.levels import Assessment
    from opdiff.judge.limits import Limit
    from opdiff.judge.network import Edge, Network, Operator

# An input equals the output of its producer if its error is at most this many times as large.
_SAME_TENSOR_GROWTH = 1.25
# Stands for an infinite relative error, so that it can be propagated.
_HUGE_ERROR = 1e6
# Uncompared operators that are remembered; each operator of a long chain would have all before it.
_MAX_SKIPPED = 16
# Larger relative errors are propagated as this one, so that products with them are finite.
_MAX_PROPAGATED_ERROR = 1e100
_NO_BUDGET = Budget(0.0, 0.0, 0.0)


def locate(rows: Sequence[Row], network: Network, limits: Limits) -> Located:
    """Judge every row of a network; a noisy run is judged a second time, by its own noise."""
    first = LocatePass(rows, network, limits, 1.0)
    located = first.run()
    noise = first.estimate_noise()
    if noise <= 1.0:
        return located
    return LocatePass(rows, network, limits, min(noise, MAX_RUN_NOISE)).run()


class LocatePass:
    """One pass over the network, from its inputs to its outputs."""

    def __init__(self, rows: Sequence[Row], network: Network, limits: Limits, noise: float) -> None:
        self._rows = rows
        self._network = network
        self._limits = limits
        self._noise = noise
        self._states: dict[tuple[str, int], TensorState] = {}
        self._worst_states: dict[str, TensorState] = {}
        self._verdicts: list[Verdict | None] = [None] * len(rows)
        self._origins: list[ErrorOrigin] = []
        self._propagated: dict[str, Propagated] = {}
        self._magnitudes: dict[str, ErrorMagnitude] = {}
        self._added_noise: list[float] = []
        self._largest_noise = 0.0
        self._known_limits: dict[tuple[str, str], Limit] = {}
        self._defects: list[str] = []
        self._stand_ins = find_stand_ins(rows, network)

    def run(self) -> Located:
        """Judge all rows."""
        for operator in self._network.operators.values():
            failure = result_or_defect(partial(self._judge, operator), self._defects)
            if failure is not None:
                self._set_not_judged(operator, failure)
        verdicts = tuple(
            [verdict or self._verdict_alone(row) for verdict, row in zip(self._verdicts, self._rows, strict=True)]
        )
        return Located(
            verdicts, tuple(self._origins), self._propagated, self._magnitudes, self._noise, tuple(self._defects)
        )

    def _set_not_judged(self, operator: Operator, reason: Reason) -> None:
        for number in operator.rows:
            self._verdicts[number] = Verdict(Level.NOT_COMPARABLE, reason)
        self._origins = [origin for origin in self._origins if origin.operator.name != operator.name]

    def estimate_noise(self) -> float:
        """Return the noise that operators of this run may add, in units of the expected noise."""
        return noise_of_run(self._added_noise)

    def _verdict_alone(self, row: Row) -> Verdict:
        """Verdict for a row of no known operator, by its metrics alone."""
        metrics = row.metrics
        if metrics is None:
            return Verdict(Level.NOT_COMPARABLE, row.reason or because("judge.not_measured"))
        magnitude = error_magnitude(metrics)
        if magnitude is None:
            return Verdict(Level.NOT_COMPARABLE, because("judge.no_elements"))
        noise = self._limit(_type_of(row), row).noise
        return Verdict(*self._assess(row, metrics, magnitude, noise, PEAK_TO_RMS * noise * magnitude.rms))

    def _limit(self, dtype: str, row: Row) -> Limit:
        op_type = row.label.op_type
        if self._limits.names:
            return self._limits.of(dtype, op_type, row.key.op if row.key else row.label.target)
        limit = self._known_limits.get((dtype, op_type))
        if limit is None:
            limit = self._known_limits[dtype, op_type] = self._limits.of(dtype, op_type, "")
        return limit

    def _assess(
        self, row: Row, metrics: Metrics, magnitude: ErrorMagnitude, allowed: float, allowed_peak: float
    ) -> Assessment:
        limit = self._limit(_type_of(row), row)
        if is_integer(row):
            return assess_integers(metrics, limit)
        return assess_floats(metrics, magnitude, limit, allowed, allowed_peak)

    def _judge(self, operator: Operator) -> None:
        inputs = self._judge_inputs(operator)
        selects = operator.model.propagation is Propagation.SELECT
        outputs = self._compared_outputs(operator)
        for index, number in outputs.items():
            if not selects or not is_integer(self._rows[number]):
                self._judge_output(operator, index, number, inputs)
        if selects:
            self._judge_indices(operator, outputs, inputs)
        if not outputs:
            self._pass_through(operator, inputs)

    def _compared_outputs(self, operator: Operator) -> dict[int, int]:
        """Return the rows of the outputs that were compared, by index; inputs of readers stand in for others."""
        found = {
            index: number for index, number in operator.outputs.items() if has_magnitude(self._rows[number].metrics)
        }
        return self._stand_ins.get(operator.name, {}) | found

    # Inputs

    def _judge_inputs(self, operator: Operator) -> tuple[TensorState, ...]:
        """Return the states of the inputs, each with the operator that wrote it."""
        states = []
        for edge in operator.edges:
            state = self._find_state(edge)
            if edge.row is not None:
                state = self._judge_input(operator, edge.row, edge, state)
            if state is not None:
                source = edge.producer[0] if edge.producer else ""
                states.append(state if state.source == source else replace(state, source=source))
        return tuple(states)

    def _find_state(self, edge: Edge) -> TensorState | None:
        producer = edge.producer
        if producer is None:
            return None
        return self._states.get(producer) or self._worst_states.get(producer[0])

    def _judge_input(
        self, operator: Operator, number: int, edge: Edge, written: TensorState | None
    ) -> TensorState | None:
        """Judge an input that was dumped itself against the state that its producer wrote."""
        metrics = self._rows[number].metrics
        magnitude = error_magnitude(metrics)
        if metrics is None or magnitude is None:
            return written
        if written is None or written.skipped:
            return self._judge_first_seen(operator, number, metrics, magnitude, written)
        is_same = magnitude.error <= _SAME_TENSOR_GROWTH * written.error + 1e-12
        has_new_mismatch = magnitude.has_special_mismatch and not written.has_special_mismatch
        if is_same and not has_new_mismatch:
            self._copy_verdict(number, edge.producer or ("", 0))
            return written
        return self._judge_changed(operator, number, metrics, magnitude, written)

    def _judge_first_seen(
        self, operator: Operator, number: int, metrics: Metrics, magnitude: ErrorMagnitude, read: TensorState | None
    ) -> TensorState:
        """Judge an input whose producer was not compared: alone, or by the state that the producer read."""
        row = self._rows[number]
        rounding = self._limit(_type_of(row), row).noise * self._noise
        if not self._network.has_known_edges:
            # It may come from any earlier operator, with the noise of that.
            rounding = max(rounding, 2 * self._largest_noise)
        if read:
            budget = error_budget(error_model_of(""), (read,), rounding, magnitude, metrics.count)
        else:
            budget = Budget(rounding, rounding, PEAK_TO_RMS * rounding * magnitude.rms)
        level, reason = self._assess(row, metrics, magnitude, budget.allowed, budget.peak)
        origin = Origin.NONE
        if level.is_bad:
            origin = Origin.INHERITED if read and read.is_bad else Origin.BORN
        if origin is Origin.BORN:
            inputs = (read,) if read else ()
            self._origins.append(ErrorOrigin(operator, number, magnitude, budget, inputs, is_input=True))
        self._verdicts[number] = Verdict(level, reason, origin, _excess(magnitude.error, budget.allowed))
        return self._state(metrics, magnitude, budget.expected_noise if level.is_bad else None)

    def _copy_verdict(self, number: int, producer: tuple[str, int]) -> None:
        """Give an input that equals the output of its producer the verdict of that."""
        name, index = producer
        operator = self._network.operators.get(name)
        own = operator.outputs.get(index) if operator else None
        source = self._stand_ins.get(name, {}).get(index, own)
        verdict = None if source is None else self._verdicts[source]
        if verdict is not None and source != number:
            is_origin = verdict.origin is Origin.BORN
            self._verdicts[number] = replace(verdict, origin=Origin.INHERITED) if is_origin else verdict

    def _judge_changed(
        self, operator: Operator, number: int, metrics: Metrics, magnitude: ErrorMagnitude, written: TensorState
    ) -> TensorState:
        """Judge an input that is worse than the output of its producer: it changed in memory."""
        row = self._rows[number]
        noise = self._limit(_type_of(row), row).noise
        allowed = 2 * written.error + noise * self._noise
        peak = 4 * written.peak + PEAK_TO_RMS * allowed * magnitude.rms
        level, reason = self._assess(row, metrics, magnitude, allowed, peak)
        origin = Origin.NONE
        if level.is_bad:
            is_over = magnitude.error > allowed or magnitude.peak > peak
            is_new = is_over or (magnitude.has_special_mismatch and not written.has_special_mismatch)
            origin = Origin.BORN if is_new else Origin.INHERITED
        if origin is Origin.BORN:
            budget = Budget(noise, allowed, peak, written.error)
            self._origins.append(ErrorOrigin(operator, number, magnitude, budget, (written,), is_input=True))
        self._verdicts[number] = Verdict(level, reason, origin, _excess(magnitude.error, allowed))
        return self._state(metrics, magnitude, written.noise if level.is_bad else None)

    # Outputs

    def _judge_output(self, operator: Operator, index: int, number: int, inputs: tuple[TensorState, ...]) -> None:
        row, name = self._rows[number], operator.node.name
        metrics, magnitude = row.metrics, error_magnitude(row.metrics)
        if metrics is None or magnitude is None:
            return
        is_stand_in = operator.outputs.get(index) != number
        budget, (level, reason) = self._assess_output(operator, row, metrics, magnitude, inputs)
        own_share, origin = 0.0, Origin.NONE
        is_number = not is_integer(row) or is_quantized_value(operator, self._rows, inputs)
        gain = self._systematic_error(operator, row, metrics, budget, inputs)
        if gain is not None and not level.is_bad:
            level, reason, origin = Level.SUSPICIOUS, gain, Origin.BORN
        elif level.is_bad:
            origin = origin_of(metrics if is_number else None, magnitude, operator.model, budget, inputs)
        differs = origin is Origin.ACCUMULATED and is_cancelled_sum(
            operator, inputs, self._limit(_type_of(row), row).distance
        )
        if differs:
            level, origin, reason = Level.NOISE, Origin.NONE, because("judge.small_difference", error=magnitude.error)
        if origin is Origin.BORN:
            self._origins.append(ErrorOrigin(operator, number, magnitude, budget, inputs, is_stand_in=is_stand_in))
            own_share = own_share_of(magnitude, budget)
        shown = Origin.INHERITED if is_stand_in and origin is Origin.BORN else origin
        self._verdicts[number] = Verdict(level, reason, shown, _excess(magnitude.error, budget.allowed))
        state = self._state(metrics, magnitude, budget.expected_noise if level.is_bad else None, name)
        if inputs and _is_compared_with_own_input(row):
            state = combined_state(worst_state(inputs), state)
        is_bad = state.is_bad and origin is not Origin.ACCUMULATED
        state = replace(
            state, is_bad=is_bad, is_quantized_value=is_integer(row) and is_number, is_cancelled_sum=differs
        )
        self._states[name, index] = state
        worst = self._worst_states.get(name)
        if worst is None or worst.error < state.error:
            self._worst_states[name] = state
            self._propagated[name] = Propagated(inputs, own_share)
            if not _is_compared_with_own_input(row):
                self._magnitudes[name] = magnitude

    def _assess_output(
        self,
        operator: Operator,
        row: Row,
        metrics: Metrics,
        magnitude: ErrorMagnitude,
        inputs: tuple[TensorState, ...],
    ) -> tuple[Budget, Assessment]:
        dtype = _type_of(row)
        limit = self._limit(dtype, row)
        coarse = coarsest(operator, self._rows, dtype)
        noise = limit.noise if coarse == dtype else self._limit(coarse, row).noise
        quantized = is_quantized(operator, self._rows, inputs)
        rounding = rounding_error(operator, self._rows, inputs, noise, quantized=quantized) * self._noise
        rounding *= few_sums_factor(operator.model, magnitude, golden_peak(metrics), metrics.count)
        rounding += cancellation_error(operator.model, inputs, magnitude)
        budget = error_budget(operator.model, inputs, rounding, magnitude, metrics.count)
        if dtype == "integer" and not is_quantized_value(operator, self._rows, inputs):
            return budget, assess_integers(metrics, limit)
        if quantized:
            limit = replace(limit, distance=max(limit.distance, self._limit("integer", row).distance))
        self._record_noise(magnitude, budget)
        return budget, assess_floats(metrics, magnitude, limit, budget.allowed, budget.peak)

    def _systematic_error(
        self, operator: Operator, row: Row, metrics: Metrics, budget: Budget, inputs: tuple[TensorState, ...]
    ) -> Reason | None:
        """Return the rule that a systematic error breaks, though it is small; `None` if there is none."""
        if is_integer(row) or metrics.fit_scale is None:
            return None
        noise = self._limit(_type_of(row), row).noise * self._noise
        allowed = allowed_gain(operator.model, inputs, metrics, noise, budget)
        if abs(metrics.fit_scale - 1) <= allowed:
            return None
        return because("judge.systematic_scale", scale=metrics.fit_scale, allowed=allowed, count=metrics.count)

    def _record_noise(self, magnitude: ErrorMagnitude, budget: Budget) -> None:
        if budget.rounding and magnitude.error < inf:
            added = magnitude.error * sqrt(created_share(magnitude.error, budget.expected))
            self._added_noise.append(added / budget.rounding)

    def _judge_indices(self, operator: Operator, outputs: dict[int, int], inputs: tuple[TensorState, ...]) -> None:
        """Judge the indices that an operator returns, after its values."""
        values = [self._verdicts[number] for number in outputs.values() if not is_integer(self._rows[number])]
        known = [verdict.level.is_bad for verdict in values if verdict is not None]
        values_agree = not any(known) if known else None
        inputs_agree = not any(state.is_bad for state in inputs)
        for index, number in outputs.items():
            row = self._rows[number]
            magnitude = error_magnitude(row.metrics) if is_integer(row) else None
            if row.metrics is None or magnitude is None:
                continue
            limit = self._limit("integer", row)
            level, reason = assess_indices(row.metrics, limit, values_agree=values_agree, inputs_agree=inputs_agree)
            origin = Origin.NONE
            if level.is_bad:
                origin = Origin.BORN if inputs_agree and values_agree is not False else Origin.INHERITED
            if origin is Origin.BORN and level is Level.WRONG:
                is_stand_in = operator.outputs.get(index) != number
                self._origins.append(
                    ErrorOrigin(operator, number, magnitude, _NO_BUDGET, inputs, is_stand_in=is_stand_in)
                )
            self._verdicts[number] = Verdict(level, reason, origin)
            state = self._state(row.metrics, magnitude, 0.0 if level.is_bad else None, operator.name)
            self._states[operator.name, index] = state
            self._worst_states.setdefault(operator.name, state)

    def _pass_through(self, operator: Operator, inputs: tuple[TensorState, ...]) -> None:
        """Propagate the worst input of an operator whose outputs were not compared, and the operator's rounding."""
        if operator.model.propagation is Propagation.NONE or not inputs:
            return
        worst = worst_state(inputs)
        quantized = is_quantized(operator, self._rows, inputs)
        names = dict.fromkeys((*(name for state in inputs for name in state.skipped), operator.name))
        skipped = tuple(names)[-_MAX_SKIPPED:]
        rounding = operator.model.rounding * self._operator_noise(operator) * self._noise
        passed = replace(worst, error=hypot(worst.error, rounding), noise=hypot(worst.noise, rounding))
        self._worst_states[operator.name] = replace(passed, skipped=skipped, is_quantized=quantized)
        self._propagated[operator.name] = Propagated(inputs)

    def _operator_noise(self, operator: Operator) -> float:
        """Limit of the coarsest float type that an operator reads or writes; 0 if it has none."""
        rows = [self._rows[number] for number in operator.rows if not is_integer(self._rows[number])]
        # A damaged file may have integers where the golden dump has floats.
        types = ((coarser(row.target_dtype, row.target_dtype), row) for row in rows if row.target_dtype)
        return max((self._limit(dtype, row).noise for dtype, row in types if dtype != "integer"), default=0.0)

    def _state(self, metrics: Metrics, magnitude: ErrorMagnitude, noise: float | None, source: str = "") -> TensorState:
        """State of a bad tensor with this noise; if `noise` is `None`, of a good one whose whole error is noise."""
        low, high = metrics.golden_min, metrics.golden_max
        error = min(magnitude.error, _MAX_PROPAGATED_ERROR) if magnitude.error < inf else _HUGE_ERROR
        known_noise = error if noise is None else noise
        self._largest_noise = max(self._largest_noise, known_noise)
        return TensorState(
            error,
            known_noise,
            magnitude.rms,
            magnitude.std,
            magnitude.peak,
            0.0 if low is None or high is None else float(high - low),
            metrics.count,
            noise is not None,
            magnitude.has_special_mismatch,
            source,
            gain=0.0 if metrics.fit_scale is None else metrics.fit_scale - 1,
        )


def _is_compared_with_own_input(row: Row) -> bool:
    """Whether an inserted conversion was compared with its own input, so that the error of the input is not in it."""
    return row.evidence is not None and row.evidence.code == "pair.inserted"


def _excess(error: float, allowed: float) -> float | None:
    return error / allowed if allowed and isfinite(allowed) else None


def _type_of(row: Row) -> str:
    """Return the element type whose limits apply."""
    return coarser(row.target_dtype, row.golden_dtype)

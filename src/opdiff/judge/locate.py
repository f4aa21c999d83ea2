"""One pass over the network in the order of execution: a verdict for each tensor by the errors of its inputs.

Inputs good, output bad: the error is created here. Inputs bad, output about as bad: inherited. Output bad although no
operator adds more than noise: accumulated. If an output was not compared, the input of an operator that reads it stands
in for it. If no such input was compared either, the operator propagates the errors of its inputs, and a finding at the
next compared operator lists the operator as a suspect.

If many operators differ a little more than expected, the run is noisy and not faulty. An unexpected error of the judge
costs the verdicts of its operator (`result_or_defect`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.judgement import Level, Origin, Verdict
from opdiff.core.reasons import Reason, because
from opdiff.judge.error_budget import PEAK_TO_RMS
from opdiff.judge.error_model import Propagation
from opdiff.judge.levels import TensorLimits, assess
from opdiff.judge.tensor_errors import combined_state, has_magnitude, worst_state
from opdiff.judge.tensor_verdicts import (
    OutputJudge,
    is_unchanged,
    judge_changed,
    judge_first_seen,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.levels import MeasuredTensor
    from opdiff.judge.limits import Limits
    from opdiff.judge.network import Edge, Network, Operator, Port
    from opdiff.judge.tensor_errors import ErrorMagnitude, ErrorState
    from opdiff.judge.tensor_verdicts import CreatedError, JudgedTensor

# Operators from which the noise of a run is estimated, at least.
_MIN_OPERATORS_FOR_NOISE = 8
# If at least this share of the operators adds more than rounding, the run is noisy (other implementations), not faulty:
# one fault makes few such operators.
_MIN_NOISY_SHARE = 1 / 3
# Margin above the median noise of a run, and the largest noise of a run that is accepted.
_NOISE_MARGIN = 2.5
MAX_RUN_NOISE = 4.0
# Noise of a run that needs no explanation.
MAX_USUAL_NOISE = 1.2
Result = TypeVar("Result")


class OperatorErrors(Struct, frozen=True, gc=False):
    """Errors at an operator.

    Attributes:
        inputs: errors of its inputs.
        own_share: share of the squared error of its worst output that the operator created.
        magnitude: error of its worst output that was compared with the golden one.
    """

    inputs: tuple[ErrorState, ...] = ()
    own_share: float = 0.0
    magnitude: ErrorMagnitude | None = None


class Located(Struct, frozen=True):
    """Result of one pass over the network.

    Attributes:
        verdicts: verdict of each row.
        created: created errors, in the order of execution.
        operators: errors at each operator, by its name.
        run_noise: noise of this run in units of the expected noise.
        defects: tracebacks of unexpected errors, each of which cost the verdicts of an operator.
    """

    verdicts: tuple[Verdict, ...]
    created: tuple[CreatedError, ...]
    operators: dict[str, OperatorErrors]
    run_noise: float
    defects: tuple[str, ...] = ()


def locate(rows: Sequence[Row], network: Network, limits: Limits) -> Located:
    """Judge every row of a network; a noisy run is judged a second time, by its own noise."""
    first = _LocatePass(rows, network, limits, 1.0)
    located = first.run()
    run_noise = _noise_of_run(first.added_noise)
    if run_noise <= 1.0:
        return located
    return _LocatePass(rows, network, limits, min(run_noise, MAX_RUN_NOISE)).run()


class _LocatePass:
    """One pass over the network, from its inputs to its outputs.

    Attributes:
        added_noise: error that each operator added, in units of its rounding error, as far as known.
    """

    def __init__(self, rows: Sequence[Row], network: Network, limits: Limits, run_noise: float) -> None:
        self._rows = rows
        self._network = network
        self._limits = TensorLimits(limits, run_noise)
        self._stand_ins = _find_stand_ins(rows, network)
        self._verdicts: list[Verdict | None] = [None] * len(rows)
        self._created: list[CreatedError] = []
        self._errors: dict[str, OperatorErrors] = {}
        self._states: dict[Port, ErrorState] = {}
        self._worst_states: dict[str, ErrorState] = {}
        self.added_noise: list[float] = []
        self._largest_noise = 0.0
        self._defects: list[str] = []

    def run(self) -> Located:
        """Judge all rows."""
        for operator in self._network.operators.values():
            failure = result_or_defect(partial(self._judge_operator, operator), self._defects)
            if failure is not None:
                for row_index in operator.rows:
                    self._verdicts[row_index] = Verdict(Level.NOT_COMPARABLE, failure)
                self._created = [error for error in self._created if error.operator.name != operator.name]
        verdicts = [verdict or self._verdict_alone(row_index) for row_index, verdict in enumerate(self._verdicts)]
        return Located(
            tuple(verdicts), tuple(self._created), self._errors, self._limits.run_noise, tuple(self._defects)
        )

    def _verdict_alone(self, row_index: int) -> Verdict:
        """Verdict for a row of no known operator, by its metrics alone."""
        row, tensor = self._rows[row_index], self._limits.find_tensor(self._rows, row_index)
        if row.metrics is None:
            return Verdict(Level.NOT_COMPARABLE, row.reason or because("judge.not_measured"))
        if tensor is None:
            return Verdict(Level.NOT_COMPARABLE, because("judge.no_elements"))
        noise = tensor.limit.noise
        return Verdict(*assess(tensor, noise, PEAK_TO_RMS * noise * tensor.magnitude.rms))

    def _record(self, row_index: int, judged: JudgedTensor) -> ErrorState:
        self._verdicts[row_index] = judged.verdict
        if judged.created is not None:
            self._created.append(judged.created)
        if judged.added_noise is not None:
            self.added_noise.append(judged.added_noise)
        state = judged.state
        self._largest_noise = max(self._largest_noise, state.noise)
        return state

    def _judge_operator(self, operator: Operator) -> None:
        inputs = self._judge_inputs(operator)
        output_judge = OutputJudge(operator, inputs, self._rows, self._limits)
        outputs = self._compared_outputs(operator)
        indices: dict[int, MeasuredTensor] = {}
        for index, tensor in outputs.items():
            if tensor.is_integer and operator.error_model.propagation is Propagation.SELECT:
                indices[index] = tensor
            else:
                self._set_output(operator, index, tensor, output_judge.judge_values(tensor, index), inputs)
        if indices:
            self._judge_indices(operator, outputs, indices, output_judge)
        if not outputs and operator.error_model.propagation is not Propagation.NONE and inputs:
            self._worst_states[operator.name] = output_judge.uncompared_state()
            self._errors[operator.name] = OperatorErrors(inputs)

    def _compared_outputs(self, operator: Operator) -> dict[int, MeasuredTensor]:
        """Return the outputs that were compared, by index; inputs of readers stand in for others."""
        row_indices = operator.outputs
        stand_ins = self._stand_ins.get(operator.name) if self._stand_ins else None
        if stand_ins:
            row_indices = stand_ins | {index: own for index, own in row_indices.items() if index not in stand_ins}
        found: dict[int, MeasuredTensor] = {}
        for index, row_index in row_indices.items():
            tensor = self._limits.find_tensor(self._rows, row_index)
            if tensor is not None:
                found[index] = tensor
        return found

    # Inputs

    def _judge_inputs(self, operator: Operator) -> tuple[ErrorState, ...]:
        """Judge the inputs, and return the state of each, with its producer as the source."""
        states = []
        for edge in operator.edges:
            producer = edge.producer
            state = None
            if producer is not None:
                state = self._states.get(producer) or self._worst_states.get(producer[0])
            tensor = None if edge.row is None else self._limits.find_tensor(self._rows, edge.row)
            if tensor is not None:
                state = self._judge_input(operator, tensor, edge, state)
            if state is not None:
                source = producer[0] if producer else ""
                states.append(state if state.source == source else replace(state, source=source))
        return tuple(states)

    def _judge_input(
        self, operator: Operator, tensor: MeasuredTensor, edge: Edge, producer_state: ErrorState | None
    ) -> ErrorState:
        """Judge an input that was dumped itself, by the state of the output of its producer, `None` if unknown."""
        if producer_state is None or producer_state.uncompared:
            rounding = self._limits.noise(tensor)
            if not self._network.has_known_edges:
                # The input may come from any earlier operator, and have the noise of that operator.
                rounding = max(rounding, 2 * self._largest_noise)
            return self._record(tensor.row_index, judge_first_seen(operator, tensor, producer_state, rounding))
        if is_unchanged(tensor, producer_state):
            self._copy_verdict(tensor.row_index, edge.producer or ("", 0))
            return producer_state
        return self._record(tensor.row_index, judge_changed(operator, tensor, producer_state, self._limits))

    def _copy_verdict(self, row_index: int, producer: Port) -> None:
        """Give an input that equals the output of its producer the verdict of that output."""
        name, index = producer
        operator = self._network.operators.get(name)
        own = operator.outputs.get(index) if operator else None
        source = self._stand_ins.get(name, {}).get(index, own)
        verdict = None if source is None else self._verdicts[source]
        if verdict is not None and source != row_index:
            is_created = verdict.origin is Origin.CREATED
            self._verdicts[row_index] = replace(verdict, origin=Origin.INHERITED) if is_created else verdict

    # Outputs

    def _set_output(
        self,
        operator: Operator,
        index: int,
        tensor: MeasuredTensor,
        judged: JudgedTensor,
        inputs: tuple[ErrorState, ...],
    ) -> None:
        name, state = operator.node.name, self._record(tensor.row_index, judged)
        # An output of an inserted conversion may have been compared with the input of the conversion. Its error is only
        # what the conversion added, and the error of the input comes on top of it.
        is_own_input = tensor.row.is_own_input
        if is_own_input and inputs:
            state = combined_state(worst_state(inputs), state)
        self._states[name, index] = state
        worst = self._worst_states.get(name)
        if worst is None or worst.error < state.error:
            self._worst_states[name] = state
            known = self._errors.get(name)
            magnitude = tensor.magnitude if not is_own_input else known.magnitude if known else None
            self._errors[name] = OperatorErrors(inputs, judged.own_share, magnitude)

    def _judge_indices(
        self,
        operator: Operator,
        outputs: dict[int, MeasuredTensor],
        indices: dict[int, MeasuredTensor],
        output_judge: OutputJudge,
    ) -> None:
        """Judge the indices that an operator returns, after its values."""
        values = [self._verdicts[tensor.row_index] for index, tensor in outputs.items() if index not in indices]
        known = [verdict.level.is_bad for verdict in values if verdict is not None]
        values_agree = not any(known) if known else None
        for index, tensor in indices.items():
            state = self._record(tensor.row_index, output_judge.judge_indices(tensor, index, values_agree=values_agree))
            self._states[operator.name, index] = state
            self._worst_states.setdefault(operator.name, state)


def _find_stand_ins(rows: Sequence[Row], network: Network) -> dict[str, dict[int, int]]:
    """Return rows of inputs that hold outputs which were not compared: by operator and index, the first reader's."""
    found: dict[str, dict[int, int]] = {}
    for reader in network.operators.values():
        for edge in reader.edges:
            if edge.producer is None or edge.row is None or not has_magnitude(rows[edge.row].metrics):
                continue
            name, index = edge.producer
            producer = network.operators.get(name)
            if producer is None or producer.error_model.propagation is Propagation.NONE:
                continue
            own = producer.outputs.get(index)
            if own is None or not has_magnitude(rows[own].metrics):
                found.setdefault(name, {}).setdefault(index, edge.row)
    return found


def _noise_of_run(added: Sequence[float]) -> float:
    """Return the noise that operators of a run may add, by the noise that each adds, in units of the expected noise."""
    if len(added) < _MIN_OPERATORS_FOR_NOISE:
        return 1.0
    noisy = [noise for noise in added if noise > 1.0]
    # Operators that only move data add nothing, and behind large errors the noise of an operator does not show.
    is_most = len(noisy) >= max(_MIN_OPERATORS_FOR_NOISE, _MIN_NOISY_SHARE * len(added))
    ordered = sorted(noisy if is_most else added)
    return _NOISE_MARGIN * ordered[len(ordered) // 2]


def result_or_defect(work: Callable[[], Result], defects: list[str]) -> Result | Reason:
    """Return the result of `work`, or the reason why there is none; the traceback is appended to `defects`."""
    try:
        return work()
    except MemoryError:
        return because("measure.no_memory")
    except Exception as error:  # noqa: BLE001  an unexpected error is shown as a defect
        from traceback import format_exc

        defects.append(format_exc())
        return because("judge.defect", error=repr(error))

"""Created here, inherited or accumulated: the decision for one output, and the errors that operators pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Origin
from opdiff.judge.error_budget import created_share, max_inherited
from opdiff.judge.error_magnitude import has_magnitude
from opdiff.judge.error_model import Propagation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.judgement import Verdict
    from opdiff.core.metrics import Metrics
    from opdiff.judge.error_budget import Budget
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.error_model import OpErrorModel
    from opdiff.judge.error_state import ErrorState
    from opdiff.judge.network import Network, Operator


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


def find_stand_ins(rows: Sequence[Row], network: Network) -> dict[str, dict[int, int]]:
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


def origin_of(
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


def own_share_of(magnitude: ErrorMagnitude, budget: Budget) -> float:
    """Return the share of the squared error that the operator itself created."""
    return 1.0 if magnitude.has_special_mismatch else created_share(magnitude.error, budget.expected)

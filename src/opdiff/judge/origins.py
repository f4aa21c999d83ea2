"""Origins of errors in a network, and the errors that operators pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.core.judgement import Verdict
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.network import Operator
    from opdiff.judge.noise import Budget, TensorState


class ErrorOrigin(NamedTuple):
    """A tensor at which an error was created.

    Attributes:
        operator: operator of the tensor.
        row: number of the tensor's row.
        magnitude: magnitude of the error.
        budget: allowed error.
        inputs: errors of the operator's inputs.
        is_input: the tensor is an input whose producer is unknown, or that changed after it was written.
        is_stand_in: the operator's own output was not compared; the row is that of an operator that reads it.
    """

    operator: Operator
    row: int
    magnitude: ErrorMagnitude
    budget: Budget
    inputs: tuple[TensorState, ...]
    is_input: bool = False
    is_stand_in: bool = False


class Propagated(NamedTuple):
    """Errors of the inputs of an operator, and the share of its output's error that it created."""

    inputs: tuple[TensorState, ...] = ()
    own_share: float = 0.0


class Located(NamedTuple):
    """Result of one pass over the network.

    Attributes:
        verdicts: verdict of each row.
        origins: origins of errors, in the order of execution.
        propagated: by operator, the errors that pass through it.
        noise: noise of this run in units of the expected noise.
        defects: tracebacks of unexpected errors, each of which cost the verdicts of an operator.
    """

    verdicts: tuple[Verdict, ...]
    origins: tuple[ErrorOrigin, ...]
    propagated: dict[str, Propagated]
    noise: float
    defects: tuple[str, ...] = ()

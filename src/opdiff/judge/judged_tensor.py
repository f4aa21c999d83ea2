"""Result of judging one tensor in its network."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Origin, Verdict
from opdiff.judge.error_state import measured_state

if TYPE_CHECKING:
    from opdiff.judge.error_budget import Budget
    from opdiff.judge.error_state import ErrorState
    from opdiff.judge.levels import Assessment
    from opdiff.judge.origins import CreatedError
    from opdiff.judge.tensor_limits import MeasuredTensor


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


def judged_input(
    error: CreatedError, tensor: MeasuredTensor, assessment: Assessment, origin: Origin, noise: float
) -> JudgedTensor:
    """Return the result for an input whose error has this origin.

    `error` applies if the error was created. `noise` is the part of the error that is noise if the tensor is bad.
    """
    created = error if origin is Origin.CREATED else None
    state = measured_state(tensor.metrics, tensor.magnitude, noise if assessment[0].is_bad else None)
    return JudgedTensor(verdict_of(tensor, assessment, origin, error.budget, created), state, created)


def verdict_of(
    tensor: MeasuredTensor, assessment: Assessment, origin: Origin, budget: Budget, created: CreatedError | None
) -> Verdict:
    """Return the verdict for a tensor whose error has this origin; `created` is the error if it was created."""
    level, reason = assessment
    # A stand-in is a row of another operator, which reads the error.
    shown = Origin.INHERITED if created is not None and created.is_stand_in else origin
    allowed = budget.allowed
    return Verdict(level, reason, shown, tensor.magnitude.error / allowed if allowed and isfinite(allowed) else None)

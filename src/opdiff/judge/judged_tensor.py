"""Result of judging one tensor in its network."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Origin, Verdict
from opdiff.judge.error_state import ErrorState, measured_state

if TYPE_CHECKING:
    from opdiff.judge.levels import Assessment
    from opdiff.judge.origins import CreatedError
    from opdiff.judge.tensor_limits import MeasuredTensor


class JudgedTensor(Struct, frozen=True):
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


def judged_tensor(
    error: CreatedError, tensor: MeasuredTensor, assessment: Assessment, origin: Origin, noise: float, source: str = ""
) -> JudgedTensor:
    """Return the result for a tensor whose error has this origin.

    `error` applies if the error was created. `noise` is the part of the error that is noise if the tensor is bad.
    """
    level, reason = assessment
    is_created = origin is Origin.CREATED
    # A stand-in is a row of another operator, which reads the error.
    shown = Origin.INHERITED if is_created and error.is_stand_in else origin
    return JudgedTensor(
        Verdict(level, reason, shown, _excess(tensor.magnitude.error, error.budget.allowed)),
        measured_state(tensor.metrics, tensor.magnitude, noise if level.is_bad else None, source),
        error if is_created else None,
    )


def _excess(error: float, allowed: float) -> float | None:
    return error / allowed if allowed and isfinite(allowed) else None

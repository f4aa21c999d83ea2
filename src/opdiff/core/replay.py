"""Results of replaying operators: each is computed again on the CPU, from the inputs that it had on the NPU."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dump import Unit
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable


class ReplayVerdict(StrEnum):
    """Verdict for one operator: whether it computed from its inputs what it should."""

    INNOCENT = "innocent"
    GUILTY = "guilty"
    NOT_REPLAYABLE = "not replayable"


class Arithmetic(StrEnum):
    """Ways of computing that a device may use for the same operator, the baseline first."""

    FOLDED = "folded"
    """Weights rounded to the device's type, normalizations folded into those of convolutions before them."""
    UNFOLDED = "unfolded"
    """Weights rounded, normalizations computed separately."""
    EACH_STEP = "each step"
    """Weights rounded, and the result of every original operator."""
    EXACT = "exact"
    """No rounding except that of the output."""


class ReplayedInput(Struct, frozen=True):
    """A tensor of the original model, and the dumped tensor that its values come from, as `conv1:input:0`."""

    tensor: str
    source: str


def largest_excess(errors: Iterable[tuple[float, float]]) -> float:
    """Return the largest of some errors in units of their limits; infinite if one must be 0 and is not."""
    return max((value / limit if limit else inf for value, limit in errors if value), default=0.0)


class ReplayedOutput(Struct, frozen=True):
    """One output of a replayed operator, compared with the output of the NPU.

    Attributes:
        tensor: the dumped output, as `conv1:output:0`.
        original: the tensor of the original model.
        error: own error: Euclidean distance between both, relative to the replayed output.
        limit: the own error that the operator may have.
        peak: largest error of an element, relative to the element and the root mean square together.
        peak_limit: the peak that the operator may have.
        unequal: share of integers that differ; for floats of elements that are NaN on one side only.
        unequal_limit: the share that may differ.
        arithmetic: the way of computing that comes nearest to the NPU.
        worst: coordinates of the element with the largest error.
        worst_target: its value on the NPU.
        worst_replayed: its replayed value.
    """

    tensor: str
    original: str
    error: float
    limit: float
    peak: float = 0.0
    peak_limit: float = 0.0
    unequal: float = 0.0
    unequal_limit: float = 0.0
    arithmetic: Arithmetic = Arithmetic.FOLDED
    worst: Shape = ()
    worst_target: float = 0.0
    worst_replayed: float = 0.0

    @property
    def excess(self) -> float:
        """Own error in units of its limit; above 1 is too much."""
        return largest_excess(
            [(self.error, self.limit), (self.peak, self.peak_limit), (self.unequal, self.unequal_limit)]
        )


class ReplayCause(Struct, frozen=True):
    """A change of the computation that explains the output of the device.

    Attributes:
        kind: kind of error; `UNKNOWN` if nothing explains all of it.
        reason: the change.
        before: own error without the change.
        after: error that remains with it.
        runner_up: another change that comes near; `None` if there is none.
        is_share: whether the errors are shares of integers that differ.
    """

    kind: ErrorKind
    reason: Reason
    before: float
    after: float
    runner_up: Reason | None = None
    is_share: bool = False

    @property
    def evidence(self) -> Reason:
        """The change, with the error before and after; a level of noise, which leaves no smaller error, without."""
        if self.after >= self.before:
            return self.reason
        code = "replay.cause_elements" if self.is_share else "replay.cause"
        return because(code, cause=self.reason, before=self.before, after=self.after)


class Replay(Struct, frozen=True):
    """One operator that was computed again.

    Attributes:
        operator: its name.
        op_type: its type.
        verdict: whether it is at fault.
        originals: operators of the original model that were computed.
        inputs: the values it was computed from.
        outputs: its outputs, the worst first.
        reason: why it cannot be computed again; `None` if it can.
        cause: what explains the output of a guilty operator; `None` if nothing does.
        unit: rank, token and graph; `None` offline.
    """

    operator: str
    op_type: str
    verdict: ReplayVerdict
    originals: tuple[str, ...] = ()
    inputs: tuple[ReplayedInput, ...] = ()
    outputs: tuple[ReplayedOutput, ...] = ()
    reason: Reason | None = None
    cause: ReplayCause | None = None
    unit: Unit | None = None

    @property
    def error(self) -> float | None:
        """Own error of the worst output; `None` if it was not computed."""
        return self.outputs[0].error if self.outputs else None

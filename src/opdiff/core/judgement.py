"""Judgement of a comparison: a level for each row, and the operators at fault."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from opdiff.core.dump import Unit
from opdiff.core.reasons import Reason


class Level(StrEnum):
    """Level of a tensor, best first; `NOT_COMPARABLE` is no rating."""

    EXACT = "exact"
    ROUNDING = "rounding"
    NOISE = "noise"
    SUSPICIOUS = "suspicious"
    WRONG = "wrong"
    NOT_COMPARABLE = "not comparable"

    @property
    def is_bad(self) -> bool:
        """Whether the tensor needs attention."""
        return self in _BAD


_BAD = (Level.SUSPICIOUS, Level.WRONG)

LEVELS = tuple(Level)
"""Best first; tensors that cannot be compared last."""


class Origin(StrEnum):
    """Origin of the error of a bad tensor: its own operator, an earlier one, or many operators together."""

    NONE = ""
    BORN = "born"
    INHERITED = "inherited"
    ACCUMULATED = "accumulated"


class Verdict(NamedTuple):
    """Verdict for one row.

    Attributes:
        level: level of the tensor.
        rule: rule that decided the level.
        origin: origin of the error; `NONE` for a good tensor.
        excess: error divided by the error that the operator may have with these inputs; above 1 is too much.
    """

    level: Level
    rule: Reason
    origin: Origin = Origin.NONE
    excess: float | None = None


class ErrorKind(StrEnum):
    """Kinds of error that metrics prove; see docs/locating.md."""

    OVERFLOW = "overflow"
    SCALE = "scale"
    OFFSET = "offset"
    PERMUTED = "permuted"
    CHANNEL = "channel"
    OUTLIERS = "outliers"
    CLIPPING = "clipping"
    QUANTIZATION = "quantization"
    PRECISION = "precision"
    MEMORY = "memory"
    FUSION = "fusion"
    INPUT = "input"
    PAIRING = "pairing"
    INDICES = "indices"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """An operator at fault, or another cause of bad tensors, with its evidence.

    Attributes:
        operator: operator in which the error originates.
        op_type: type of the operator.
        tensor: worst tensor of the operator, as `conv1:output:0`.
        level: level of that tensor.
        kind: kind of error.
        evidence: facts that prove it.
        remedies: suggested actions.
        share: share of the error of the network outputs that comes from here; `None` if they have none.
        path: operators from here to a network output.
        excess: as in `Verdict`.
        before: uncompared operators right before it, in one of which the error may originate.
        passes: fusion passes of the graph that created it.
        buffer_passes: passes that fused operators through the unified buffer into it.
        units: units of graph mode in which it was found; the evidence is from the first one.
    """

    operator: str
    op_type: str
    tensor: str
    level: Level
    kind: ErrorKind
    evidence: tuple[Reason, ...] = ()
    remedies: tuple[Reason, ...] = ()
    share: float | None = None
    path: tuple[str, ...] = ()
    excess: float | None = None
    before: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    buffer_passes: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()


class Colour(StrEnum):
    """Documented colour of a row."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    NONE = ""


class DocumentedResult(NamedTuple):
    """Documented result of a row in graph mode: PASS or FAIL, whether the accuracy is reached, its colour, and why."""

    result: str
    reached: str
    colour: Colour
    why: tuple[Reason, ...] = ()


class Judgement(NamedTuple):
    """Judgement of a whole comparison.

    Attributes:
        limits: path of the limits file; empty for the defaults.
        verdicts: verdict for each row, in the order of the rows.
        findings: operators at fault, the worst first.
        first_bad: first operator, in the order of execution, in which an error originates; empty for none.
        worst: operator of the first finding; empty for none.
        advice: the result in a few sentences.
        noise: noise of this run in units of the expected noise, at least 1.
        documented: documented result of each row in graph mode.
        defects: tracebacks of unexpected errors of the judge; normally there are none.
    """

    limits: str
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    first_bad: str = ""
    worst: str = ""
    advice: tuple[Reason, ...] = ()
    noise: float = 1.0
    documented: tuple[DocumentedResult, ...] = ()
    defects: tuple[str, ...] = ()

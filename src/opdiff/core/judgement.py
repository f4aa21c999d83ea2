"""Judgement of a comparison: a level for each row, and the operators at fault."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from opdiff.core.dump import Unit
from opdiff.core.reasons import Reason


class Level(StrEnum):
    """How good a tensor is, best first; beside them what cannot be said."""

    EXACT = "exact"
    ROUNDING = "rounding"
    NOISE = "noise"
    SUSPICIOUS = "suspicious"
    WRONG = "wrong"
    NOT_COMPARABLE = "not comparable"

    @property
    def is_bad(self) -> bool:
        """Whether it has to be looked at."""
        return self in _BAD


_BAD = (Level.SUSPICIOUS, Level.WRONG)

LEVELS = tuple(Level)
"""Best first; tensors that cannot be compared last."""


class Birth(StrEnum):
    """Where the error of a bad tensor came into being: in its own operator, in an earlier one, or little by little."""

    NONE = ""
    BORN = "born"
    INHERITED = "inherited"
    ACCUMULATED = "accumulated"


class Verdict(NamedTuple):
    """What is thought of a row.

    Attributes:
        level: how good it is.
        rule: the rule that decided.
        origin: where its error comes from; nothing when it is good.
        excess: its error beside the largest that its operator may have with these inputs; above 1 is too much.
    """

    level: Level
    rule: Reason
    origin: Birth = Birth.NONE
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
    """An operator at fault, or another reason for bad tensors, with everything that speaks for it.

    Attributes:
        operator: where the error was born.
        op_type: its type.
        tensor: its worst tensor, as `conv1:output:0`.
        level: how bad that is.
        kind: kind of error.
        evidence: facts that prove it.
        remedies: what to do.
        share: how much of the error of the network's outputs comes from here; `None` when they have none.
        path: operators from here to the output that it spoils most.
        excess: as in `Verdict`.
        before: operators right before it that could not be compared; the error may be born in one of them.
        passes: fusion passes of the graph that made it.
        buffer_passes: passes that fused operators through the unified buffer into it.
        units: in graph mode the ranks, tokens and graphs in which it was found, the one that is described first.
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
    """How a row is marked."""

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
    """What is thought of a whole comparison.

    Attributes:
        limits: the file with the limits; empty for the defaults.
        verdicts: one for each row, in the order of the rows.
        findings: what is at fault, the worst first.
        first_bad: the first operator, in the order of execution, in which an error was born; empty for none.
        worst: the operator of the first finding; empty for none.
        advice: the result in at most three sentences.
        noise: how much noisier the operators of this run are than expected of their types; 1 for not at all.
        documented: in graph mode the documented result of each row.
    """

    limits: str
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    first_bad: str = ""
    worst: str = ""
    advice: tuple[Reason, ...] = ()
    noise: float = 1.0
    documented: tuple[DocumentedResult, ...] = ()

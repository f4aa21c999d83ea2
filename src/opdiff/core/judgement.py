"""Judgement of a comparison: a level for each row, and the operators at fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence  # noqa: TC003  msgspec reads them
from enum import StrEnum

from msgspec import Struct

from opdiff.core.dump import Unit
from opdiff.core.reasons import Reason, because


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
    CREATED = "born"
    INHERITED = "inherited"
    ACCUMULATED = "accumulated"


class Verdict(Struct, frozen=True, gc=False):
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
    OPERAND = "operand"
    ACTIVATION = "activation"
    BIAS = "bias"
    PADDING = "padding"
    FUNCTION = "function"
    AXIS = "axis"
    FUSION = "fusion"
    INPUT = "input"
    PAIRING = "pairing"
    INDICES = "indices"
    UNKNOWN = "unknown"


class Finding(Struct, frozen=True):
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
        missing: why its own output was not compared, so that it is a suspect; `tensor` is then that of a reader.
        is_proved: whether the operator was computed again, and is itself at fault.
        proved_units: units of graph mode in which that was proved.
        exceeds_type: whether values exceed the range of the target's element type.
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
    missing: Reason | None = None
    is_proved: bool = False
    proved_units: tuple[Unit, ...] = ()
    exceeds_type: bool = False


class Colour(StrEnum):
    """Documented colour of a row."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    NONE = ""


class DocumentedResult(Struct, frozen=True, gc=False):
    """Documented result of a row in graph mode: PASS or FAIL, whether the accuracy is reached, its colour, and why."""

    result: str
    reached: str
    colour: Colour
    why: tuple[Reason, ...] = ()


MIN_COVERAGE = 0.5
"""Below this share of compared operators a comparison without errors is no proof that there are none."""


class Coverage(Struct, frozen=True):
    """How much of a network was compared, and by what.

    Attributes:
        operators: operators of the target that should have a partner.
        compared: those of which an output was compared.
        data: tensors compared by their data.
        statistics: tensors compared by minimum, maximum and other statistics only.
        checksums: tensors compared by checksums only.
        unseen: operators without a compared tensor behind them, which the comparison says nothing about.
        left_out: number of files of both sides that were not recognized as dumps.
    """

    operators: int = 0
    compared: int = 0
    data: int = 0
    statistics: int = 0
    checksums: int = 0
    unseen: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def share(self) -> float:
        """Share of the operators that were compared."""
        return self.compared / self.operators if self.operators else 0.0


class Agreement(StrEnum):
    """How well the outputs of the model agree with the golden ones, best first."""

    MATCH = "match"
    SLIGHT = "slight"
    SIGNIFICANT = "significant"
    UNKNOWN = "unknown"


class ModelOutputs(Struct, frozen=True):
    """Agreement of the model's outputs.

    Attributes:
        agreement: of all outputs; `UNKNOWN` if one was not compared, or by statistics only, unless another one differs.
        tensor: the worst output.
        cosine: its cosine similarity; `None` if it is undefined.
        error: its relative error; infinite if only the target is not zero or not finite.
        missing: operators whose outputs are those of the model and were not compared.
    """

    agreement: Agreement = Agreement.UNKNOWN
    tensor: str = ""
    cosine: float | None = None
    error: float | None = None
    missing: tuple[str, ...] = ()


_MARKS = [(level, origin) for level in Level for origin in Origin]
_CODES = {mark: code for code, mark in enumerate(_MARKS)}


def verdict_code(verdict: Verdict) -> int:
    """Return level and origin as a number below 256, which is stored beside a verdict; see `Judgement.marks`."""
    return _CODES[verdict.level, verdict.origin]


class Outcome(StrEnum):
    """Result of a comparison in a word; `UNSURE` if too little was compared, or the inputs do not fit together."""

    CLEAN = "clean"
    SUSPICIOUS = "suspicious"
    WRONG = "wrong"
    UNSURE = "unsure"


class Judgement(Struct, frozen=True):
    """Judgement of a whole comparison.

    Attributes:
        limits: path of the limits file that changes the defaults; empty if none does.
        verdicts: verdict for each row, in the order of the rows.
        findings: operators at fault, the worst first.
        first_bad: first operator, in the order of execution, in which an error originates; empty for none.
        worst: operator of the first finding; empty for none.
        advice: the result in a few sentences.
        noise: noise of this run in units of the expected noise, at least 1.
        documented: documented result of each row in graph mode.
        defects: tracebacks of unexpected errors of the judge; normally there are none.
        coverage: how much was compared.
        outputs: agreement of the model's outputs.
        misfit: why the inputs do not fit together, so that no verdict is possible; `None` if they do.
        first_unit: unit of `first_bad` in graph mode.
        remarks: explanations of the verdict, such as documented results that differ from it.
        candidates: operators with bad outputs in the order of execution, if nothing else is known about the graph.
        costly_layers: quantized layers that add most error, the first most, if the golden side is not compiled and
            many operators have a part in the error.
        has_withdrawn: whether replay showed that operators are innocent, whose findings were withdrawn.
    """

    limits: str
    verdicts: Sequence[Verdict]
    findings: tuple[Finding, ...] = ()
    first_bad: str = ""
    worst: str = ""
    advice: tuple[Reason, ...] = ()
    noise: float = 1.0
    documented: Sequence[DocumentedResult] = ()
    defects: tuple[str, ...] = ()
    coverage: Coverage = Coverage()
    outputs: ModelOutputs = ModelOutputs()
    misfit: Reason | None = None
    first_unit: str = ""
    remarks: tuple[Reason, ...] = ()
    candidates: tuple[str, ...] = ()
    costly_layers: tuple[str, ...] = ()
    has_withdrawn: bool = False

    def marks(self) -> Iterable[tuple[Level, Origin]]:
        """Return level and origin of each row. Verdicts that are stored in a file are not decoded for it."""
        codes: bytes = getattr(self.verdicts, "codes", b"")
        return map(_MARKS.__getitem__, codes) if codes else ((each.level, each.origin) for each in self.verdicts)

    @property
    def has_judged_rows(self) -> bool:
        """Whether any row was compared and can be judged."""
        return any(level is not Level.NOT_COMPARABLE for level, _ in self.marks())

    @property
    def outcome(self) -> Outcome:
        """Result in a word; tensors that were not compared, or by statistics only, are not clean."""
        if self.misfit is not None:
            return Outcome.UNSURE
        levels = {level for level, _ in self.marks()}
        if Level.WRONG in levels:
            return Outcome.WRONG
        if Level.SUSPICIOUS in levels:
            return Outcome.SUSPICIOUS
        coverage = self.coverage
        is_enough = coverage.compared > 0 and coverage.share >= MIN_COVERAGE and not coverage.unseen
        return Outcome.CLEAN if is_enough and coverage.statistics <= coverage.data else Outcome.UNSURE


def changed_limits(path: str) -> tuple[Reason, ...]:
    """Return the sentence about the file that changed the limits; nothing if the path is empty."""
    return (because("judge.changed_limits", path=path),) if path else ()

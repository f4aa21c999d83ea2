"""Values of a chain of stages: the same model from its original to the run on the device, and the steps in between.

Stage, Stage, … ──compare neighbours, and each stage with the first──► Step, … ──judge──► ChainVerdict
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.graph import ModelOrigin

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.dump import DumpKind
    from opdiff.core.judgement import Finding, Outcome
    from opdiff.core.reasons import Reason


class StageKind(StrEnum):
    """Form of the model that was run, in the order of a chain."""

    ORIGINAL = "original"
    QUANTIZED = "quantized"
    """The quantized original model (fake-quantized), run on a CPU or GPU."""
    FUSION_OFF = "fusion-off"
    OFFLINE = "offline"


class Change(StrEnum):
    """Difference between two stages that can cost accuracy."""

    QUANTIZATION = "quantization"
    CONVERSION = "conversion"
    FUSION = "fusion"
    VERSION = "version"
    PROCESSOR = "processor"


class Stage(NamedTuple):
    """One run of the model.

    Attributes:
        path: directory of its dump.
        kind: form of the model.
        data: dump of an NPU, or arrays.
        quantized: whether the model is quantized.
        rules: rule file of the compiled model; empty if there is none.
        fused: number of its fused operators; `None` without rules.
        origin: how it was compiled.
        change: another version or processor than in the stage before it, as the user said; `None` if unknown.
        evidence: why it was taken for this kind.
    """

    path: str
    kind: StageKind
    data: DumpKind
    quantized: bool = False
    rules: str = ""
    fused: int | None = None
    origin: ModelOrigin = ModelOrigin()
    change: Change | None = None
    evidence: tuple[Reason, ...] = ()


class Step(NamedTuple):
    """Comparison of two stages.

    Attributes:
        golden: number of the earlier stage, from 0.
        target: number of the later stage.
        changes: differences between the two; several if a stage between them is missing.
        comparison: the comparison; `None` if there is none.
        problem: why there is none.
    """

    golden: int
    target: int
    changes: tuple[Change, ...]
    comparison: Comparison | None = None
    problem: Reason | None = None


class Loss(StrEnum):
    """Kind of loss in a step."""

    NONE = "none"
    NODE = "node"
    """Single operators are at fault."""
    ACCUMULATED = "accumulated"
    """Errors of many operators add up; none of them is at fault alone."""
    INPUT = "input"
    """The two stages were run on different inputs."""
    UNKNOWN = "unknown"
    """The step was not compared, or too little of it."""


class StepVerdict(NamedTuple):
    """Verdict for one step.

    Attributes:
        loss: kind of loss.
        changes: differences between the stages that may be its cause.
        finding: the worst operator at fault; `None` if there is none.
        shown_by: number of the stage, from 0, whose comparison with the first one shows it; `None` if the step does.
    """

    loss: Loss
    changes: tuple[Change, ...]
    finding: Finding | None = None
    shown_by: int | None = None


class ChainVerdict(NamedTuple):
    """Verdict for a chain.

    Attributes:
        outcome: result in a word.
        steps: verdict for each step between neighbours.
        culprit: number of the step that lost most; `None` if none is known to have lost accuracy.
        advice: the result in sentences, the most important one first, and what to do.
    """

    outcome: Outcome
    steps: tuple[StepVerdict, ...]
    culprit: int | None = None
    advice: tuple[Reason, ...] = ()


class Chain(NamedTuple):
    """Stages in the order of the chain, the comparisons between them, and the verdict.

    Attributes:
        stages: the stages.
        steps: comparisons of neighbours.
        totals: comparisons with the first stage, for the third stage and all later ones.
        verdict: the verdict.
        notes: remarks about the directories: other order, left out.
    """

    stages: tuple[Stage, ...]
    steps: tuple[Step, ...]
    totals: tuple[Step, ...]
    verdict: ChainVerdict
    notes: tuple[Reason, ...] = ()

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons that were made."""
        return tuple(step.comparison for step in (*self.steps, *self.totals) if step.comparison is not None)

    def total(self, target: int) -> Step:
        """Return the comparison of a stage, not the first one, with the first one."""
        return self.steps[0] if target == 1 else self.totals[target - 2]

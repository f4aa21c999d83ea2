"""The values of a comparison: what is to be compared with what, and what came of it.

    Dump, Dump, rules ──pair──► Pairing | Unpaired ──measure──► Measured | Unpaired ──► Comparison
                      └──pair──► GraphNode, …       Comparison without tensors ──judge──► Judgement

Small, frozen, picklable, like everything in `model`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.core.dump import Dump, SideTensor
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, TensorKey


class OpLabel(NamedTuple):
    """What the rows of one operator have in common.

    Attributes:
        index: the number of its group.
        sequence: its own number in the rule file; 0 without one.
        op_type: its type.
        target: the target's operators, comma-separated; `*` when there is none.
        golden: the golden operators, comma-separated; `*` when there is none.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    sequence: int
    op_type: str
    target: str
    golden: str


class Unit(NamedTuple):
    """One token of one graph of one rank; `None` where there are no ranks, or only one graph."""

    rank: int | None
    token: int
    graph: int | None

    def __str__(self) -> str:
        parts = (("rank", self.rank), ("token", self.token), ("graph", self.graph))
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)


class Pairing(NamedTuple):
    """Two tensors that should hold the same numbers, and the evidence for it.

    Attributes:
        label: what it has in common with the other rows of its operator.
        target: the target's tensor.
        golden: the golden tensor.
        layout: the layout of the golden array that the rule file declares; empty when it does not.
        origin_shape: the shape that the rule file declares; empty when it does not.
        evidence: the reason why these two belong together.
        confidence: 1.0 for what a rule file or equal names say, less for what was guessed.
        unit: the token of graph mode; `None` offline.
        golden_type: the type of the golden operator, where it is known.
        timestamp: when the operator was dumped; graph mode.
        stack: where in the user's code the operator comes from; graph mode.
    """

    label: OpLabel
    target: SideTensor
    golden: SideTensor
    layout: str = ""
    origin_shape: Shape = ()
    evidence: Reason | None = None
    confidence: float = 1.0
    unit: Unit | None = None
    golden_type: str = ""
    timestamp: int = 0
    stack: str = ""

    @property
    def key(self) -> TensorKey:
        """The target's tensor."""
        return self.target.key

    @property
    def golden_key(self) -> TensorKey:
        """The golden tensor."""
        return self.golden.key

    @property
    def nbytes(self) -> int:
        """Data on both sides."""
        return self.target.nbytes + self.golden.nbytes


class Unpaired(NamedTuple):
    """A tensor, or a whole operator (`key` is `None`), without a partner, and the reason.

    Attributes:
        label: what it has in common with the other rows of its operator.
        key: the target's tensor; `None` for a whole operator.
        target: the target's tensor, if it was dumped.
        reason: why it cannot be compared.
        unit: the token of graph mode; `None` offline.
        path: the file of the operator; graph mode.
        timestamp: when the operator was dumped; graph mode.
        stack: where in the user's code the operator comes from; graph mode.
        golden_only: this is a golden operator that nothing was compared with; graph mode.
        has_data: whether the operator was dumped with its data, not as statistics.
    """

    label: OpLabel
    key: TensorKey | None
    target: SideTensor | None
    reason: Reason
    unit: Unit | None = None
    path: str = ""
    timestamp: int = 0
    stack: str = ""
    golden_only: bool = False
    has_data: bool = True


class Metrics(NamedTuple):
    """What two tensors of equal size have to do with each other; numbers only.

    NaN is a measured NaN (there are NaNs or infinities in the data). `None` is not measured: `notes` says why.
    The documented ten come first; the rest is over the elements that are finite on both sides.

    The fit is the straight line x = scale·y + offset that comes nearest to the target; what it leaves is the relative
    Euclidean distance from that line. The bins of the histograms are those of `measure.sums`: equal, below the first
    edge, from each edge on.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count
    cosine: float | None
    max_absolute_error: float | int | None
    accumulated_relative_error: float | None
    relative_euclidean_distance: float | None
    kl_divergence: float | None
    target_mean: float | None
    target_std: float | None
    golden_mean: float | None
    golden_std: float | None
    mean_absolute_error: float | None
    root_mean_square_error: float | None
    max_relative_error: float | None
    mean_relative_error: float | None
    # Ours.
    is_equal: bool
    target_nans: int
    target_infs: int
    golden_nans: int
    golden_infs: int
    special_mismatches: int
    first_special_mismatch: int | None
    finite_count: int
    finite_cosine: float | None
    centred_cosine: float | None
    norm_ratio: float | None
    snr_db: float | None
    error_bias: float | None
    over_1_permille: float | None
    over_5_permille: float | None
    max_ulp: float | int | None
    worst_index: int | None
    worst_target: float | int | None
    worst_golden: float | int | None
    notes: tuple[str, ...] = ()
    target_min: float | int | None = None
    target_max: float | int | None = None
    golden_min: float | int | None = None
    golden_max: float | int | None = None
    fit_scale: float | None = None
    fit_offset: float | None = None
    fit_distance: float | None = None
    zero_golden: float | None = None
    worst_relative_index: int | None = None
    relative_histogram: tuple[int, ...] = ()
    ulp_histogram: tuple[int, ...] = ()


class Measured(NamedTuple):
    """A pairing that was measured, or that turned out not to be measurable.

    Attributes:
        pairing: what was compared.
        target_dtype: the target's element type.
        golden_dtype: the golden element type.
        shape: the shape in which they were compared; the target's stored shape when they could not be.
        steps: what was done to bring both to one layout.
        metrics: the numbers; `None` when there are none.
        custom: values and messages of metrics of the user's own, by name.
        overflow: whether the target saturated or has infinities; `None` when its type cannot.
        reason: why there are no numbers, or what is to be known about them; empty otherwise.
    """

    pairing: Pairing
    target_dtype: str
    golden_dtype: str
    shape: Shape
    steps: tuple[Reason, ...] = ()
    metrics: Metrics | None = None
    custom: tuple[tuple[str, str, str], ...] = ()
    overflow: bool | None = None
    reason: str = ""


Row = Measured | Unpaired


class GraphNode(NamedTuple):
    """An operator of the target's network and what feeds it.

    Attributes:
        name: its name, as the rows have it.
        op_type: its type.
        inputs: `producer:output` for each input; an empty text for one of which nothing is known.
        originals: the operators of the original model that it stands for.
        passes: the fusion passes of the graph that made it.
        buffer_passes: the passes that fused operators through the unified buffer into it.
        is_guess: what feeds it was found out by device addresses or by the order of execution, not told by a rule file.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    buffer_passes: tuple[str, ...] = ()
    is_guess: bool = False


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
    """

    limits: str
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    first_bad: str = ""
    worst: str = ""
    advice: tuple[Reason, ...] = ()
    noise: float = 1.0


class Profile(NamedTuple):
    """How large the errors of a bad tensor are along one of its axes: a number for each slice.

    Attributes:
        row: the number of the tensor's row.
        axis: which axis.
        letter: what it is called in the layout, as `C`; empty when nothing is known about it.
        extent: of the axis.
        width: how many indices a slice has; the last one may have fewer.
        seen: the share of the elements that was looked at.
        errors: the root of the mean square of the errors that are finite.
        largest: the largest of them.
        not_finite: how many errors are not finite.
    """

    row: int
    axis: int
    letter: str
    extent: int
    width: int
    seen: float
    errors: tuple[float, ...]
    largest: tuple[float, ...]
    not_finite: tuple[int, ...]


class Comparison(NamedTuple):
    """Everything that came out of comparing two dumps; rows in the order of the report.

    `metrics`, `sequence` and `overflow` are how the user wanted the table: which metrics, and which further columns.
    `graph` is the target's network in the order of execution, as far as it is known.
    """

    target: Dump
    golden: Dump
    scenario: Reason
    rows: tuple[Row, ...]
    metrics: str = "all"
    sequence: bool = False
    overflow: bool = False
    graph: tuple[GraphNode, ...] = ()

"""The values of a comparison in graph mode (TorchAir): tensors that may be known by their figures only, and rows.

    token folders ──read──► GraphOp ──pair──► Pairing | Unpaired ──measure──► GraphRow ──judge──► Verdict

Small, frozen, picklable, like everything in `model`.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.reasons import because
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.comparison import Metrics
    from opdiff.core.dump import Problem, SideTensor
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape


class DataMode(StrEnum):
    """By what tensors are compared; `AUTO` is by their data where both sides have it, else by statistics."""

    AUTO = "auto"
    REAL = "real"
    STATISTICS = "statistics"
    MD5 = "md5"


class GraphKind(StrEnum):
    """Who wrote a dump: the graph engine, one file for each operator, or FX, one file for each tensor."""

    GE = "GE"
    FX = "FX"


SCENARIOS = {
    GraphKind.FX: because("pair.scenario_graph_fx"),
    GraphKind.GE: because("pair.scenario_graph_fusion_off"),
}
"""Scenario of a comparison in graph mode, by the kind of the golden dump."""


INFORMATION = ("mean", "l2norm", "specials", "crc32", "histogram")
"""What can be known of a tensor beside its smallest and its largest number, as users ask for it."""


class Figures(NamedTuple):
    """What is known about the numbers of one tensor; `None` is not known. NaN in the data makes the first four NaN.

    Attributes:
        minimum: the smallest number; integers stay exact.
        maximum: the largest number.
        mean: the mean.
        norm: the L2 norm.
        nans: how many elements are NaN.
        infs: how many elements are infinite.
        crc32: the CRC-32 of the bytes, 8 hexadecimal digits; empty when not known.
        dtype: the element type; empty when not known.
        shape: the logical shape.
        histogram: how many finite elements are in each of as many equal parts of the range; empty when not made.
    """

    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    norm: float | None = None
    nans: int | None = None
    infs: int | None = None
    crc32: str = ""
    dtype: str = ""
    shape: Shape | None = None
    histogram: tuple[int, ...] = ()


class GraphOp(NamedTuple):
    """One operator of a token, described and not loaded.

    Attributes:
        name: as file names carry it; of FX operators node and target.
        op_type: its type; of FX operators the target.
        timestamp: when it was dumped.
        path: its file, or the first of its files.
        inputs: in order.
        outputs: in order.
        full_name: the name that the file itself records, else empty.
        problem: why the file cannot be read; there are no tensors then.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: tuple[SideTensor, ...] = ()
    outputs: tuple[SideTensor, ...] = ()
    full_name: str = ""
    problem: Reason | None = None

    def find_output(self, index: int) -> SideTensor | None:
        """The output of this number, if it was dumped."""
        return next((tensor for tensor in self.outputs if tensor.key.index == index), None)


class TokenDump(NamedTuple):
    """What one side dumped for one token of one graph: operators by name, and files that stand back for others."""

    kind: GraphKind
    operators: Mapping[str, GraphOp]
    duplicates: tuple[tuple[GraphOp, Reason], ...] = ()
    left_out: tuple[Problem, ...] = ()


class SideFacts(NamedTuple):
    """One side of a row: its file and place, its operator's type, and what is known about its numbers."""

    path: str
    op_type: str
    figures: Figures = Figures()


class RealFigures(NamedTuple):
    """The documented metrics of two tensors whose data is there; NaN where one of them has NaN or infinity alone.

    `None` is not defined: the cosine of a single number.
    """

    cosine: float | None
    euclidean: float | None
    max_abs: float | int
    max_relative: float
    one_permille: float | None
    five_permille: float | None


class FurtherFigures(NamedTuple):
    """The metrics of the columns behind the documented ones; golden values up to 2⁻²³ count as zero in them."""

    cosine: float
    max_relative: float
    mean_relative: float
    max_abs: float
    mean_abs: float
    kl: float
    relative_distance: float


class GraphRow(NamedTuple):
    """One row of the result.

    Attributes:
        token: the token.
        op: the target's operator; of a golden operator that stands alone, that one's name.
        slot: input or output; `None` when the row is about an operator.
        index: the tensor's number.
        timestamp: when the operator was dumped.
        mode: by what was compared; never `AUTO`.
        target: the target's tensor; `None` when there is none.
        golden: the golden tensor; `None` when there is none.
        real: the documented metrics of real data.
        further: the metrics of the further columns.
        metrics: all that was measured.
        notes: reservations about the row.
        reason: why nothing could be compared.
        evidence: why the two belong together.
        confidence: how sure that is.
        stack: where in the user's code the operator comes from.
        golden_only: the row is about a golden operator that nothing was compared with.
    """

    token: int
    op: str
    slot: Slot | None
    index: int | None  # type: ignore[assignment]  # hides tuple.index
    timestamp: int
    mode: DataMode
    target: SideFacts | None
    golden: SideFacts | None
    real: RealFigures | None = None
    further: FurtherFigures | None = None
    metrics: Metrics | None = None
    notes: tuple[Reason, ...] = ()
    reason: Reason | None = None
    evidence: Reason | None = None
    confidence: float | None = None
    stack: str = ""
    golden_only: bool = False


_PLACES = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}


def row_order(row: GraphRow) -> tuple[int, bool, int, str, int, int]:
    """By what rows are sorted: token, golden operators that stand alone last, time, operator, inputs before outputs."""
    return row.token, row.golden_only, row.timestamp, row.op, _PLACES[row.slot], row.index or 0


class Difference(NamedTuple):
    """How far a statistic is off: signed, and relative to the golden's; `None` where a side does not know it."""

    absolute: float | int | None
    relative: float | None


STATISTICS = {"max": "maximum", "min": "minimum", "mean": "mean", "norm": "norm"}
"""The statistics that are compared, and their fields in `Figures`."""


def differences(row: GraphRow) -> dict[str, Difference]:
    """The differences of the statistics of a row's two sides."""
    if row.target is None or row.golden is None:
        return {name: Difference(None, None) for name in STATISTICS}
    ours, theirs = row.target.figures, row.golden.figures
    return {name: _difference(getattr(ours, key), getattr(theirs, key)) for name, key in STATISTICS.items()}


def _difference(target: float | None, golden: float | None) -> Difference:
    if target is None or golden is None:
        return Difference(None, None)
    if target == golden or (isnan(target) and isnan(golden)):
        return Difference(0, 0.0)
    if isnan(target) or isnan(golden):
        return Difference(nan, nan)
    if not isfinite(target) or not isfinite(golden):
        size = inf if inf in (target, -golden) else -inf
        return Difference(size, size)
    difference = target - golden
    return Difference(difference, abs(difference / golden) if golden else inf)


class Colour(StrEnum):
    """How a row is marked."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    NONE = ""


class Verdict(NamedTuple):
    """What a row means: PASS or FAIL, whether the accuracy is reached, the colour, and why that."""

    result: str
    reached: str
    colour: Colour
    why: tuple[Reason, ...] = ()

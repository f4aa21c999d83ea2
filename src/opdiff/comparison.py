"""The values of a comparison: what is to be compared with what, and what came of it.

    Dump, Dump, rules ──pair──► Pairing | Unpaired ──measure──► Measured | Unpaired ──► Comparison

Small, frozen, picklable, like everything in `model`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.model import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.model import Shape, Tensor, TensorKey


class DumpKind(StrEnum):
    """Who wrote a dump: an NPU, or the original model's framework (one file for each tensor)."""

    NPU = "npu"
    ARRAYS = "npy"


class DumpedOp(NamedTuple):
    """One operator of a dump, described and not loaded.

    Attributes:
        name: its name as file names carry it.
        op_type: its type, where file names tell it.
        timestamp: of its newest file.
        path: its newest file.
        inputs: its inputs by index; arrays have none.
        outputs: its outputs by index; not every index need be there.
        problem: why its file, or one of its files, cannot be read; what that held is missing.
    """

    name: str
    op_type: str
    timestamp: int
    path: str
    inputs: Mapping[int, Tensor] = {}
    outputs: Mapping[int, Tensor] = {}
    problem: str = ""

    def tensors(self, slot: Slot) -> Mapping[int, Tensor]:
        """The inputs or the outputs."""
        return self.inputs if slot is Slot.INPUT else self.outputs


class Dump(NamedTuple):
    """One side of a comparison: the operators of one folder by the names that their files carry, oldest first.

    `left_out` has the files of the folder that were not taken for dumps, and why.
    """

    path: str
    kind: DumpKind
    quantized: bool
    operators: Mapping[str, DumpedOp]
    left_out: tuple[tuple[str, str], ...] = ()


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


class Pairing(NamedTuple):
    """Two tensors that should hold the same numbers, and the rule that says so.

    Attributes:
        label: what it has in common with the other rows of its operator.
        key: the target's tensor.
        golden_key: the golden tensor.
        target: the target's tensor, described.
        golden: the golden tensor, described.
        layout: the layout of the golden array that the rule file declares; empty when it does not.
        origin_shape: the shape that the rule file declares; empty when it does not.
        rule: why these two belong together, in words.
        confidence: 1.0 for what a rule file or equal names say, less for what was guessed.
    """

    label: OpLabel
    key: TensorKey
    golden_key: TensorKey
    target: Tensor
    golden: Tensor
    layout: str
    origin_shape: Shape
    rule: str
    confidence: float = 1.0


class Unpaired(NamedTuple):
    """A tensor, or a whole operator (`key` is then `None`), that cannot be compared, and why."""

    label: OpLabel
    key: TensorKey | None
    target: Tensor | None
    reason: str


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
    steps: tuple[str, ...] = ()
    metrics: Metrics | None = None
    custom: tuple[tuple[str, str, str], ...] = ()
    overflow: bool | None = None
    reason: str = ""


Row = Measured | Unpaired


class Comparison(NamedTuple):
    """Everything that came out of comparing two dumps; rows in the order of the report.

    `metrics`, `sequence` and `overflow` are how the user wanted the table: which metrics, and which further columns.
    """

    target: Dump
    golden: Dump
    scenario: str
    rows: tuple[Row, ...]
    metrics: str = "all"
    sequence: bool = False
    overflow: bool = False

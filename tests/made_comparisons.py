"""Comparisons for tests: constructed, and drawn by hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.comparison import Comparison, Mode, Row, Side, SideInfo, paired_row, unpaired_row
from opdiff.core.dump import DumpKind, side_tensor
from opdiff.core.judgement import Judgement, Level, Verdict
from opdiff.core.metrics import Metrics
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import quoted
from opdiff.core.source import FileRange
from opdiff.core.tensor import Declared, Slot, Tensor, TensorKey, TensorSpec
from opdiff.report.offline_table import MetricColumn, SelectedMetrics

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape

NUMBERS: dict[str, Any] = {
    "count": 6, "cosine": 0.5, "max_absolute_error": 1.5, "accumulated_relative_error": 2.5,
    "relative_euclidean_distance": 0.25, "kl_divergence": 1.5e-8, "target_mean": 0.0, "target_std": 1.0,
    "golden_mean": 0.0, "golden_std": 1.0, "mean_absolute_error": 0.125, "root_mean_square_error": 0.5,
    "max_relative_error": 2.0, "mean_relative_error": 0.75, "is_equal": False, "target_nans": 0, "target_infs": 1,
    "golden_nans": 2, "golden_infs": 3, "special_mismatches": 4, "first_special_mismatch": 5, "finite_count": 6,
    "finite_cosine": 0.875, "centred_cosine": 0.625, "norm_ratio": 2.0, "snr_db": -3.5, "error_bias": -0.5,
    "over_1_permille": 0.25, "over_5_permille": 0.125, "max_ulp": 7, "worst_index": 4, "worst_target": -8.0,
    "worst_golden": 9,
}  # fmt: skip


def metrics(**changes: Any) -> Metrics:
    return Metrics(**NUMBERS | changes)


COLUMNS = SelectedMetrics(
    (
        MetricColumn("CosineSimilarity", lambda found: found.cosine),
        MetricColumn("StandardDeviation", lambda found: f"({found.target_mean};{found.count}),(0.0;1.0)"),
    ),
)


def tensor(shape: Shape = (2, 3), address: int | None = 20618000384000, path: str = "/dump/file") -> Tensor:
    return Tensor(TensorSpec(dtypes.FLOAT16, shape, "ND", address=address), FileRange(path, 0, 12))


def label(target: str = "conv1", golden: str = "conv1", index: int = 3, op_type: str = "Conv2D") -> OpLabel:
    return OpLabel(index, 12, op_type, target, golden)


def pairing(of: OpLabel | None = None, **changes: Any) -> Pairing:
    of = of or label()
    values: dict[str, Any] = {
        "label": of,
        "target": side_tensor(changes.pop("key", TensorKey(of.target, Slot.OUTPUT, 0)), tensor(path="/target/file")),
        "golden": side_tensor(TensorKey(of.golden, Slot.OUTPUT, 1), tensor(address=77, path="/golden/file")),
        "declared": Declared("ND"),
        "evidence": quoted("named in the rule file"),
    }
    return Pairing(**values | changes)


def measured(of: Pairing | None = None, **changes: Any) -> Row:
    """Return a measured row; `golden_dtype` may be given."""
    made = paired_row(of or pairing())
    golden = made.golden and replace(made.golden, dtype=changes.pop("golden_dtype", "float32"))
    values: dict[str, Any] = {"shape": (2, 3), "metrics": metrics(), "golden": golden}
    return replace(made, **values | changes)


def unpaired_tensor(reason: Reason | None = None, target: Tensor | None = None) -> Unpaired:
    key = TensorKey("conv1", Slot.INPUT, 0)
    return Unpaired(label(), key, side_tensor(key, target) if target else None, reason or quoted("no golden file"))


def failed_tensor(reason: Reason | None = None, target: Tensor | None = None) -> Row:
    return unpaired_row(unpaired_tensor(reason, target))


def unpaired_operator(reason: Reason | None = None, of: OpLabel | None = None) -> Unpaired:
    return Unpaired(of or label(), None, None, reason or quoted("no dump file"))


def failed_operator(reason: Reason | None = None, of: OpLabel | None = None) -> Row:
    return unpaired_row(unpaired_operator(reason, of))


def comparison(*rows: Row, target: DumpKind = DumpKind.NPU, golden: DumpKind = DumpKind.ARRAYS) -> Comparison:
    levels = [Level.NOT_COMPARABLE if row.metrics is None else Level.NOISE for row in rows]
    return Comparison(
        Mode.OFFLINE,
        Side("/target", target),
        Side("/golden", golden, quantized=True),
        quoted("original model"),
        rows,
        Judgement("", tuple(Verdict(level, quoted("made up")) for level in levels)),
    )


# Drawn by hypothesis

texts = st.text(st.characters(), max_size=12)
names = st.text(st.sampled_from("ab/_0=+-@;,\"'\r\n\t é\ud800"), max_size=6)
floats = st.floats() | st.integers(-(2**63), 2**64)
shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
labels = st.builds(OpLabel, st.integers(0), st.integers(0), names, names, names)
keys = st.builds(TensorKey, names, st.sampled_from(tuple(Slot)), st.integers(0, 9))
reasons = texts.map(quoted)
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(0, 9),
    "bool": st.booleans(),
    "int | None": st.none() | st.integers(0, 9),
    "float | None": st.none() | st.floats(),
    "float | int | None": st.none() | floats,
    "tuple[Reason, ...]": st.lists(reasons, max_size=2).map(tuple),
    "tuple[int, ...]": st.lists(st.integers(0, 10**12), max_size=3).map(tuple),
}
all_metrics = st.builds(Metrics, **{name: _BY_TYPE[kind] for name, kind in Metrics.__annotations__.items()})
infos = st.builds(SideInfo, names, names, st.none() | shapes, names, st.none() | st.integers(0, 2**64 - 1))
customs = st.lists(st.tuples(names, texts, texts), max_size=2).map(tuple)
rows = st.builds(
    Row,
    label=labels,
    key=st.none() | keys,
    golden_key=st.none() | keys,
    target=st.none() | infos,
    golden=st.none() | infos,
    shape=st.none() | shapes,
    metrics=st.none() | all_metrics,
    steps=st.lists(reasons, max_size=2).map(tuple),
    custom=customs,
    overflow=st.none() | st.booleans(),
    notes=st.lists(reasons, max_size=2).map(tuple),
    reason=st.none() | reasons,
    evidence=st.none() | reasons,
    confidence=st.none() | st.floats(0, 1, allow_nan=False),
)
kinds = st.sampled_from(tuple(DumpKind))
comparisons = st.builds(
    lambda found, target, golden: comparison(*found, target=target, golden=golden),
    st.lists(rows, max_size=3),
    kinds,
    kinds,
)

"""Tables of offline comparisons: the result, and the pairs. See docs/formats/result-csv.md.

The result has documented columns, then further columns. A cell of the further columns is empty if nothing was measured;
`NaN` is a measured NaN.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import listed_row
from opdiff.core.dump import DumpKind
from opdiff.core.reasons import Language, render, render_all
from opdiff.core.row_store import custom_names
from opdiff.core.tensor import coordinates
from opdiff.report.cells import NOT_GIVEN, columns_of_rows, shape_text, short_numbers, write_table
from opdiff.report.table import Columns, JudgedRow, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.report.cells import Cell

_OVERFLOW = {True: "YES", False: "NO", None: NOT_GIVEN}
# Columns of measured values, and the fields of `Metrics` that they show.
_MEASURED = {
    "Elements": "count",
    "Equal": "is_equal",
    "NormRatio": "norm_ratio",
    "CentredCosine": "centred_cosine",
    "SNR(dB)": "snr_db",
    "ErrorBias": "error_bias",
    "Over1Permille": "over_1_permille",
    "Over5Permille": "over_5_permille",
    "MaxUlp": "max_ulp",
    "WorstIndex": "worst_index",
    "WorstTarget": "worst_target",
    "WorstGolden": "worst_golden",
    "FiniteElements": "finite_count",
    "FiniteCosine": "finite_cosine",
    "TargetNaN": "target_nans",
    "TargetInf": "target_infs",
    "GoldenNaN": "golden_nans",
    "GoldenInf": "golden_infs",
    "SpecialMismatch": "special_mismatches",
    "FirstSpecialMismatch": "first_special_mismatch",
}
_values: Callable[[Metrics], tuple[Any, ...]] = attrgetter(*_MEASURED.values())
_EQUAL, _WORST, _SPECIAL = map(list(_MEASURED).index, ("Equal", "WorstIndex", "FirstSpecialMismatch"))


class MetricColumn(Struct, frozen=True):
    """Column of a documented metric; its value is `None` if it was not measured."""

    name: str
    value: Callable[[Metrics], Cell]


class SelectedMetrics(Struct, frozen=True):
    """Metrics that the user selected, each of which is a column.

    Attributes:
        metrics: documented metrics, in order.
        custom: names of metrics that are not built in, in order; further ones of the rows are appended.
    """

    metrics: tuple[MetricColumn, ...]
    custom: tuple[str, ...] = ()


def offline_table(comparison: Comparison, columns: SelectedMetrics) -> Table:
    """Return the table of an offline comparison."""
    rows = [JudgedRow(*pair) for pair in zip(comparison.rows, comparison.judgement.verdicts, strict=True)]
    return Table(tuple(_columns(comparison, columns)), rows, short_numbers)


def _columns(comparison: Comparison, columns: SelectedMetrics) -> Iterator[Columns]:
    yield Columns.by_row(("Index",), lambda judged: (judged.row.label.index,))
    if comparison.view.sequence:
        yield Columns.by_row(("OpSequence",), lambda judged: (judged.row.label.sequence,))
    yield Columns.by_row(("OpType", "NPUDump", "DataType"), _target_cells)
    if comparison.target.kind is DumpKind.NPU:
        yield Columns.by_row(("Address",), lambda judged: (_given(judged.row.target_address),))
    yield Columns.by_row(("GroundTruth", "DataType"), _golden_cells)
    if comparison.golden.kind is DumpKind.NPU:
        yield Columns.by_row(("Address",), lambda judged: (_given(judged.row.golden_address),))
    yield Columns.by_row(("TensorIndex", "Shape"), _tensor_cells)
    # Arrays have no range that could be exceeded.
    if comparison.view.overflow and comparison.target.kind is DumpKind.NPU:
        yield Columns.by_row(("OverFlow",), lambda judged: (_OVERFLOW[judged.row.overflow],))
    yield _metric_columns(columns.metrics)
    yield from _custom_columns(comparison, columns.custom)
    yield Columns.by_row(("CompareFailReason",), lambda judged: (reason_text(judged.row),))
    yield from EXTRA_COLUMNS
    yield _run_column(comparison)


def _run_column(comparison: Comparison) -> Columns:
    """Return the column about the whole run; only the first row has it."""
    judgement = comparison.judgement
    first = comparison.rows[0] if comparison.rows else None
    text = " ".join([f"{judgement.outcome}.", *map(render, judgement.advice)])
    return Columns.by_row(("RunVerdict",), lambda judged: (text if judged.row is first else "",))


def _target_cells(judged: JudgedRow) -> Sequence[Cell]:
    label = judged.row.label
    return label.op_type or NOT_GIVEN, label.target, _dtype(judged.row, judged.row.target_dtype)


def _golden_cells(judged: JudgedRow) -> Sequence[Cell]:
    return judged.row.label.golden, _dtype(judged.row, judged.row.golden_dtype)


def _tensor_cells(judged: JudgedRow) -> Sequence[Cell]:
    row = judged.row
    return NOT_GIVEN if row.key is None else str(row.key), shape_text(row.shape)


def _dtype(row: Row, dtype: str) -> str:
    """Return the element type of a tensor that was compared."""
    return dtype if dtype and row.metrics is not None else NOT_GIVEN


def _given(cell: Cell) -> Cell:
    return NOT_GIVEN if cell is None else cell


def _metric_columns(metrics: Sequence[MetricColumn]) -> Columns:
    values = [metric.value for metric in metrics]

    def cells(judged: JudgedRow) -> Sequence[Cell]:
        found = judged.row.metrics
        if found is None:
            return [NOT_GIVEN] * len(values)
        return [NOT_GIVEN if (cell := value(found)) is None else cell for value in values]

    return Columns.by_row(tuple(metric.name for metric in metrics), cells)


def _custom_columns(comparison: Comparison, names: Sequence[str]) -> Iterator[Columns]:
    titles = tuple(dict.fromkeys((*names, *custom_names(comparison.rows))))

    def cells(judged: JudgedRow) -> Sequence[Cell]:
        own = {name: value for name, value, _ in judged.row.custom}
        return [own.get(name) or NOT_GIVEN for name in titles]

    if titles:
        yield Columns.by_row(titles, cells)


def reservations(row: Row) -> tuple[Reason, ...]:
    """Return why a row was not measured, and the reservations about its metrics."""
    notes = row.metrics.notes if row.metrics else ()
    return (*([row.reason] if row.reason else ()), *row.notes, *notes)


def reason_text(row: Row, language: Language = Language.ENGLISH) -> str:
    """Return reservations and messages of custom metrics, each sentence once."""
    known = reservations(row)
    if not known and not row.custom:
        return ""
    text = render_all(known, language)
    messages = dict.fromkeys(message for _, _, message in row.custom if message and message not in text)
    return " ".join([text, *messages] if text else messages)


# Further columns


def _pair_cells(judged: JudgedRow) -> Sequence[Cell]:
    row = judged.row
    golden = "" if row.golden_key is None else str(row.golden_key)
    return golden, render(row.evidence), row.confidence, _steps_text(row.steps)


@lru_cache(maxsize=1024)
def _steps_text(steps: tuple[Reason, ...]) -> str:
    # Layers of a network repeat.
    return render_all(steps)


def _measured_cells(judged: JudgedRow) -> Sequence[Cell]:
    row, metrics = judged.row, judged.row.metrics
    if metrics is None:
        return [None] * len(_MEASURED)
    # All values at once: a network has tens of thousands of cells, and value by value is several times slower.
    cells = list(_values(metrics))
    cells[_EQUAL] = "YES" if metrics.is_equal else "NO"
    if metrics.worst_index is not None:
        cells[_WORST] = shape_text(coordinates(metrics.worst_index, row.shape or ()))
    if metrics.first_special_mismatch is not None:
        cells[_SPECIAL] = shape_text(coordinates(metrics.first_special_mismatch, row.shape or ()))
    return cells


def _verdict_cells(judged: JudgedRow) -> Sequence[Cell]:
    verdict = judged.verdict
    return verdict.level, render(verdict.rule), verdict.origin, verdict.excess


EXTRA_COLUMNS = (
    Columns.by_row(("GoldenTensor", "MatchRule", "Confidence", "Conversion"), _pair_cells),
    Columns.by_row(tuple(_MEASURED), _measured_cells),
    Columns.by_row(("Level", "LevelRule", "Origin", "ErrorExcess"), _verdict_cells),
)


# The table of pairs

_PAIR_COLUMNS = (
    "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath",
    "MatchRule", "Confidence", "Reason",
)  # fmt: skip


def write_mapping(pairs: Iterable[PairingResult], path: str, *, sequence: bool = False) -> None:
    """Write files that are compared with each other, and the evidence; nothing is measured.

    Rows are in the order of the pairs; `sequence` adds the column `OpSequence`.
    """
    numbers = ("Index", "OpSequence") if sequence else ("Index",)
    rows = (_listed_pair(listed_row(pair), sequence=sequence) for pair in pairs)
    write_table(path, (*numbers, *_PAIR_COLUMNS), columns_of_rows(rows))


def _listed_pair(row: Row, *, sequence: bool) -> tuple[Cell, ...]:
    label = row.label
    numbers = (label.index, label.sequence) if sequence else (label.index,)
    return (
        *numbers,
        label.op_type or NOT_GIVEN,
        label.target,
        label.golden,
        NOT_GIVEN if row.key is None else str(row.key),
        row.target_path or NOT_GIVEN,
        row.golden_path or NOT_GIVEN,
        render(row.evidence) if row.evidence else "",
        row.confidence,
        render(row.reason) if row.reason else "",
    )

"""The columns that say more than the documented ones; they stand behind them.

A cell is empty where nothing was measured; `NaN` is a measured one.
"""

from __future__ import annotations

from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.reasons import render, render_all
from opdiff.report.cells import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from opdiff.core.comparison import Metrics, Verdict
    from opdiff.core.tensor import Shape
    from opdiff.report.cells import Cell
    from opdiff.report.rows import ReportRow

_ABOUT_THE_PAIR = ("GoldenTensor", "MatchRule", "Confidence", "Conversion")
# Columns of `Metrics`, and the fields that they show.
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
_JUDGED = ("Level", "LevelRule", "Origin", "ErrorExcess")
EXTRA_COLUMNS: tuple[str, ...] = (*_ABOUT_THE_PAIR, *_MEASURED, *_JUDGED)

_values: Callable[[Metrics], tuple[Any, ...]] = attrgetter(*_MEASURED.values())
_EQUAL, _WORST, _SPECIAL = map(list(_MEASURED).index, ("Equal", "WorstIndex", "FirstSpecialMismatch"))


class MetricColumn(NamedTuple):
    """A documented metric: the name of its column, and its cell; `None` where it was not measured."""

    name: str
    value: Callable[[Metrics], Cell]


def extra_cells(row: ReportRow, verdict: Verdict | None) -> list[Cell]:
    """The cells of `EXTRA_COLUMNS`."""
    golden = "" if row.golden_key is None else str(row.golden_key)
    measured = [None] * len(_MEASURED) if row.metrics is None else _measured_cells(row, row.metrics)
    judged = (verdict.level, str(verdict.rule), verdict.origin, verdict.excess) if verdict else (None,) * len(_JUDGED)
    return [golden, render(row.evidence), row.confidence, render_all(row.steps), *measured, *judged]


def _measured_cells(row: ReportRow, metrics: Metrics) -> list[Cell]:
    # One at a time would take several times as long, and a network has tens of thousands of cells.
    cells = list(_values(metrics))
    cells[_EQUAL] = "YES" if metrics.is_equal else "NO"
    if metrics.worst_index is not None:
        cells[_WORST] = place_text(metrics.worst_index, row.shape or ())
    if metrics.first_special_mismatch is not None:
        cells[_SPECIAL] = place_text(metrics.first_special_mismatch, row.shape or ())
    return cells


def place_text(index: int, shape: Shape) -> str:
    """The coordinates of an element in row-major order; its number alone when the shape does not have that element."""
    if not 0 <= index < prod(shape):
        return shape_text((index,))
    places = []
    for extent in reversed(shape):
        index, place = divmod(index, extent)
        places.append(place)
    return shape_text(tuple(reversed(places)))

"""The columns that say more than the documented ones; they stand behind them.

A cell is empty where nothing was measured; `nan` is a measured NaN.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.report.cells import harmless, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.comparison import Metrics
    from opdiff.model import Shape
    from opdiff.report.rows import ReportRow

    NumberText = Callable[[float | int], str]


class MetricColumn(NamedTuple):
    """A documented metric: the name of its column, and its cell."""

    name: str
    text: Callable[[Metrics], str]


class ExtraColumn(NamedTuple):
    """A column of ours: its name, and its value in a row; numbers are printed as the caller of the report wants."""

    name: str
    value: Callable[[ReportRow], str | float | None]

    def text(self, row: ReportRow, number_text: NumberText) -> str:
        """The cell."""
        value = self.value(row)
        if value is None:
            return ""
        return harmless(value) if isinstance(value, str) else number_text(value)


def place_text(index: int, shape: Shape) -> str:
    """The coordinates of an element in row-major order; its number alone when the shape does not have that element."""
    if not 0 <= index < prod(shape):
        return shape_text((index,))
    places = []
    for extent in reversed(shape):
        index, place = divmod(index, extent)
        places.append(place)
    return shape_text(tuple(reversed(places)))


def _metric(name: str, field: str) -> ExtraColumn:
    return ExtraColumn(name, lambda row: getattr(row.metrics, field) if row.metrics else None)


def _place(name: str, field: str) -> ExtraColumn:
    def value(row: ReportRow) -> str | None:
        index = getattr(row.metrics, field) if row.metrics else None
        return None if index is None else place_text(index, row.shape or ())

    return ExtraColumn(name, value)


def _equal(row: ReportRow) -> str | None:
    return None if row.metrics is None else ("YES" if row.metrics.is_equal else "NO")


EXTRA_COLUMNS: tuple[ExtraColumn, ...] = (
    ExtraColumn("GoldenTensor", lambda row: None if row.golden_key is None else str(row.golden_key)),
    ExtraColumn("MatchRule", lambda row: row.rule),
    ExtraColumn("Confidence", lambda row: row.confidence),
    ExtraColumn("Conversion", lambda row: "; ".join(row.steps)),
    _metric("Elements", "count"),
    ExtraColumn("Equal", _equal),
    _metric("NormRatio", "norm_ratio"),
    _metric("CentredCosine", "centred_cosine"),
    _metric("SNR(dB)", "snr_db"),
    _metric("ErrorBias", "error_bias"),
    _metric("Over1Permille", "over_1_permille"),
    _metric("Over5Permille", "over_5_permille"),
    _metric("MaxUlp", "max_ulp"),
    _place("WorstIndex", "worst_index"),
    _metric("WorstTarget", "worst_target"),
    _metric("WorstGolden", "worst_golden"),
    _metric("FiniteElements", "finite_count"),
    _metric("FiniteCosine", "finite_cosine"),
    _metric("TargetNaN", "target_nans"),
    _metric("TargetInf", "target_infs"),
    _metric("GoldenNaN", "golden_nans"),
    _metric("GoldenInf", "golden_infs"),
    _metric("SpecialMismatch", "special_mismatches"),
    _place("FirstSpecialMismatch", "first_special_mismatch"),
)

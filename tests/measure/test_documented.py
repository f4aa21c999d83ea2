"""The documented metrics: formatting of numbers, the table of metrics, and selection."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_dumps import DOCUMENTED as NAMES
from opdiff.core import dtypes
from opdiff.core.errors import UsageError
from opdiff.core.formatting import format_number
from opdiff.measure.documented import BY_NAME, DOCUMENTED, deviation_text, parse_selection, select_metrics
from opdiff.measure.metrics import metrics_of
from opdiff.measure.reference.blocks import measure

TEXTS = [
    (None, "NaN"),
    (nan, "NaN"),
    (inf, "inf"),
    (-inf, "-inf"),
    (0.0, "0.000000"),
    (-0.0, "0.000000"),
    (1.0, "1.000000"),
    (0.987601234, "0.987601"),
    (-0.1234567, "-0.123457"),
    (0.5e-1, "0.050000"),
    (0.000355, "0.000355"),
    (0.0003551234, "3.55123e-04"),
    (1.52343e-8, "1.52343e-08"),
    (-2.5e-300, "-2.50000e-300"),
    (8865.600586, "8865.600586"),
    (123456789012345.0, "123456789012345.000000"),
    (1e300, "1.00000e+300"),
    (51, "51"),
    (2**64 + 1, "18446744073709551617"),
    (-3, "-3"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_numbers_are_printed(value: float | None, text: str) -> None:
    assert format_number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_six_digits_are_kept(value: float) -> None:
    assert float(format_number(value)) == pytest.approx(value, rel=5.1e-6, abs=0)


def metrics(target: list[float], golden: list[float]) -> dict[str, str]:
    sums = measure(np.array(target, "<f8"), dtypes.FLOAT64, np.array(golden, "<f8"), dtypes.FLOAT64)
    found = metrics_of(sums, 0.25)
    values = {metric.name: metric.value(found) for metric in DOCUMENTED}
    return {name: value if isinstance(value, str) else format_number(value) for name, value in values.items()}


def test_every_column_has_its_value() -> None:
    texts = metrics([1, 2, 4], [1, 2, 3])
    assert tuple(texts) == NAMES
    assert list(texts.values()) == [
        "0.991460",
        "1.000000",
        "0.333333",
        "0.267261",
        "0.250000",
        "(2.333;1.247),(2.000;0.816)",
        "0.333333",
        "0.577350",
        "0.333333",
        "0.111111",
    ]


DEVIATIONS = [
    ([1, 1], [-2.5, -2.5], "(1.000;0.000),(-2.500;0.000)"),
    ([0.0009, -0.0009], [0.001, 0.003], "(0.000;0.000),(0.002;0.001)"),
    ([-0.0001, -0.0001], [1, nan], "(0.000;0.000),(nan;nan)"),
    ([inf, 1], [-inf, 1], "(inf;nan),(-inf;nan)"),
    ([], [], "NaN"),
]


@pytest.mark.parametrize(("target", "golden", "text"), DEVIATIONS, ids=[row[2] for row in DEVIATIONS])
def test_deviations_are_one_string(target: list[float], golden: list[float], text: str) -> None:
    assert metrics(target, golden)["StandardDeviation"] == text


def test_only_the_divergence_takes_a_second_pass() -> None:
    assert [metric.number for metric in DOCUMENTED if metric.needs_kl] == [4]
    assert BY_NAME["StandardDeviation"].value is deviation_text


CHOICES = [
    ("all", NAMES),
    ("ALL", NAMES),
    ("0", NAMES[:1]),
    ("3,0", (NAMES[3], NAMES[0])),
    ("0 3 5", (NAMES[0], NAMES[3], NAMES[5])),
    ("0, 3 ,,5,", (NAMES[0], NAMES[3], NAMES[5])),
    ("cosinesimilarity,8,CosineSimilarity", (NAMES[0], NAMES[8])),
    ("9,all", (NAMES[9], *NAMES[:9])),
]


@pytest.mark.parametrize(("text", "names"), CHOICES, ids=[text for text, _ in CHOICES])
def test_selection_of_metrics(text: str, names: tuple[str, ...]) -> None:
    assert parse_selection(text) == names
    assert tuple(metric.name for metric in select_metrics(text)) == names


def test_selection_of_custom_metrics() -> None:
    assert parse_selection("all", ["Mine"]) == (*NAMES, "Mine")
    assert parse_selection("mine 1", ["Mine"]) == ("Mine", NAMES[1])
    assert parse_selection("all", [NAMES[0]]) == NAMES
    assert [metric.number for metric in select_metrics("Mine,1", ["Mine"])] == [1]


def test_unknown_metrics_are_rejected() -> None:
    choices = ", ".join(f"{number} {name}" for number, name in enumerate(NAMES))
    with pytest.raises(UsageError) as caught:
        parse_selection("0,Cosine")
    assert (
        str(caught.value) == f"there is no metric 'Cosine'; choose from all, {choices}; did you mean CosineSimilarity?"
    )
    with pytest.raises(UsageError, match=r"there is no metric '10'; .*, 9 MeanRelativeError, Mine$"):
        parse_selection("10", ["Mine"])
    for nothing in ("", " ", ","):
        with pytest.raises(UsageError, match="no metric is chosen; choose from all, 0 CosineSimilarity, "):
            parse_selection(nothing)


def test_every_metric_is_documented() -> None:
    folder = Path(__file__).parent.parent.parent / "docs" / "metrics"
    index = (folder / "README.md").read_text()
    for metric in DOCUMENTED:
        (link,) = (line for line in index.splitlines() if line.startswith(f"| {metric.number} | [{metric.name}]("))
        page = folder / link.partition("](")[2].partition(")")[0]
        assert page.read_text().startswith(f"# {metric.name}\n")

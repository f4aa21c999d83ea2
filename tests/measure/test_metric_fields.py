"""Every metric is in the field of its name: all fields against plain definitions, on data that tells them apart."""

from __future__ import annotations

from math import inf, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import asdict

from measure.plain_formulas import plain_metrics
from opdiff.core import dtypes
from opdiff.core.metrics import Metrics
from opdiff.measure.metrics import metrics_of
from opdiff.measure.reference.blocks import BLOCK, measure
from opdiff.measure.reference.second_pass import measure_kl

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

TARGET = np.array([1, 2.004, -3.25, 4.125, 0.25, 101, 8.0625, 0.75, 120.25], "<f2")
GOLDEN = np.array([1, 2, -3, 4, 0, 100, 8, 0.625, 120.5], "<f4")
# Five finite pairs, the same NaN, the same infinity, and six mismatches.
TARGET_WITH_SPECIALS = np.array([1, 2, 3, 4, 5, nan, inf, -inf, 2, 3, 1, 4, 5], "<f2")
GOLDEN_WITH_SPECIALS = np.array([1, 2, 4, 4, 7, nan, inf, 2, nan, nan, inf, -inf, inf], "<f4")
FINITE_COSINE = float(np.dot([1, 2, 3, 4, 5], [1, 2, 4, 4, 7]) / sqrt(55 * 86))
SPECIALS: dict[str, Any] = {
    "count": 13,
    "is_equal": False,
    "target_nans": 1,
    "target_infs": 2,
    "golden_nans": 3,
    "golden_infs": 4,
    "finite_count": 5,
    "special_mismatches": 6,
    "first_special_mismatch": 7,
    "finite_cosine": FINITE_COSINE,
}


def measured(target: AnyArray, golden: AnyArray) -> dict[str, Any]:
    """Return the metrics of a half-precision target by name."""
    x, y = dtypes.FLOAT16, dtypes.FLOAT32
    sums = measure(target, x, golden, y)
    return asdict(metrics_of(sums, measure_kl(target, x, golden, y, sums=sums)))


def random_pair(size: int) -> tuple[AnyArray, AnyArray]:
    random = np.random.default_rng(size)
    golden = random.standard_normal(size).astype("<f4")
    return (golden + 0.01 * random.standard_normal(size)).astype("<f2"), golden


@pytest.mark.parametrize(
    ("target", "golden"),
    [(TARGET, GOLDEN), *(random_pair(size) for size in (1000, BLOCK, 2 * BLOCK + 3))],
    ids=["few elements", "1000 elements", "a block", "several blocks"],
)
def test_fields_of_finite_data(target: AnyArray, golden: AnyArray) -> None:
    found, expected = measured(target, golden), plain_metrics(target, golden)
    assert expected.keys() == set(Metrics.__struct_fields__)
    for name, value in expected.items():
        assert found[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def test_fields_of_data_with_nans_and_infinities() -> None:
    found = measured(TARGET_WITH_SPECIALS, GOLDEN_WITH_SPECIALS)
    assert {name: found[name] for name in SPECIALS} == pytest.approx(SPECIALS, rel=1e-12)
    assert isnan(found["cosine"])


def test_no_two_fields_are_expected_to_be_the_same() -> None:
    expected = plain_metrics(TARGET, GOLDEN)
    seen: dict[tuple[str, str], str] = {}
    for name, value in expected.items():
        other = seen.setdefault((rounded(value), rounded(SPECIALS.get(name))), name)
        assert other == name, (name, other)


def rounded(value: object) -> str:
    return f"{float(value):.6g}" if isinstance(value, float | int) else repr(value)

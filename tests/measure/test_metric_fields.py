"""Every metric is in the field of its name: all fields against plain definitions, on data that tells them apart."""

from __future__ import annotations

from math import inf, isnan, log10, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import asdict

from measure.plain_formulas import divergence
from opdiff.core import dtypes
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES, Metrics
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
    found, expected = measured(target, golden), plain_metrics(target.astype("f8"), golden.astype("f8"))
    assert expected.keys() == set(Metrics.__struct_fields__)
    for name, value in expected.items():
        assert found[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def test_fields_of_data_with_nans_and_infinities() -> None:
    found = measured(TARGET_WITH_SPECIALS, GOLDEN_WITH_SPECIALS)
    assert {name: found[name] for name in SPECIALS} == pytest.approx(SPECIALS, rel=1e-12)
    assert isnan(found["cosine"])


def test_no_two_fields_are_expected_to_be_the_same() -> None:
    expected = plain_metrics(TARGET.astype("f8"), GOLDEN.astype("f8"))
    seen: dict[tuple[str, str], str] = {}
    for name, value in expected.items():
        other = seen.setdefault((rounded(value), rounded(SPECIALS.get(name))), name)
        assert other == name, (name, other)


def rounded(value: object) -> str:
    return f"{float(value):.6g}" if isinstance(value, float | int) else repr(value)


def histogram(values: AnyArray, edges: tuple[float, ...]) -> tuple[int, ...]:
    """Return the numbers of zeros, of values below the first edge, and from each edge on."""
    bins = np.where(values == 0, 0, 1 + np.searchsorted(edges, values, side="right"))
    return tuple(np.bincount(bins, minlength=len(edges) + 2).tolist())


def plain_metrics(x: AnyArray, y: AnyArray) -> dict[str, Any]:
    """Return the metrics of finite numbers, the target of half precision, by their definitions and names."""
    errors, count = x - y, len(x)
    absolute, is_zero = np.abs(errors), y == 0
    relative = np.divide(absolute, np.abs(y), out=np.full(count, inf), where=~is_zero)
    ulps = absolute / 2.0 ** (np.floor(np.log2(np.maximum(np.maximum(np.abs(x), np.abs(y)), 2.0**-14))) - 10)
    scale, offset = np.polyfit(y, x, 1)
    worst, worst_relative = int(absolute.argmax()), int(np.where(is_zero, 0, relative).argmax())
    norm = np.linalg.norm
    return {
        "count": count,
        "finite_count": count,
        "is_equal": False,
        **dict.fromkeys(("target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches"), 0),
        "first_special_mismatch": None,
        "notes": (),
        "cosine": float(x @ y / norm(x) / norm(y)),
        "finite_cosine": float(x @ y / norm(x) / norm(y)),
        "centred_cosine": float(np.corrcoef(x, y)[0, 1]),
        "max_absolute_error": float(absolute.max()),
        "mean_absolute_error": float(absolute.mean()),
        "root_mean_square_error": sqrt(float((errors**2).mean())),
        "accumulated_relative_error": float(relative[~is_zero].sum()),
        "max_relative_error": float(relative[~is_zero].max()),
        "mean_relative_error": float(relative[~is_zero].sum() / count),
        "relative_euclidean_distance": float(norm(errors) / norm(y)),
        "kl_divergence": divergence(x, y),
        "target_mean": float(x.mean()),
        "target_std": float(x.std()),
        "golden_mean": float(y.mean()),
        "golden_std": float(y.std()),
        "norm_ratio": float(norm(x) / norm(y)),
        "snr_db": 20 * log10(float(norm(y) / norm(errors))),
        "error_bias": float(errors.sum() / absolute.sum()),
        "over_1_permille": float((relative >= 0.001).mean()),
        "over_5_permille": float((relative >= 0.005).mean()),
        "max_ulp": float(ulps.max()),
        "worst_index": worst,
        "worst_target": float(x[worst]),
        "worst_golden": float(y[worst]),
        "target_min": float(x.min()),
        "target_max": float(x.max()),
        "golden_min": float(y.min()),
        "golden_max": float(y.max()),
        "fit_scale": float(scale),
        "fit_offset": float(offset),
        "fit_distance": float(norm(x - scale * y - offset) / norm(y)),
        "zero_golden": float((is_zero & (x != 0)).mean()),
        "worst_relative_index": worst_relative,
        "worst_relative_target": float(x[worst_relative]),
        "worst_relative_golden": float(y[worst_relative]),
        "relative_histogram": histogram(relative, RELATIVE_EDGES),
        "ulp_histogram": histogram(ulps, ULP_EDGES),
    }

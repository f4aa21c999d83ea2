"""The ten documented metrics of both kernels against their formulas in exact sums of long doubles."""

from __future__ import annotations

from math import fsum, inf, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import KernelResult, Stored, by_kernel, by_numpy, distance, measured, needs_kernel, to_codes
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.measure.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

SIZE = 100_000
FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = dtypes.FLOAT16, dtypes.FLOAT32, dtypes.FLOAT64, dtypes.BFLOAT16
ZERO_THRESHOLD = 2.0**-52

Made = tuple["AnyArray", "DType", "AnyArray", "DType"]


def noisy(golden: AnyArray, x: DType, y: DType, noise: float = 1e-3) -> Made:
    rng = np.random.default_rng(1)
    target = golden * (1 + noise * rng.standard_normal(golden.size))
    return to_codes(target, x), x, to_codes(golden, y), y


def with_special(kind: str) -> Made:
    target, x, golden, y = noisy(NORMAL, FLOAT32, FLOAT32)
    if kind == "nan":
        target[7] = np.nan
    if kind in {"target", "both"}:
        target[11] = np.inf
    if kind in {"golden", "both"}:
        golden[11] = np.inf
    return target, x, golden, y


NORMAL = np.random.default_rng(0).standard_normal(SIZE)
OTHER = np.random.default_rng(2).standard_normal(SIZE)
POWERS = 10.0 ** np.random.default_rng(3).uniform(-26, 26, SIZE)

CLASSES: dict[str, Callable[[], Made]] = {
    "normal": lambda: noisy(NORMAL, FLOAT32, FLOAT32),
    "rectified": lambda: noisy(np.maximum(NORMAL, 0), FLOAT32, FLOAT32),
    "nearly all zeros": lambda: noisy(np.where(np.abs(OTHER) < 2.576, 0, NORMAL), FLOAT32, FLOAT32),
    "halves": lambda: noisy(NORMAL, FLOAT16, FLOAT16),
    "halves and doubles": lambda: noisy(NORMAL, FLOAT16, FLOAT64),
    "small integers": lambda: noisy(30 * NORMAL, dtypes.INT8, dtypes.INT8, 0.1),
    "huge range": lambda: noisy(NORMAL * POWERS, FLOAT32, FLOAT32),
    "huge range of bfloat16": lambda: noisy(NORMAL * POWERS, BFLOAT16, BFLOAT16),
    "distances from zero": lambda: noisy(1000 + NORMAL, FLOAT32, FLOAT32, 1e-6),
    "distances from zero in doubles": lambda: noisy(1e8 + NORMAL, FLOAT64, FLOAT64, 1e-12),
    "tiny": lambda: noisy(1e-25 * NORMAL, FLOAT32, FLOAT32),
    "all zeros": lambda: noisy(0 * NORMAL, FLOAT32, FLOAT32),
    "constant": lambda: (to_codes(0 * NORMAL + 3.0001, FLOAT32), FLOAT32, to_codes(0 * NORMAL + 3, FLOAT32), FLOAT32),
    "unrelated": lambda: (to_codes(NORMAL, FLOAT32), FLOAT32, to_codes(OTHER, FLOAT32), FLOAT32),
    "a NaN": lambda: with_special("nan"),
    "an infinity in the target": lambda: with_special("target"),
    "an infinity in the golden tensor": lambda: with_special("golden"),
    "an infinity on both sides": lambda: with_special("both"),
}


def total(values: AnyArray) -> float:
    """Return the sum of long doubles, rounded once; each is added as two doubles."""
    high = values.astype(np.float64)
    return fsum([*high.tolist(), *(values - high).astype(np.float64).tolist()])


def divergence(x: AnyArray, y: AnyArray) -> float:
    def likelihoods(side: AnyArray) -> AnyArray:
        width = side.max() - side.min()
        return np.maximum((side - side.min()) / width, np.longdouble(2.0**-23)) if width else np.ones_like(side)

    p, q = likelihoods(x), likelihoods(y)
    found = total(p * np.log(p / q)) / total(p) + log(total(q) / total(p))
    return found if found >= ZERO_THRESHOLD else 0.0


def formulas(x: AnyArray, y: AnyArray) -> dict[str, float]:
    """Return the documented metrics of finite numbers."""
    errors = np.abs(x - y)
    counted = np.abs(y) > ZERO_THRESHOLD
    relative = errors[counted] / np.abs(y[counted])
    xx, yy, dd, n = total(x * x), total(y * y), total(errors * errors), x.size
    is_zero = sqrt(xx) <= ZERO_THRESHOLD and sqrt(yy) <= ZERO_THRESHOLD
    return {
        "cosine": 1.0 if is_zero else total(x * y) / sqrt(xx) / sqrt(yy),
        "max_absolute_error": float(errors.max()),
        "accumulated_relative_error": total(relative),
        "relative_euclidean_distance": 0.0 if is_zero else sqrt(dd / yy),
        "kl_divergence": divergence(x, y),
        "target_mean": total(x) / n,
        "golden_mean": total(y) / n,
        "target_std": sqrt(total((x - x.sum() / n) ** 2) / n),
        "golden_std": sqrt(total((y - y.sum() / n) ** 2) / n),
        "mean_absolute_error": total(errors) / n,
        "root_mean_square_error": sqrt(dd / n),
        "max_relative_error": float(relative.max(initial=0)),
        "mean_relative_error": total(relative) / n,
    }


def special_formulas(x: AnyArray, y: AnyArray) -> dict[str, float]:
    """Return the documented metrics of numbers with one NaN or infinity."""
    if np.isnan(x).any() or (np.isinf(x) & np.isinf(y)).any():
        return dict.fromkeys(("cosine", "max_absolute_error", "accumulated_relative_error", "kl_divergence"), nan)
    names = "max_absolute_error", "mean_absolute_error", "root_mean_square_error"
    found = dict.fromkeys(names, inf) | {"cosine": nan, "kl_divergence": nan}
    if np.isinf(x).any():
        return found | {"accumulated_relative_error": inf, "relative_euclidean_distance": inf, "target_mean": inf}
    kept = np.isfinite(y)
    # A finite target against an infinite golden value has a relative error of 1.
    relative = total(np.abs(x[kept] - y[kept]) / np.abs(y[kept])) + int((~kept).sum())
    return found | {"accumulated_relative_error": relative, "mean_relative_error": relative / x.size}


def by_native(target: AnyArray, x: DType, golden: AnyArray, y: DType) -> KernelResult:
    return measured(by_kernel(Stored(target, x), Stored(golden, y)))


@pytest.mark.parametrize("kernel", [pytest.param(by_native, marks=needs_kernel, id="native"), pytest.param(by_numpy)])
@pytest.mark.parametrize("name", CLASSES)
def test_the_documented_metrics(name: str, kernel: Callable[..., KernelResult]) -> None:
    target, x, golden, y = CLASSES[name]()
    a, b = (elements.decode(*side).astype(np.longdouble) for side in ((target, x), (golden, y)))
    is_finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
    expected = formulas(a, b) if is_finite else special_formulas(a, b)
    found = metrics_of(*kernel(target, x, golden, y))
    off = {
        key: (getattr(found, key), value) for key, value in expected.items() if distances(getattr(found, key), value)
    }
    assert not off


def distances(found: float | None, expected: float | None) -> bool:
    return distance(found, expected) > 2e-6

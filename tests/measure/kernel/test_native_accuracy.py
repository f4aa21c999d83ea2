"""The documented metrics of both kernels against their formulas in long doubles, for classes of finite data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import KernelResult, Stored, by_kernel, by_numpy, distance, measured, needs_kernel, to_codes
from measure.plain_formulas import plain_metrics
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.measure.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

SIZE = 100_000
FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = dtypes.FLOAT16, dtypes.FLOAT32, dtypes.FLOAT64, dtypes.BFLOAT16
DOCUMENTED = (
    "cosine", "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance", "kl_divergence",
    "target_mean", "golden_mean", "target_std", "golden_std", "mean_absolute_error", "root_mean_square_error",
    "max_relative_error", "mean_relative_error",
)  # fmt: skip

Made = tuple["AnyArray", "DType", "AnyArray", "DType"]


def noisy(golden: AnyArray, x: DType, y: DType, noise: float = 1e-3) -> Made:
    rng = np.random.default_rng(1)
    target = golden * (1 + noise * rng.standard_normal(golden.size))
    return to_codes(target, x), x, to_codes(golden, y), y


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
    "constant": lambda: (to_codes(0 * NORMAL + 3.0001, FLOAT32), FLOAT32, to_codes(0 * NORMAL + 3, FLOAT32), FLOAT32),
    "unrelated": lambda: (to_codes(NORMAL, FLOAT32), FLOAT32, to_codes(OTHER, FLOAT32), FLOAT32),
}


def by_native(target: AnyArray, x: DType, golden: AnyArray, y: DType) -> KernelResult:
    return measured(by_kernel(Stored(target, x), Stored(golden, y)))


@pytest.mark.parametrize("kernel", [pytest.param(by_native, marks=needs_kernel, id="native"), pytest.param(by_numpy)])
@pytest.mark.parametrize("name", CLASSES)
def test_the_documented_metrics(name: str, kernel: Callable[..., KernelResult]) -> None:
    target, x, golden, y = CLASSES[name]()
    expected = plain_metrics(elements.decode(target, x), elements.decode(golden, y))
    found = metrics_of(*kernel(target, x, golden, y))
    assert {key: getattr(found, key) for key in DOCUMENTED if distance(getattr(found, key), expected[key]) > 2e-6} == {}

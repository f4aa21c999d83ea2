"""Accuracy of both kernels: against formulas in long doubles, and against each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import asdict

from command_line import run_outside
from measure.kernels import KernelResult, Stored, by_kernel, by_numpy, distance, measured, needs_kernel, to_codes
from measure.plain_formulas import plain_metrics
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.measure.metrics import metrics_of
from opdiff.report.saved_json import load
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


# Digits in which the kernel and its definition may differ, as docs/metrics/README.md states them

# Sums of values that the kernel computes in single precision, and quotients of them.
SINGLE_PRECISION = frozenset({
    "accumulated_relative_error", "mean_relative_error", "kl_divergence", "mean_absolute_error", "error_bias",
    "fit_offset", "fit_distance",
})  # fmt: skip


def metrics_by(kernel: str, folder: Path) -> list[dict[str, object]]:
    out = folder / (kernel or "native")
    sides = folder / "npu", folder / "golden", "--rules", folder / "rules" / "network.json"
    outcome = run_outside("compare", *sides, "-o", out, "-q", env={"OPDIFF_KERNEL": kernel} if kernel else {})
    assert outcome.code == 0, outcome
    (saved,) = out.glob("result_*.json")
    return [asdict(row.metrics) for row in load(str(saved)).rows if row.metrics is not None]


def test_the_kernel_agrees_with_its_definition_in_the_stated_digits(tmp_path: Path) -> None:
    write_sample(str(tmp_path))
    native, defined = (metrics_by(kernel, tmp_path) for kernel in ("", "numpy"))
    assert len(native) == len(defined) > 100
    for ours, theirs in zip(native, defined, strict=True):
        for name, value in theirs.items():
            if isinstance(value, float) and math.isfinite(value):
                tolerance = 2e-6 if name in SINGLE_PRECISION else 1e-12
                assert ours[name] == pytest.approx(value, rel=tolerance, abs=1e-12), name
            elif not isinstance(value, float):
                assert ours[name] == value, name

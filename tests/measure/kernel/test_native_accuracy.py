"""Accuracy of both kernels: against formulas in long doubles, and against each other."""

from __future__ import annotations

import math
from math import inf, nan
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
    from opdiff.core.metrics import Metrics

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


TARGET, _, GOLDEN, _ = noisy(NORMAL, FLOAT32, FLOAT32)


def changed(values: AnyArray, special: float) -> AnyArray:
    return np.where(np.arange(SIZE) == 11, np.float32(special), values)


# A finite target against an infinite golden value has a relative error of 1.
RELATIVE = 1 + plain_metrics(np.delete(TARGET, 11), np.delete(GOLDEN, 11))["accumulated_relative_error"]
NO_DIRECTION = {"cosine": nan, "kl_divergence": nan}
UNDEFINED = NO_DIRECTION | {"max_absolute_error": nan, "accumulated_relative_error": nan}
ERRORS = ("max_absolute_error", "mean_absolute_error", "root_mean_square_error")
UNBOUNDED = NO_DIRECTION | dict.fromkeys(ERRORS, inf)
UNBOUNDED_TARGET = dict.fromkeys(("accumulated_relative_error", "relative_euclidean_distance", "target_mean"), inf)
SPECIAL: dict[str, tuple[AnyArray, AnyArray, dict[str, float]]] = {
    "a NaN": (changed(TARGET, nan), GOLDEN, UNDEFINED),
    "an infinity in the target": (changed(TARGET, inf), GOLDEN, UNBOUNDED | UNBOUNDED_TARGET),
    "an infinity in the golden tensor": (
        TARGET,
        changed(GOLDEN, inf),
        UNBOUNDED | {"accumulated_relative_error": RELATIVE, "mean_relative_error": RELATIVE / SIZE},
    ),
    "an infinity on both sides": (changed(TARGET, inf), changed(GOLDEN, inf), UNDEFINED),
    "all zeros": (0 * TARGET, 0 * GOLDEN, dict.fromkeys(DOCUMENTED, 0.0) | {"cosine": 1.0}),
    # Norms up to the threshold of zeros count as zero.
    "tiny": (
        1e-25 * TARGET,
        1e-25 * GOLDEN,
        {key: plain_metrics(1e-25 * TARGET, 1e-25 * GOLDEN)[key] for key in DOCUMENTED}
        | {"cosine": 1.0, "relative_euclidean_distance": 0.0},
    ),
}


def by_native(target: AnyArray, x: DType, golden: AnyArray, y: DType) -> KernelResult:
    return measured(by_kernel(Stored(target, x), Stored(golden, y)))


KERNELS = pytest.mark.parametrize(
    "kernel", [pytest.param(by_native, marks=needs_kernel, id="native"), pytest.param(by_numpy)]
)


def far_off(found: Metrics, expected: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return the metrics that are not as expected, with both values."""
    both = {key: (getattr(found, key), value) for key, value in expected.items()}
    return {key: values for key, values in both.items() if distance(*values) > 2e-6}


@KERNELS
@pytest.mark.parametrize("name", CLASSES)
def test_the_documented_metrics(name: str, kernel: Callable[..., KernelResult]) -> None:
    target, x, golden, y = CLASSES[name]()
    expected = plain_metrics(elements.decode(target, x), elements.decode(golden, y))
    found = metrics_of(*kernel(target, x, golden, y))
    assert far_off(found, {key: expected[key] for key in DOCUMENTED}) == {}


@KERNELS
@pytest.mark.parametrize(("target", "golden", "expected"), SPECIAL.values(), ids=SPECIAL)
def test_the_documented_metrics_of_special_values(
    target: AnyArray, golden: AnyArray, expected: dict[str, float], kernel: Callable[..., KernelResult]
) -> None:
    assert far_off(metrics_of(*kernel(target, FLOAT32, golden, FLOAT32)), expected) == {}


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

"""Digits in which the kernel and its definition in NumPy may differ, as docs/metrics/README.md states them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import asdict

from command_line import run_outside
from opdiff.report.saved_json import load
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

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

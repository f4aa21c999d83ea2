"""Nine faults that a cosine of 0.99 lets pass and the verdict does not. They are listed in docs/metrics/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode
from tensor_rows import judge_rows, numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

Pair = tuple["AnyArray", "AnyArray"]


def _doubled() -> Pair:
    golden = numbers(1, 64, 64)
    return golden * 2, golden


def _common_offset() -> Pair:
    return numbers(2, 64, 64) + 50, numbers(3, 64, 64) + 50


def _one_outlier() -> Pair:
    golden = numbers(4, 256, 256)
    target = golden.copy()
    target[7, 9] = 30
    return target, golden


def _zeroed() -> Pair:
    golden = numbers(5, 128, 128)
    target = golden.copy()
    target.reshape(-1)[::100] = 0
    return target, golden


def _small_channels() -> Pair:
    golden = numbers(6, 16, 512)
    golden[0] *= 100
    target = golden.copy()
    target[1:] = numbers(7, 15, 512)
    return target, golden


def _coarse_steps() -> Pair:
    golden = numbers(8, 128, 128)
    return (np.rint(golden * 10) / 10).astype(np.float32), golden


def _shifted() -> Pair:
    wave = np.sin(np.linspace(0, 6, 4096)).astype(np.float32)
    return np.roll(wave, 40), wave


def _clipped() -> Pair:
    golden = numbers(9, 128, 128)
    return np.clip(golden, -2.2, 2.2), golden


def _positive() -> Pair:
    return 0.5 + 0.04 * numbers(10, 64, 64), 0.5 + 0.04 * numbers(11, 64, 64)


CASES = (
    _doubled, _common_offset, _one_outlier, _zeroed, _small_channels, _coarse_steps, _shifted, _clipped, _positive,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_faults_invisible_to_the_cosine(case: object) -> None:
    assert callable(case)
    target, golden = case()
    found = row("op", target, golden)
    assert found.metrics is not None
    assert found.metrics.cosine is not None
    assert found.metrics.cosine >= 0.99
    (verdict,) = judge_rows([found], GraphNode("op", "Conv2D")).verdicts
    assert verdict.level.is_bad, verdict


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16])
def test_rounding_is_not_a_fault(dtype: dtypes.DType) -> None:
    golden = numbers(1, 64, 64)
    (verdict,) = judge_rows([row("op", golden, golden, dtype=dtype)], GraphNode("op", "Conv2D")).verdicts
    assert verdict.level == "rounding"

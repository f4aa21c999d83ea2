"""Both kernels against exact arithmetic: a short form of `python -m measure.exact`, and cases that it found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.exact import CodedPair, find_differences, is_right, iter_values
from measure.kernels import Stored, by_kernel, measured, needs_kernel
from opdiff.core import dtypes

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType


def wrong_values(target: list[float], x: DType, golden: list[float], y: DType) -> list[tuple[str, str, object]]:
    pair = CodedPair(np.array(target, x.storage), x, np.array(golden, y.storage), y, "")
    return [
        (kernel, metric, found)
        for kernel, metric, found, exact in iter_values(pair)
        if not is_right(metric, found, exact)
    ]


def test_random_pairs_of_all_types() -> None:
    compared, differences = find_differences(250, seed=1)
    assert compared.total() > 9_000
    assert not differences


@pytest.mark.parametrize(
    ("target", "x", "golden", "y"),
    [
        pytest.param([2**63 - 1, 2**63 - 2], dtypes.INT64, [0, 1], dtypes.INT64, id="spread of large integers"),
        pytest.param(
            [1e308, 1e308], dtypes.FLOAT64, [1.0, 1.0], dtypes.FLOAT64, id="mean of errors whose sum overflows"
        ),
        pytest.param([2.0**63], dtypes.FLOAT64, [2**63 - 300], dtypes.INT64, id="float and large integer"),
        pytest.param([65504, 1 / 3, -65504], dtypes.FLOAT16, [3.1, 7.7, 11.9], dtypes.FLOAT32, id="digits of sums"),
        pytest.param([3e38, 1.0, -3e38], dtypes.FLOAT32, [1.0, 1.0, 1.0], dtypes.FLOAT32, id="cancelling sum"),
        pytest.param([1 + 2**-52, 1.0, 1.0], dtypes.FLOAT64, [1.0, 2.0, 1.5], dtypes.FLOAT64, id="tiny spread"),
    ],
)
def test_cases_that_need_more_digits(target: list[float], x: DType, golden: list[float], y: DType) -> None:
    assert not wrong_values(target, x, golden, y)


@needs_kernel
def test_largest_error_among_those_equal_in_single_precision() -> None:
    golden = np.zeros(100_000, "<f4")
    target = np.full(100_000, 65535, "<f4")
    golden[[5, 70_000]] = -1e-3, -1.5e-3
    sums, _ = measured(by_kernel(Stored(target, dtypes.FLOAT32), Stored(golden, dtypes.FLOAT32)))
    assert sums.worst is not None
    assert sums.worst.index == 70_000

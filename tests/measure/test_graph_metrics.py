"""Metrics of graph mode against plain formulas, by the kernel and by the reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import astuple, replace

from measure.kernels import Stored, job, measured
from opdiff.core import dtypes
from opdiff.measure.graph_metrics import documented_metrics, extra_metrics
from opdiff.measure.kernel.library import find_library
from opdiff.measure.kernel.results import measure_all
from opdiff.measure.reference.blocks import measure
from opdiff.measure.reference.second_pass import graph_sums

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.measure.sums import Sums

SHAPES = arrays.array_shapes(max_dims=3, max_side=5)
FLOATS = arrays.arrays(np.float32, SHAPES, elements=st.floats(-1000, 1000, width=32))


def same(found: float | None, expected: float) -> bool:
    return found is not None and bool(found == pytest.approx(expected, rel=1e-12, nan_ok=True))


def _measured(target: AnyArray, target_dtype: dtypes.DType, golden: AnyArray, golden_dtype: dtypes.DType) -> Sums:
    """Return the sums of the reference, after comparing them with those of the kernel."""
    sides = target, target_dtype, golden, golden_dtype
    sums = measure(*sides)
    sums = replace(sums, graph=graph_sums(*sides, sums))
    if find_library() is not None:
        jobs = [job(Stored(target, target_dtype), Stored(golden, golden_dtype), target.shape)]
        [found] = measure_all(jobs, 1, lambda _: None, with_kl=False, for_graphs=True)
        assert astuple(measured(found)[0].graph) == pytest.approx(astuple(sums.graph), rel=1e-9, abs=1e-12)
    return sums


@given(FLOATS, st.data())
def test_metrics_match_the_formulas(golden: AnyArray, data: st.DataObject) -> None:
    noise = data.draw(arrays.arrays(np.float32, golden.shape, elements=st.floats(0.875, 1.125, width=32)))
    target = golden * noise
    sums = _measured(target, dtypes.FLOAT32, golden, dtypes.FLOAT32)
    real, _ = documented_metrics(sums, is_single=golden.size == 1, is_scalar=False)
    x, y = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    error = np.abs(x - y)
    with np.errstate(all="ignore"):
        relative = np.where(error == 0, 0, error / np.abs(y))
    assert same(real.euclidean, float(np.linalg.norm(error)))
    # The element with the largest error is determined in single precision.
    assert float(real.max_abs) == pytest.approx(float(error.max()), rel=1e-6)
    assert real.max_relative == pytest.approx(float(relative.max()), rel=1e-6)
    assert same(real.one_permille, float(np.mean(relative < 0.001)))
    assert same(real.five_permille, float(np.mean(relative < 0.005)))
    extra = extra_metrics(sums)
    assert extra is not None
    counted = np.abs(y) > 2.0**-23
    assert same(extra.max_abs, float(np.where(counted, error, 0).max()))
    assert same(extra.mean_relative, float(np.where(counted, relative, 0).mean()))
    p, q = (np.exp(side - side.max()) / np.exp(side - side.max()).sum() for side in (y, x))
    with np.errstate(all="ignore"):
        divergence = np.where(p > 0, p * (np.log(p) - np.log(q)), 0).sum()
    if np.isfinite(divergence):
        assert extra.kl == pytest.approx(divergence, rel=1e-6, abs=1e-9)


def test_extra_metrics_of_special_tensors() -> None:
    values = np.array([1, math.nan], np.float32)
    sums = _measured(values, dtypes.FLOAT32, values, dtypes.FLOAT32)
    assert extra_metrics(sums) is None
    zero = np.zeros(3, np.float32)
    sums = _measured(zero, dtypes.FLOAT32, zero, dtypes.FLOAT32)
    extra = extra_metrics(sums)
    assert extra is not None
    assert (extra.cosine, extra.kl, extra.relative_distance) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(("magnitude", "cosine"), [(1e200, 35 / math.sqrt(36 * 34.75)), (1e-200, 0.0)])
def test_extra_cosine_of_extreme_magnitudes(magnitude: float, cosine: float) -> None:
    """Products of such numbers are beyond the range of float64, and norms below the smallest one that counts."""
    target, golden = (magnitude * np.array(values) for values in ([4, 4, 2.0], [4.5, 3.5, 1.5]))
    sides = target, dtypes.FLOAT64, golden, dtypes.FLOAT64
    sums = measure(*sides)
    extra = extra_metrics(replace(sums, graph=graph_sums(*sides, sums)))
    assert extra is not None
    assert extra.cosine == pytest.approx(cosine, abs=1e-9)


def test_only_zero_counts_as_zero_in_relative_errors() -> None:
    golden = np.array([1e-20, 2e-20, 1, 0], np.float32)
    target = np.array([1.002e-20, 2e-20, 1, 0], np.float32)
    for last, expected in ((0, (pytest.approx(0.002, rel=1e-3), 0.75, 1.0)), (1e-30, (math.inf, 0.5, 0.75))):
        target[3] = last
        sums = _measured(target, dtypes.FLOAT32, golden, dtypes.FLOAT32)
        real, _ = documented_metrics(sums, is_single=False, is_scalar=False)
        assert (real.max_relative, real.one_permille, real.five_permille) == expected


@pytest.mark.parametrize("count", [1, 1023, 5000, 3_000_000])
def test_both_kernels_agree_on_large_tensors(count: int) -> None:
    random = np.random.default_rng(count)
    golden = (random.normal(size=count) * 10.0 ** random.integers(-20, 3, count)).astype(np.float32)
    target = golden.astype(np.float16)
    target[~np.isfinite(target)] = 0
    golden[::7] = 0
    _measured(target, dtypes.FLOAT16, golden, dtypes.FLOAT32)
    golden[count // 2] = math.inf
    _measured(target, dtypes.FLOAT16, golden, dtypes.FLOAT32)

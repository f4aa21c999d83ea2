"""Figures of one tensor, its checksum, and the metrics of graph mode, against plain formulas."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.measure.checksum import crc32
from opdiff.measure.figures import BINS, figures_of
from opdiff.measure.graph_metrics import figures_of_side, further_figures, real_figures
from opdiff.measure.kernel.library import NativeJob, Operand, find_library
from opdiff.measure.kernel.results import Failure, measure_all
from opdiff.measure.reference.blocks import measure
from opdiff.measure.reference.graph_blocks import graph_sums

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.measure.sums import Sums

SHAPES = arrays.array_shapes(max_dims=3, max_side=5)
FLOATS = arrays.arrays(np.float32, SHAPES, elements=st.floats(-1000, 1000, width=32))
ANY_FLOATS = arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32))


def same(found: float | None, wanted: float) -> bool:
    return found is not None and bool(found == pytest.approx(wanted, rel=1e-12, nan_ok=True))


def _measured(target: AnyArray, target_dtype: dtypes.DType, golden: AnyArray, golden_dtype: dtypes.DType) -> Sums:
    """The sums of both kernels, which must agree; they are those of the definition."""
    sides = target, target_dtype, golden, golden_dtype
    sums = measure(*sides)
    sums = sums._replace(graph=graph_sums(*sides, sums))
    if find_library() is not None:
        operands = [
            Operand("", 0, codes.nbytes, dtype, data=codes.ctypes.data)
            for codes, dtype in ((target, target_dtype), (golden, golden_dtype))
        ]
        jobs = [NativeJob(operands[0], operands[1], target.shape)]
        [found] = measure_all(jobs, 1, lambda _: None, with_kl=False, for_graphs=True)
        assert not isinstance(found, Failure)
        assert found[0].graph == pytest.approx(sums.graph, rel=1e-9, abs=1e-12)
    return sums


@given(ANY_FLOATS)
def test_figures_are_those_of_numpy(values: AnyArray) -> None:
    wide = values.astype(np.float64)
    found = figures_of(values, dtypes.FLOAT32)
    with np.errstate(all="ignore"):
        expected = (wide.min(), wide.max(), wide.mean(), np.sqrt(np.square(wide).sum()))
    if np.isnan(wide).any():
        expected = (math.nan,) * 4
    for value, wanted in zip((found.minimum, found.maximum, found.mean, found.norm), expected, strict=True):
        assert same(value, float(wanted))
    assert (found.nans, found.infs) == (np.isnan(wide).sum(), np.isinf(wide).sum())
    assert (found.dtype, found.shape) == ("float32", values.shape)


@given(ANY_FLOATS)
def test_sums_have_the_same_figures(values: AnyArray) -> None:
    sums = measure(values, dtypes.FLOAT32, values, dtypes.FLOAT32)
    found = figures_of_side(sums.target, "float32", values.shape)
    wanted = figures_of(values, dtypes.FLOAT32)
    for name in ("minimum", "maximum", "mean", "norm"):
        assert same(getattr(found, name), getattr(wanted, name)), name
    assert found.infs == (wanted.infs if not wanted.nans else sums.target.infs)


def test_large_integers_stay_exact() -> None:
    values = np.array([-(1 << 62) - 1, (1 << 62) + 1])
    found = figures_of(values, dtypes.INT64)
    assert (found.minimum, found.maximum) == (-(1 << 62) - 1, (1 << 62) + 1)


def test_no_elements_have_no_figures() -> None:
    found = figures_of(np.zeros((0, 3), np.float32), dtypes.FLOAT32, ("mean", "histogram", "crc32"))
    assert (found.minimum, found.mean, found.histogram, found.crc32) == (None, None, (), "00000000")


def test_what_is_not_wanted_is_not_there() -> None:
    found = figures_of(np.ones(3, np.float32), dtypes.FLOAT32, ())
    assert (found.maximum, found.mean, found.norm, found.nans, found.crc32) == (1.0, None, None, None, "")


@given(FLOATS)
def test_a_histogram_counts_every_finite_number(values: AnyArray) -> None:
    values = values.copy()
    values.flat[0] = math.nan
    found = figures_of(values, dtypes.FLOAT32, ("histogram",)).histogram
    kept = values[np.isfinite(values)].astype(np.float64)
    if kept.size:
        assert list(found) == list(np.histogram(kept, BINS, (kept.min(), kept.max()))[0])
    else:
        assert found == ()


@given(FLOATS)
def test_checksums_are_of_rows(values: AnyArray) -> None:
    assert crc32(values.T, dtypes.FLOAT32) == f"{zlib.crc32(values.T.tobytes()):08x}"


def test_checksums_of_many_blocks() -> None:
    values = np.arange((1 << 20) + 3, dtype=np.float32)
    codes = elements.encode(values, dtypes.BFLOAT16)
    assert crc32(values, dtypes.FLOAT32) == f"{zlib.crc32(values.tobytes()):08x}"
    assert crc32(codes, dtypes.BFLOAT16) == f"{zlib.crc32(elements.decode(codes, dtypes.BFLOAT16).tobytes()):08x}"


@given(FLOATS, st.data())
def test_metrics_are_those_of_the_formulas(golden: AnyArray, data: st.DataObject) -> None:
    noise = data.draw(arrays.arrays(np.float32, golden.shape, elements=st.floats(0.875, 1.125, width=32)))
    target = golden * noise
    sums = _measured(target, dtypes.FLOAT32, golden, dtypes.FLOAT32)
    real, _ = real_figures(sums, is_single=golden.size == 1, is_scalar=False)
    x, y = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    error = np.abs(x - y)
    with np.errstate(all="ignore"):
        relative = np.where(error == 0, 0, error / np.abs(y))
    assert same(real.euclidean, float(np.linalg.norm(error)))
    # Which small golden number has the largest error is decided in single precision.
    assert float(real.max_abs) == pytest.approx(float(error.max()), rel=1e-6)
    assert real.max_relative == pytest.approx(float(relative.max()), rel=1e-6)
    assert same(real.one_permille, float(np.mean(relative < 0.001)))
    assert same(real.five_permille, float(np.mean(relative < 0.005)))
    further = further_figures(sums)
    assert further is not None
    counted = np.abs(y) > 2.0**-23
    assert same(further.max_abs, float(np.where(counted, error, 0).max()))
    assert same(further.mean_relative, float(np.where(counted, relative, 0).mean()))
    p, q = (np.exp(side - side.max()) / np.exp(side - side.max()).sum() for side in (y, x))
    with np.errstate(all="ignore"):
        divergence = np.where(p > 0, p * (np.log(p) - np.log(q)), 0).sum()
    if np.isfinite(divergence):
        assert further.kl == pytest.approx(divergence, rel=1e-6, abs=1e-9)


def test_what_has_no_further_metrics() -> None:
    values = np.array([1, math.nan], np.float32)
    sums = _measured(values, dtypes.FLOAT32, values, dtypes.FLOAT32)
    assert further_figures(sums) is None
    zero = np.zeros(3, np.float32)
    sums = _measured(zero, dtypes.FLOAT32, zero, dtypes.FLOAT32)
    further = further_figures(sums)
    assert further is not None
    assert (further.cosine, further.kl, further.relative_distance) == (1.0, 0.0, 0.0)


def test_only_zero_is_zero_in_relative_errors() -> None:
    golden = np.array([1e-20, 2e-20, 1, 0], np.float32)
    target = np.array([1.002e-20, 2e-20, 1, 0], np.float32)
    real, _ = real_figures(_measured(target, dtypes.FLOAT32, golden, dtypes.FLOAT32), is_single=False, is_scalar=False)
    assert real.max_relative == pytest.approx(0.002, rel=1e-3)
    assert (real.one_permille, real.five_permille) == (0.75, 1.0)
    target[3] = 1e-30
    real, _ = real_figures(_measured(target, dtypes.FLOAT32, golden, dtypes.FLOAT32), is_single=False, is_scalar=False)
    assert (real.max_relative, real.one_permille, real.five_permille) == (math.inf, 0.5, 0.75)


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

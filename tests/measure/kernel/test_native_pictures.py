"""Errors and value pairs of pictures: the kernel and the definition in NumPy."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.kernels import DECODED_TYPES, Stored, job, needs_kernel
from opdiff.core import dtypes
from opdiff.core.codes import decode
from opdiff.core.pictures import BINS
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.pictures import NativePair
from opdiff.measure.picture_tally import Grid, GridAxis, Tally, tally
from opdiff.measure.pictures import SampledValues, draw_picture

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

pytestmark = needs_kernel

SPECIAL = np.array([0.0, -0.0, nan, inf, -inf, 1e308, -1e308, 5e-324, 65504.0])


def by_numpy(x: AnyArray, y: AnyArray, shape: Shape, grid: Grid) -> Tally:
    coordinates = [np.asarray(each) for each in np.unravel_index(np.arange(x.size), shape)]
    return tally(x.reshape(-1), y.reshape(-1), coordinates, grid)


def assert_equal(found: Tally | None, expected: Tally) -> None:
    assert found is not None
    for one, other in ((found.planes, expected.planes), (found.cells, expected.cells)):
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_array_equal(one.not_finite, other.not_finite)
        np.testing.assert_allclose(one.squares, other.squares, rtol=1e-12)
    np.testing.assert_array_equal(found.density, expected.density)
    assert (found.outside, found.not_finite) == (expected.outside, expected.not_finite)


@st.composite
def grids(draw: st.DrawFn) -> tuple[Shape, Grid]:
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    role = draw(st.permutations(range(len(shape))))[: draw(st.integers(0, 2))]
    axes, plane, cell = [], 1, 1
    for axis, extent in reversed(list(enumerate(shape))):
        width = draw(st.integers(1, extent)) if axis in role else 1
        axes.append(GridAxis(extent, 0, width, cell) if axis in role else GridAxis(extent, plane, 1, 0))
        if axis in role:
            cell *= -(-extent // width)
        else:
            plane *= extent
    low = draw(st.floats(-4, 4))
    return shape, Grid(tuple(axes[::-1]), plane, cell, low, low + draw(st.floats(1e-3, 8)))


@given(grids(), st.integers(0, 2**32 - 1))
def test_the_kernel_counts_as_numpy(made: tuple[Shape, Grid], seed: int) -> None:
    shape, grid = made
    random = np.random.default_rng(seed)
    x, y = (
        np.where(random.random(shape) < 0.2, random.choice(SPECIAL, shape), random.normal(0, 3, shape)) for _ in "xy"
    )
    sides = Stored(x, dtypes.FLOAT64), Stored(y, dtypes.FLOAT64)
    pair = NativePair(job(*sides, shape))
    assert_equal(pair.tally(grid), by_numpy(x, y, shape, grid))
    finite = np.clip(np.concatenate([side[np.isfinite(side)] for side in (x, y)]), -1e300, 1e300)
    assert pair.value_range() == ((finite.min(), finite.max()) if finite.size else (inf, -inf))


@pytest.mark.parametrize("dtype", DECODED_TYPES, ids=lambda dtype: dtype.name)
def test_every_type_is_read(dtype: DType) -> None:
    raw = np.random.default_rng(1).integers(0, 256, 6000 * max(dtype.bits // 8, 1), dtype=np.uint8)
    codes = (raw & 1 if dtype is dtypes.BOOL else raw).view(dtype.storage)[:3000]
    x, y = codes[:1500].copy(), codes[1500:].copy()
    axis = GridAxis(1500, 0, 100, 1)
    grid = Grid((axis,), 1, 15, -2.0, 3.0)
    expected = by_numpy(decode(x, dtype), decode(y, dtype), (1500,), grid)
    assert_equal(NativePair(job(Stored(x, dtype), Stored(y, dtype), (1500,))).tally(grid), expected)


def test_stored_layouts_are_read_in_place(tmp_path: Path) -> None:
    logical = np.random.default_rng(2).normal(size=(2, 16, 5, 6)).astype(np.float32)
    path = tmp_path / "golden"
    path.write_bytes(b"head" + logical.tobytes())
    stored = np.ascontiguousarray(logical.transpose(0, 2, 3, 1)) + np.float32(0.5)
    axes = ((2, 1, 480, 0), (16, 1, 1, 0), (5, 1, 96, 0), (6, 1, 16, 0))
    golden = native.Operand(str(path), 4, logical.nbytes, dtypes.FLOAT32)
    pair = NativePair(native.NativeJob(Stored(stored, dtypes.FLOAT32, axes).operand(), golden, logical.shape))
    grid = Grid(
        (GridAxis(2, 16, 1, 0), GridAxis(16, 1, 1, 0), GridAxis(5, 0, 2, 3), GridAxis(6, 0, 2, 1)), 32, 9, -3, 3
    )
    assert_equal(pair.tally(grid), by_numpy(stored.transpose(0, 3, 1, 2), logical, logical.shape, grid))


@pytest.mark.parametrize(
    "grid",
    [
        Grid((), 1, 1, 0.0, 1.0),
        Grid((GridAxis(7, 0, 1, 0),), 1, 1, 0.0, 1.0),
        Grid((GridAxis(8, 1, 1, 0),), 7, 1, 0.0, 1.0),
        Grid((GridAxis(8, 0, 3, 1),), 1, 2, 0.0, 1.0),
        Grid((GridAxis(8, 0, 0, 1),), 1, 8, 0.0, 1.0),
        Grid((GridAxis(8, -1, 1, 0),), 1, 1, 0.0, 1.0),
        Grid((GridAxis(8, 0, 1, 0),), 1, 1, 1.0, 1.0),
        Grid((GridAxis(8, 0, 1, 0),), 1, 1, nan, 1.0),
    ],
    ids=["no-axis", "other-count", "planes", "cells", "width", "negative", "empty-range", "nan"],
)
def test_a_grid_that_does_not_fit_is_refused(grid: Grid) -> None:
    sides = [Stored(np.zeros(8, np.float32), dtypes.FLOAT32) for _ in range(2)]
    assert NativePair(job(sides[0], sides[1], (8,))).tally(grid) is None


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    missing = native.Operand(str(tmp_path / "no"), 0, 32, dtypes.FLOAT32)
    pair = NativePair(native.NativeJob(missing, missing, (8,)))
    assert pair.value_range() is None
    assert pair.tally(Grid((GridAxis(8, 0, 1, 0),), 1, 1, 0.0, 1.0)) is None


def test_pictures_of_whole_tensors_equal_those_of_all_values() -> None:
    random = np.random.default_rng(3)
    golden = random.normal(size=(1, 3, 40, 70)).astype(np.float32)
    target = golden * 1.1
    x, y = target.reshape(-1), golden.reshape(-1)
    pair = NativePair(job(Stored(target, dtypes.FLOAT32), Stored(golden, dtypes.FLOAT32), golden.shape))
    drawn = [
        draw_picture(
            0, SampledValues(golden.shape, "NCHW", np.arange(x.size), x, y, lambda at: (x[at], y[at]), whole), 9999
        )
        for whole in (None, pair)
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] is not None
    assert sum(drawn[0].density) == x.size
    assert len(drawn[0].golden_counts) == BINS

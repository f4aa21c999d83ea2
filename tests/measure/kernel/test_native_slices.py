"""Errors of two tensors in the slices of their axes: by the kernel, the reference, and a plain formula."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import DECODED_TYPES, Stored, job, needs_kernel
from opdiff.core import dtypes
from opdiff.core.codes import encode
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel import results
from opdiff.measure.slices import (
    MAX_FULL_ELEMENTS,
    Sample,
    SlicedAxis,
    SliceSums,
    choose_sample,
    concentration,
    measure_slices,
    slice_axes,
)

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

SHAPE = (3, 5, 7, 2)


def by_numpy(x: AnyArray, dtype: DType, y: AnyArray, golden: DType, sample: Sample) -> list[tuple[SliceSums, ...]]:
    sides = x.reshape(-1), y.reshape(-1)
    axes = slice_axes(x.shape, native.parts_of(dtype))
    return measure_slices(
        lambda start, stop: sides[0][start:stop], dtype, lambda start, stop: sides[1][start:stop], golden, axes, sample
    )


def are_close(found: list[tuple[SliceSums, ...]] | None, expected: list[tuple[SliceSums, ...]]) -> bool:
    assert found is not None
    pairs = [pair for axes in zip(found, expected, strict=True) for pair in zip(*axes, strict=True)]
    return all(
        (a.count, a.not_finite, a.largest) == (b.count, b.not_finite, b.largest)
        and a.squares == pytest.approx(b.squares, rel=1e-12)
        for a, b in pairs
    )


def test_squares_and_largest_match_the_formula() -> None:
    x, y = (np.random.default_rng(seed).normal(0, 1, SHAPE) for seed in (1, 2))
    for sliced, slices in zip(
        slice_axes(SHAPE), by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, choose_sample(x.size)), strict=True
    ):
        other_axes = tuple(axis for axis in range(4) if axis != sliced.axis)
        assert [sums.squares for sums in slices] == pytest.approx(((x - y) ** 2).sum(other_axes))
        assert [sums.largest for sums in slices] == pytest.approx(np.abs(x - y).max(other_axes))
        assert {sums.count for sums in slices} == {x.size // sliced.extent}


@needs_kernel
@pytest.mark.parametrize("dtype", DECODED_TYPES, ids=lambda dtype: dtype.name)
def test_both_kernels_agree_on_every_type(dtype: DType) -> None:
    numbers = np.random.default_rng(3).integers(0, 100, SHAPE).astype(np.float64)
    x, y = encode(numbers, dtype), (numbers + np.random.default_rng(4).normal(0, 1, SHAPE)).astype(np.float32)
    sample = choose_sample(x.size)
    found = results.measure_slices(job(Stored(x, dtype), Stored(y, dtypes.FLOAT32), SHAPE), slice_axes(SHAPE), sample)
    assert are_close(found, by_numpy(x, dtype, y, dtypes.FLOAT32, sample))


@needs_kernel
def test_both_kernels_agree_on_complex_numbers() -> None:
    parts = np.random.default_rng(5).normal(0, 1, (2, *SHAPE, 2)).astype(np.float32)
    x, y = parts.view(np.complex64)[..., 0]
    x, y, sample = np.ascontiguousarray(x), np.ascontiguousarray(y), choose_sample(2 * x.size)
    stored = Stored(x, dtypes.COMPLEX64), Stored(y, dtypes.COMPLEX64)
    found = results.measure_slices(job(*stored, (*SHAPE, 2)), slice_axes(SHAPE, 2), sample)
    assert are_close(found, by_numpy(x, dtypes.COMPLEX64, y, dtypes.COMPLEX64, sample))


SPECIAL_VALUES = [
    (nan, nan, SliceSums(2, 0, 4.0, 2.0)),
    (inf, inf, SliceSums(2, 0, 4.0, 2.0)),
    (inf, -inf, SliceSums(2, 1, 4.0, 2.0)),
    (nan, 1.0, SliceSums(2, 1, 4.0, 2.0)),
    (1.0, inf, SliceSums(2, 1, 4.0, 2.0)),
    (1e300, 0.0, SliceSums(2, 0, 1e150**2, 1e300)),
]


@pytest.mark.parametrize(("target", "golden", "expected"), SPECIAL_VALUES)
def test_non_finite_errors_are_counted_separately(target: float, golden: float, expected: SliceSums) -> None:
    x, y = np.array([[3.0, target], [0.0, 0.0]]), np.array([[1.0, golden], [0.0, 0.0]])
    sample = choose_sample(4)
    by_rows = by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample)[0]
    assert by_rows == (expected, SliceSums(2))
    if native.find_library() is not None:
        stored = job(Stored(x, dtypes.FLOAT64), Stored(y, dtypes.FLOAT64), (2, 2))
        assert results.measure_slices(stored, slice_axes((2, 2)), sample) == by_numpy(
            x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample
        )


@needs_kernel
def test_tiled_layout_is_read_by_strides() -> None:
    logical = np.random.default_rng(6).normal(0, 1, (2, 20, 3, 4)).astype(np.float32)
    padded = np.zeros((2, 32, 3, 4), np.float32)
    padded[:, :20] = logical
    # (n, c1, c0, h, w) -> (n, c1, h, w, c0)
    stored = np.ascontiguousarray(padded.reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2))
    axes = ((2, 1, 384, 0), (20, 16, 192, 1), (3, 1, 64, 0), (4, 1, 16, 0))
    golden = logical.copy()
    golden[:, 17] += 1
    made = job(Stored(stored, dtypes.FLOAT32, axes), Stored(golden, dtypes.FLOAT32), logical.shape)
    found = results.measure_slices(made, slice_axes(logical.shape), choose_sample(logical.size))
    assert found is not None
    assert [channel for channel, sums in enumerate(found[1]) if sums.squares] == [17]


def test_slices_of_long_axes_have_several_indices() -> None:
    (sliced,) = slice_axes((1, 1000))
    assert sliced == SlicedAxis(1, 1000, 1, 4)
    assert sliced.slices == 250
    x, y = np.zeros((1, 1000)), np.zeros((1, 1000))
    x[0, 998] = 3
    (slices,) = by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, choose_sample(1000))
    assert [number for number, sums in enumerate(slices) if sums.squares] == [249]


@needs_kernel
def test_sample_of_a_large_tensor_has_elements_of_every_channel() -> None:
    shape = (4, 64, 128, 128)
    x = np.zeros(shape, np.float32)
    y = x.copy()
    y[:, 9] = 1
    sample = choose_sample(x.size)
    assert x.size > MAX_FULL_ELEMENTS >= sample.examined
    assert sample.share < 0.1
    assert all(0 <= start <= x.size - sample.length for start in sample.starts)
    found = results.measure_slices(
        job(Stored(x, dtypes.FLOAT32), Stored(y, dtypes.FLOAT32), shape), slice_axes(shape), sample
    )
    assert found is not None
    assert all(sums.count for slices in found for sums in slices)
    assert [sums.mean_square for sums in found[1]] == [float(channel == 9) for channel in range(64)]


def test_concentration_is_highest_for_the_axis_with_one_bad_slice() -> None:
    errors = np.random.default_rng(7).normal(0, 1, SHAPE)
    errors[:, 2] *= 20
    found = by_numpy(errors, dtypes.FLOAT64, np.zeros(SHAPE), dtypes.FLOAT64, choose_sample(errors.size))
    values = [concentration(slices) for slices in found]
    assert max(values) == values[1] > 0.9
    assert max(values[0], *values[2:]) < 0.2
    assert concentration([SliceSums(4, 0, 8.0), SliceSums(4, 0, 8.0)]) == 0
    assert concentration([SliceSums(4, 0, 8.0), SliceSums(4, 4)]) == 1
    assert concentration([SliceSums(4), SliceSums(4)]) == 0


@needs_kernel
def test_missing_or_short_file_has_no_slices(tmp_path: Path) -> None:
    y = np.zeros(8, np.float32)
    missing = native.Operand(str(tmp_path / "gone"), 0, 32, dtypes.FLOAT32)
    made = native.NativeJob(missing, Stored(y, dtypes.FLOAT32).operand(), (8,))
    assert results.measure_slices(made, slice_axes((8,)), choose_sample(8)) is None
    (tmp_path / "gone").write_bytes(bytes(16))
    assert results.measure_slices(made, slice_axes((8,)), choose_sample(8)) is None
    (tmp_path / "gone").write_bytes(bytes(32))
    assert results.measure_slices(made, slice_axes((8,)), choose_sample(8)) == [(SliceSums(1),) * 8]


@needs_kernel
@pytest.mark.parametrize(
    ("sliced", "sample"),
    [
        (SlicedAxis(0, 8, 1, 1), Sample((8,), 1, 8)),
        (SlicedAxis(0, 8, 1, 1), Sample((-1,), 1, 8)),
        (SlicedAxis(0, 8, 1, 1), Sample((0,), 1 << 20, 8)),
        (SlicedAxis(0, 8, 0, 1), Sample((0,), 8, 8)),
    ],
    ids=["start beyond the end", "negative start", "run too long", "stride of 0"],
)
def test_invalid_descriptions_are_rejected(sliced: SlicedAxis, sample: Sample) -> None:
    x = np.zeros(8, np.float32)
    made = job(Stored(x, dtypes.FLOAT32), Stored(x, dtypes.FLOAT32), (8,))
    assert results.measure_slices(made, [sliced], sample) is None

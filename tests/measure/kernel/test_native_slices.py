"""The errors of two tensors in the slices of their axes: by both kernels, and by the plain formula."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import DISTINCT, Stored, job, needs_kernel
from opdiff.core import dtypes
from opdiff.core.codes import encode
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel import slices as native_slices
from opdiff.measure.slices import MOST_ELEMENTS, Cut, Sample, Slice, cuts_of, explained, measure_slices, sample_of

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

SHAPE = (3, 5, 7, 2)


def by_numpy(x: AnyArray, dtype: DType, y: AnyArray, golden: DType, sample: Sample) -> list[tuple[Slice, ...]]:
    sides = x.reshape(-1), y.reshape(-1)
    cuts = cuts_of(x.shape, native.parts_of(dtype))
    return measure_slices(
        lambda start, stop: sides[0][start:stop], dtype, lambda start, stop: sides[1][start:stop], golden, cuts, sample
    )


def close(found: list[tuple[Slice, ...]] | None, wanted: list[tuple[Slice, ...]]) -> bool:
    assert found is not None
    pairs = [pair for ours, theirs in zip(found, wanted, strict=True) for pair in zip(ours, theirs, strict=True)]
    return all(
        (a.count, a.not_finite, a.largest) == (b.count, b.not_finite, b.largest)
        and a.squares == pytest.approx(b.squares, rel=1e-12)
        for a, b in pairs
    )


def test_squares_and_largest_are_those_of_the_formula() -> None:
    x, y = (np.random.default_rng(seed).normal(0, 1, SHAPE) for seed in (1, 2))
    for cut, slices in zip(
        cuts_of(SHAPE), by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample_of(x.size)), strict=True
    ):
        others = tuple(axis for axis in range(4) if axis != cut.axis)
        assert [each.squares for each in slices] == pytest.approx(((x - y) ** 2).sum(others))
        assert [each.largest for each in slices] == pytest.approx(np.abs(x - y).max(others))
        assert {each.count for each in slices} == {x.size // cut.extent}


@needs_kernel
@pytest.mark.parametrize("dtype", DISTINCT, ids=lambda dtype: dtype.name)
def test_both_kernels_agree_on_every_type(dtype: DType) -> None:
    numbers = np.random.default_rng(3).integers(0, 100, SHAPE).astype(np.float64)
    x, y = encode(numbers, dtype), (numbers + np.random.default_rng(4).normal(0, 1, SHAPE)).astype(np.float32)
    sample = sample_of(x.size)
    found = native_slices.measure_slices(
        job(Stored(x, dtype), Stored(y, dtypes.FLOAT32), SHAPE), cuts_of(SHAPE), sample
    )
    assert close(found, by_numpy(x, dtype, y, dtypes.FLOAT32, sample))


@needs_kernel
def test_both_kernels_agree_on_complex_numbers() -> None:
    parts = np.random.default_rng(5).normal(0, 1, (2, *SHAPE, 2)).astype(np.float32)
    x, y = parts.view(np.complex64)[..., 0]
    x, y, sample = np.ascontiguousarray(x), np.ascontiguousarray(y), sample_of(2 * x.size)
    stored = Stored(x, dtypes.COMPLEX64), Stored(y, dtypes.COMPLEX64)
    found = native_slices.measure_slices(job(*stored, (*SHAPE, 2)), cuts_of(SHAPE, 2), sample)
    assert close(found, by_numpy(x, dtypes.COMPLEX64, y, dtypes.COMPLEX64, sample))


SPECIALS = [
    (nan, nan, Slice(2, 0, 4.0, 2.0)), (inf, inf, Slice(2, 0, 4.0, 2.0)), (inf, -inf, Slice(2, 1, 4.0, 2.0)),
    (nan, 1.0, Slice(2, 1, 4.0, 2.0)), (1.0, inf, Slice(2, 1, 4.0, 2.0)), (1e300, 0.0, Slice(2, 0, 1e150**2, 1e300)),
]  # fmt: skip


@pytest.mark.parametrize(("target", "golden", "wanted"), SPECIALS)
def test_what_is_not_finite_is_counted_and_does_not_drown_the_rest(target: float, golden: float, wanted: Slice) -> None:
    x, y = np.array([[3.0, target], [0.0, 0.0]]), np.array([[1.0, golden], [0.0, 0.0]])
    sample = sample_of(4)
    by_rows = by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample)[0]
    assert by_rows == (wanted, Slice(2))
    if native.find_library() is not None:
        stored = job(Stored(x, dtypes.FLOAT64), Stored(y, dtypes.FLOAT64), (2, 2))
        assert native_slices.measure_slices(stored, cuts_of((2, 2)), sample) == by_numpy(
            x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample
        )


@needs_kernel
def test_a_layout_is_walked() -> None:
    logical = np.random.default_rng(6).normal(0, 1, (2, 20, 3, 4)).astype(np.float32)
    padded = np.zeros((2, 32, 3, 4), np.float32)
    padded[:, :20] = logical
    # (n, c1, c0, h, w) -> (n, c1, h, w, c0)
    stored = np.ascontiguousarray(padded.reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2))
    axes = ((2, 1, 384, 0), (20, 16, 192, 1), (3, 1, 64, 0), (4, 1, 16, 0))
    golden = logical.copy()
    golden[:, 17] += 1
    made = job(Stored(stored, dtypes.FLOAT32, axes), Stored(golden, dtypes.FLOAT32), logical.shape)
    found = native_slices.measure_slices(made, cuts_of(logical.shape), sample_of(logical.size))
    assert found is not None
    assert [place for place, each in enumerate(found[1]) if each.squares] == [17]


def test_long_axes_have_bars_for_neighbours() -> None:
    (cut,) = cuts_of((1, 1000))
    assert cut == Cut(1, 1000, 1, 4)
    assert cut.slices == 250
    x, y = np.zeros((1, 1000)), np.zeros((1, 1000))
    x[0, 998] = 3
    (slices,) = by_numpy(x, dtypes.FLOAT64, y, dtypes.FLOAT64, sample_of(1000))
    assert [place for place, each in enumerate(slices) if each.squares] == [249]


@needs_kernel
def test_of_many_elements_a_sample_is_seen_that_meets_every_channel() -> None:
    shape = (4, 64, 128, 128)
    x = np.zeros(shape, np.float32)
    y = x.copy()
    y[:, 9] = 1
    sample = sample_of(x.size)
    assert x.size > MOST_ELEMENTS >= sample.seen
    assert sample.share < 0.1
    assert all(0 <= start <= x.size - sample.length for start in sample.starts)
    found = native_slices.measure_slices(
        job(Stored(x, dtypes.FLOAT32), Stored(y, dtypes.FLOAT32), shape), cuts_of(shape), sample
    )
    assert found is not None
    assert all(each.count for slices in found for each in slices)
    assert [each.mean_square for each in found[1]] == [float(place == 9) for place in range(64)]


def test_the_axis_that_has_it_in_one_slice_explains_most() -> None:
    errors = np.random.default_rng(7).normal(0, 1, SHAPE)
    errors[:, 2] *= 20
    found = by_numpy(errors, dtypes.FLOAT64, np.zeros(SHAPE), dtypes.FLOAT64, sample_of(errors.size))
    values = [explained(slices) for slices in found]
    assert max(values) == values[1] > 0.9
    assert max(values[0], *values[2:]) < 0.2
    assert explained([Slice(4, 0, 8.0), Slice(4, 0, 8.0)]) == 0
    assert explained([Slice(4, 0, 8.0), Slice(4, 4)]) == 1
    assert explained([Slice(4), Slice(4)]) == 0


@needs_kernel
def test_files_that_are_not_there_any_more_have_no_slices(tmp_path: Path) -> None:
    y = np.zeros(8, np.float32)
    missing = native.Operand(str(tmp_path / "gone"), 0, 32, dtypes.FLOAT32)
    made = native.NativeJob(missing, Stored(y, dtypes.FLOAT32).operand(), (8,))
    assert native_slices.measure_slices(made, cuts_of((8,)), sample_of(8)) is None
    (tmp_path / "gone").write_bytes(bytes(16))
    assert native_slices.measure_slices(made, cuts_of((8,)), sample_of(8)) is None
    (tmp_path / "gone").write_bytes(bytes(32))
    assert native_slices.measure_slices(made, cuts_of((8,)), sample_of(8)) == [(Slice(1),) * 8]


@needs_kernel
@pytest.mark.parametrize(
    ("cut", "sample"),
    [
        (Cut(0, 8, 1, 1), Sample((8,), 1, 8)),
        (Cut(0, 8, 1, 1), Sample((-1,), 1, 8)),
        (Cut(0, 8, 1, 1), Sample((0,), 1 << 20, 8)),
        (Cut(0, 8, 0, 1), Sample((0,), 8, 8)),
    ],
    ids=["behind the end", "before the start", "too long", "nothing behind"],
)
def test_what_is_described_wrongly_is_refused(cut: Cut, sample: Sample) -> None:
    x = np.zeros(8, np.float32)
    made = job(Stored(x, dtypes.FLOAT32), Stored(x, dtypes.FLOAT32), (8,))
    assert native_slices.measure_slices(made, [cut], sample) is None

"""Pictures of two tensors: planes, codes, histograms and the density of value pairs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opdiff.core.pictures import BINS, INF_CODE, MAX_CODE, NAN_CODE, NEGATIVE_INF_CODE
from opdiff.measure.pictures import MAX_CELLS, SampledValues, draw_picture

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.pictures import TensorPicture
    from opdiff.core.tensor import Shape

RANDOM = np.random.default_rng(5)


def values(target: AnyArray, golden: AnyArray, labels: str = "", positions: AnyArray | None = None) -> SampledValues:
    x, y = target.reshape(-1), golden.reshape(-1)
    at = np.arange(x.size) if positions is None else positions
    return SampledValues(target.shape, labels, at, x[at], y[at], lambda chosen: (x[chosen], y[chosen]))


def picture(
    target: AnyArray, golden: AnyArray, labels: str = "", cells: int = 1 << 20, positions: AnyArray | None = None
) -> TensorPicture:
    found = draw_picture(0, values(target, golden, labels, positions), cells)
    assert found is not None
    return found


def codes(image: bytes, like: TensorPicture) -> AnyArray:
    return np.frombuffer(image, np.uint8).reshape(like.extents)


@pytest.mark.parametrize(
    ("shape", "labels", "axes", "planes"),
    [
        pytest.param((2, 3, 8, 9), "NCHW", (2, 3), 6, id="images"),
        pytest.param((2, 8, 9, 3), "NHWC", (1, 2), 6, id="channels last"),
        pytest.param((1, 16, 1, 1), "NCHW", (1,), 1, id="images of one pixel"),
        pytest.param((1, 12, 20), "", (1, 2), 1, id="tokens by channels"),
        pytest.param((4, 12, 1, 20), "", (1, 3), 4, id="the last long axes"),
        pytest.param((30,), "", (0,), 1, id="one axis"),
        pytest.param((1,), "", (), 1, id="one element"),
    ],
)
def test_planes_are_images_or_the_last_long_axes(shape: Shape, labels: str, axes: Shape, planes: int) -> None:
    golden = RANDOM.normal(size=shape)
    found = picture(golden + 0.1, golden, labels)
    assert (found.axes, found.frame_count, len(found.frames)) == (axes, planes, planes)


def test_a_cell_of_one_element_has_its_values_and_its_error() -> None:
    golden = RANDOM.normal(size=(2, 3, 5, 7))
    target = golden.copy()
    target[1, 2, 3, 4] += 0.5
    found = picture(target, golden, "NCHW")
    worst = found.frames[0]
    assert (worst.index, worst.share) == ((1, 2), 1.0)
    step = (found.high - found.low) / MAX_CODE
    np.testing.assert_allclose(found.low + codes(worst.golden, found) * step, golden[1, 2], atol=step)
    np.testing.assert_allclose(found.low + codes(worst.target, found) * step, target[1, 2], atol=step)
    error = codes(worst.error, found)
    assert np.argwhere(error).tolist() == [[3, 4]]
    shown = found.low_error * (found.high_error / found.low_error) ** ((error[3, 4] - 1) / (MAX_CODE - 1))
    assert shown == pytest.approx(0.5, rel=0.05)
    assert not any(np.any(codes(frame.error, found)) for frame in found.frames[1:])


def test_large_planes_have_cells_of_several_elements() -> None:
    golden = np.zeros((1, 1, 200, 130))
    golden[0, 0, :100] = 1.0
    target = golden.copy()
    target[0, 0, 199, 129] = -1.0
    found = picture(target, golden, "NCHW")
    assert (found.cell, found.extents) == ((4, 3), (50, 44))
    assert max(found.extents) <= MAX_CELLS
    image = codes(found.frames[0].golden, found)
    assert set(image[:25].ravel().tolist()) == {MAX_CODE}
    assert len(set(image[25:].ravel().tolist())) == 1
    assert np.argwhere(codes(found.frames[0].error, found)).tolist() == [[49, 43]]


def test_values_that_are_not_finite_have_codes_of_their_own() -> None:
    golden = np.ones((2, 4))
    golden[1, 0] = np.nan
    target = golden.copy()
    target[0, 1:] = np.nan, np.inf, -np.inf
    found = picture(target, golden)
    assert codes(found.frames[0].target, found)[0, 1:].tolist() == [NAN_CODE, INF_CODE, NEGATIVE_INF_CODE]
    assert codes(found.frames[0].golden, found)[1, 0] == NAN_CODE
    # NaN on both sides is no error.
    assert codes(found.frames[0].error, found).tolist() == [[0, NAN_CODE, NAN_CODE, NAN_CODE], [0, 0, 0, 0]]
    assert (found.not_finite, sum(found.density)) == (4, 4)


def test_planes_with_nan_come_first_and_others_by_their_error() -> None:
    golden = RANDOM.normal(size=(1, 4, 3, 3))
    target = golden.copy()
    target[0, 1] += 0.01
    target[0, 3] += 1.0
    target[0, 2, 0, 0] = np.nan
    found = picture(target, golden, "NCHW", cells=27)
    assert [frame.index for frame in found.frames] == [(0, 2), (0, 3), (0, 1)]
    assert found.frame_count == 4


def test_the_density_is_on_the_diagonal_where_both_sides_agree_and_off_it_for_a_scale() -> None:
    golden = np.linspace(0.0, 1.0, 640)
    same, scaled = picture(golden, golden), picture(2 * golden, golden)
    np.testing.assert_array_equal(np.argwhere(_density(same)), [[n, n] for n in range(BINS)])
    columns, rows = np.nonzero(_density(scaled))
    assert np.all(np.abs(rows - 2 * columns) <= 2)
    assert columns.max() == BINS // 2


def _density(found: TensorPicture) -> AnyArray:
    return np.array(found.density).reshape(BINS, BINS)


def test_a_value_far_from_all_others_does_not_stretch_the_range() -> None:
    golden = RANDOM.normal(size=(100, 100))
    target = golden.copy()
    target[0, 0] = 1e30
    found = picture(target, golden)
    assert found.high < 100
    assert found.outside == 1
    # The scale of errors does not follow it either.
    assert codes(found.frames[0].error, found)[0, 0] == MAX_CODE
    assert found.high_error < 1000


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(max_dims=4, max_side=6),
        elements=st.floats(allow_nan=True, allow_infinity=True),
    ),
    st.randoms(use_true_random=False),
)
def test_any_values_can_be_drawn(golden: AnyArray, random: Any) -> None:
    order = list(range(golden.size))
    random.shuffle(order)
    target = golden.reshape(-1)[order].reshape(golden.shape)
    found = picture(target, golden)
    finite = int(np.count_nonzero(np.isfinite(target) & np.isfinite(golden)))
    assert sum(found.golden_counts) == sum(found.target_counts) == sum(found.density) == finite
    assert found.not_finite == golden.size - finite
    assert found.low < found.high
    assert np.isfinite([found.low, found.high, found.low_error, found.high_error]).all()
    assert sum(frame.share for frame in found.frames) == pytest.approx(1.0) or not _has_finite_error(target, golden)


def _has_finite_error(target: AnyArray, golden: AnyArray) -> bool:
    with np.errstate(all="ignore"):
        errors = np.abs(target - golden)
        return bool(np.any(np.isfinite(errors) & (np.square(errors) > 0)))


def test_a_sample_shows_the_whole_tensor_in_its_worst_planes() -> None:
    golden = RANDOM.normal(size=(1, 8, 32, 32))
    target = golden.copy()
    target[0, 5] *= 1.5
    sample = np.arange(0, golden.size, 3)
    found = picture(target, golden, "NCHW", positions=sample)
    assert found.frames[0].index == (0, 5)
    assert found.sampled_share == pytest.approx(1 / 3, rel=1e-3)
    assert np.count_nonzero(codes(found.frames[0].error, found)) == 1024
    assert sum(found.density) == sample.size


@pytest.mark.parametrize(
    "array", [np.zeros((0, 3)), np.ones((2, 3), np.complex64)], ids=["no elements", "complex numbers"]
)
def test_tensors_without_real_numbers_have_no_picture(array: AnyArray) -> None:
    assert draw_picture(0, values(array, array), 100) is None


def test_images_of_another_size_are_refused() -> None:
    from msgspec.structs import replace

    found = picture(np.ones((4, 4)), np.zeros((4, 4)))
    assert prod(found.extents) == len(found.overall)
    with pytest.raises(ValueError, match="extents of its plane"):
        replace(found, overall=b"")

"""Conversions between layouts, and the use of origin shapes."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdiff.align import LAYOUTS, Aligned, convert
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because, render_all
from opdiff.core.tensor import TensorSpec
from opdiff.sample.storage import store

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

FLAT_4D = ("NCHW", "NHWC", "HWCN", "CHWN")
FLAT_5D = ("NCDHW", "NDHWC", "DHWCN", "DHWNC")
TILED_4D = ("NC1HWC0", "NC1HWC0_C04", "NHWC1C0", "C1HWNC0", "C1HWNCoC0")
WEIGHTS_4D = ("FRACTAL_Z", "FRACTAL_Z_C04")
TILED_5D = ("NDC1HWC0", "FRACTAL_Z_3D")
FOUR = FLAT_4D + TILED_4D + WEIGHTS_4D
FIVE = FLAT_5D + TILED_5D


def numbered(shape: Shape) -> AnyArray:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype="<i2").reshape(shape)


def change(
    codes: AnyArray, source: str, target: str, origin: Shape = (), shape: Shape = (), groups: int = 1
) -> Aligned:
    return convert(codes, TensorSpec(dtypes.INT16, codes.shape, source, origin, groups), target, shape)


def axes_of(name: str) -> str:
    layout = LAYOUTS.find(name)
    assert layout is not None
    return layout.axes


def in_order(shape: Shape, order: str) -> Shape:
    """Permute a shape NCHW, NCDHW or NC to another axis order."""
    labels = {4: "NCHW", 5: "NCDHW", 2: "NC"}[len(shape)]
    return tuple(shape[labels.index(label)] for label in order)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_conversions_round_trip(data: st.DataObject) -> None:
    names = data.draw(st.sampled_from([FOUR, FIVE]))
    source, target = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    space = st.integers(0, 3)
    shape = data.draw(st.tuples(st.integers(0, 18), st.integers(0, 4), *[space] * (2 if names is FOUR else 3)))
    stored = store(numbered(shape), source)
    if source == target:
        np.testing.assert_array_equal(change(stored, source, target).codes, stored)
        return
    there = change(stored, source, target, shape=in_order(shape, axes_of(target)))
    np.testing.assert_array_equal(there.codes, store(numbered(shape), target))
    back = change(there.codes, target, source, shape=in_order(shape, axes_of(source)))
    np.testing.assert_array_equal(back.codes, stored)


@pytest.mark.parametrize("source", TILED_4D)
@settings(max_examples=25, deadline=None)
@given(shape=st.tuples(*[st.integers(0, 40)] * 2, *[st.integers(0, 4)] * 2), data=st.data())
def test_axis_order_of_origin_shape_is_irrelevant(source: str, shape: Shape, data: st.DataObject) -> None:
    array = numbered(shape)
    c0 = data.draw(st.sampled_from([2, 8, 16, 32]))
    origin = tuple(data.draw(st.permutations(shape + data.draw(st.sampled_from([(), (1,), (1, 1)])))))
    aligned = change(store(array, source, c0=c0), source, "NHWC", origin)
    np.testing.assert_array_equal(aligned.codes, array.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [
        *product(WEIGHTS_4D, FLAT_4D, ("NCHW", "NHWC", "HWCN")),
        *product(["FRACTAL_Z_3D"], ["NDHWC"], ("NCDHW", "NDHWC", "DHWCN")),
    ],
)
def test_axis_order_of_weights_is_found(source: str, target: str, order: str) -> None:
    array = numbered((37, 3, 5, 7) if len(order) == 4 else (37, 20, 2, 5, 7))
    aligned = change(store(array, source), source, target, in_order(array.shape, order))
    np.testing.assert_array_equal(aligned.codes, store(array, target))


def test_origin_shape_is_not_applied_by_position() -> None:
    array = numbered((2, 35, 3, 4))
    aligned = change(store(array, "NC1HWC0"), "NC1HWC0", "NHWC", (2, 35, 3, 4))
    np.testing.assert_array_equal(aligned.codes, array.transpose(0, 2, 3, 1))
    assert aligned.layout == "NHWC"
    steps = "NC1HWC0 [2, 3, 3, 4, 16] -> NCHW [2, 35, 3, 4]; 312 padding elements cut; axes NCHW -> NHWC"
    assert render_all(aligned.steps) == steps


def test_example_of_the_format_page() -> None:
    stored = np.array([1, 5, 2, 6, 3, 7, 4, 8, 9, 0, 10, 0, 11, 0, 12, 0], "<i2").reshape(1, 2, 2, 2, 2)
    for shape, target in [((), "NCHW"), ((1, 2, 2, 3), "NHWC")]:
        aligned = change(stored, "NC1HWC0", target, (1, 3, 2, 2), shape)
        np.testing.assert_array_equal(aligned.codes, store(numbered((1, 3, 2, 2)), target))


KEPT: list[tuple[str, Shape, str, Shape, str]] = [
    ("NC1HWC0", (1, 2, 3, 4, 16), "NHWC", (1, 3, 4, 32), "no origin shape is recorded: the padding of C is kept"),
    ("NDC1HWC0", (1, 5, 2, 3, 4, 16), "NCDHW", (1, 32, 5, 3, 4), "the padding of C is kept, C = 32"),
    ("FRACTAL_NZ", (7, 2, 1, 16, 16), "ND", (7, 16, 32), "the padding is kept, matrices of [16, 32]"),
]


@pytest.mark.parametrize(("source", "stored", "target", "shape", "step"), KEPT)
def test_padding_is_kept_without_origin_shape(source: str, stored: Shape, target: str, shape: Shape, step: str) -> None:
    aligned = change(numbered(stored), source, target)
    assert aligned.codes.shape == shape
    assert step in str(aligned.steps[0])


# Shape of an NCHW array, origin shape, axis order in ND, and note.
AS_ORIGIN: list[tuple[Shape, Shape, str, str]] = [
    ((2, 20, 3, 4), (2, 20, 3, 4), "NCHW", "which is NCHW"),
    ((2, 20, 3, 4), (2, 3, 4, 20), "NHWC", "which is NHWC"),
    ((2, 20, 3, 4), (3, 4, 20, 2), "HWCN", "which is HWCN"),
    ((2, 20, 1, 1), (2, 20), "NCHW", "which is NCHW"),
    ((2, 20, 1, 1), (20, 2), "HWCN", "which is HWCN"),
    ((1, 20, 3, 4), (20, 3, 4), "NCHW", "which is NCHW"),
    ((1, 20, 3, 4), (3, 4, 20), "NHWC", "which is NHWC"),
    ((4, 4, 1, 1), (4, 4, 1, 1), "NCHW", "which is NCHW"),
    ((4, 4, 4, 4), (4, 4, 4, 4), "NCHW", "could be NCHW, NHWC, HWCN"),
    ((2, 20, 3, 4), (4, 3, 20, 2), "NCHW", "is in no known order"),
    ((2, 32, 3, 4), (), "NCHW", "no origin shape is recorded"),
    ((1, 1, 1, 1), (1,), "NCHW", "which is NCHW"),
    ((0, 5, 1, 3), (0, 1, 3, 5), "NHWC", "which is NHWC"),
]


@pytest.mark.parametrize(("shape", "origin", "order", "note"), AS_ORIGIN)
def test_nd_has_the_axis_order_of_the_origin_shape(shape: Shape, origin: Shape, order: str, note: str) -> None:
    array = numbered(shape)
    aligned = change(store(array, "NC1HWC0"), "NC1HWC0", "ND", origin)
    expected = store(array, order)
    known = "which is" in note
    np.testing.assert_array_equal(aligned.codes, expected.reshape(origin) if known else expected)
    assert note in str(aligned.steps[-1])


def test_plain_layouts_to_nd() -> None:
    array = numbered((2, 5, 3, 4))
    moved = change(store(array, "NHWC"), "NHWC", "ND", (2, 5, 3, 4))
    np.testing.assert_array_equal(moved.codes, array)
    kept = change(store(array, "CHWN"), "CHWN", "ND", (5, 3, 4, 2))
    np.testing.assert_array_equal(kept.codes, store(array, "CHWN"))


def test_weights_to_nd() -> None:
    array = numbered((37, 20, 5, 3))
    aligned = change(store(array, "FRACTAL_Z"), "FRACTAL_Z", "ND", (5, 3, 20, 37))
    np.testing.assert_array_equal(aligned.codes, store(array, "HWCN"))


def test_requested_shape_decides_the_axis_order_of_nd() -> None:
    array = numbered((2, 20, 3, 4))
    stored = store(array, "NC1HWC0")
    aligned = change(stored, "NC1HWC0", "ND", (2, 20, 3, 4), (2, 3, 4, 20))
    np.testing.assert_array_equal(aligned.codes, store(array, "NHWC"))


@pytest.mark.parametrize("target", ["ND", "NCHW", "NHWC", "HWCN"])
@pytest.mark.parametrize("source", ["FRACTAL_NZ", "FRACTAL_ZZ"])
def test_matrices_keep_their_order_in_any_plain_layout(source: str, target: str) -> None:
    array = numbered((2, 3, 17, 33))
    aligned = change(store(array, source, c0=32), source, target, array.shape)
    np.testing.assert_array_equal(aligned.codes, array)
    assert aligned.layout == target


def test_matrices_of_another_rank_are_treated_as_nd() -> None:
    array = numbered((17, 33))
    aligned = change(store(array, "FRACTAL_NZ"), "FRACTAL_NZ", "NCHW", array.shape)
    np.testing.assert_array_equal(aligned.codes, array)
    assert str(aligned.steps[-1]) == "NCHW with 2 axes is treated as ND"


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (0, 4, 2), (1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("target", ["ND", "NHWC"])
def test_plain_layouts_of_another_rank_are_treated_as_nd(shape: Shape, target: str) -> None:
    array = numbered(shape)
    aligned = change(array, "NCHW", target)
    np.testing.assert_array_equal(aligned.codes, array)
    assert str(aligned.steps[0]) == f"NCHW with {len(shape)} axes is treated as ND"


def test_nd_keeps_its_order_and_records_the_assumption() -> None:
    array = numbered((2, 3, 4, 5))
    aligned = change(array, "ND", "NHWC")
    np.testing.assert_array_equal(aligned.codes, array)
    assert aligned.steps == (because("align.axes_assumed", layout="ND", axes="NHWC"),)


def test_nd_can_be_reshaped() -> None:
    assert change(numbered((24,)), "ND", "NCHW", shape=(1, 2, 3, 4)).codes.shape == (1, 2, 3, 4)


# Kernels of 3 x 4 in NCHW and of 2 x 6 in HWCN; both need 12 rows.
AMBIGUOUS = (2, 6, 3, 4)


@pytest.mark.parametrize(("target", "shape"), [("NCHW", (2, 6, 3, 4)), ("HWCN", (4, 3, 2, 6))])
def test_target_layout_resolves_ambiguous_weights(target: str, shape: Shape) -> None:
    array = numbered(shape)
    aligned = change(store(array, "FRACTAL_Z"), "FRACTAL_Z", target, AMBIGUOUS)
    np.testing.assert_array_equal(aligned.codes, store(array, target))
    assert str(aligned.steps[0]) == f"origin shape [2, 6, 3, 4] fits in the orders NCHW, HWCN, read as {target}"


@pytest.mark.parametrize("target", ["ND", "NHWC", "CHWN"])
def test_ambiguous_weights_raise(target: str) -> None:
    message = r"\[2, 6, 3, 4\] fits in the orders NCHW, HWCN: give --shape, or one of these as the target layout"
    with pytest.raises(LayoutError, match=message):
        change(np.zeros((12, 1, 16, 16), "<i2"), "FRACTAL_Z", target, AMBIGUOUS)


@pytest.mark.parametrize("target", ["NCHW", "NHWC", "HWCN"])
def test_depthwise_weights(target: str) -> None:
    """NHWC would fit, too, but no framework stores weights in this order."""
    array = numbered((64, 1, 3, 3))
    aligned = change(store(array, "FRACTAL_Z", groups=64), "FRACTAL_Z", target, array.shape, groups=64)
    np.testing.assert_array_equal(aligned.codes, store(array, target))


def test_groups_are_ignored_for_other_layouts() -> None:
    array = numbered((4, 5, 3, 2))
    for source in (*FLAT_4D, "NC1HWC0"):
        aligned = change(store(array, source), source, "ND", array.shape, groups=4)
        np.testing.assert_array_equal(aligned.codes, array)


@pytest.mark.parametrize("target", FLAT_4D)
def test_grouped_weights_round_trip(target: str) -> None:
    array = numbered((40, 8, 3, 2))
    stored = store(array, "FRACTAL_Z", groups=10)
    there = change(stored, "FRACTAL_Z", target, array.shape, groups=10)
    np.testing.assert_array_equal(there.codes, store(array, target))
    back = change(there.codes, target, "FRACTAL_Z", groups=10)
    np.testing.assert_array_equal(back.codes, stored)


def test_zero_groups_mean_one_group() -> None:
    array = numbered((4, 5, 3, 2))
    aligned = change(store(array, "FRACTAL_Z"), "FRACTAL_Z", "NCHW", array.shape, groups=0)
    np.testing.assert_array_equal(aligned.codes, array)


PACKED: list[tuple[dtypes.DType, str, Shape]] = [
    (dtypes.FLOAT16, "NC1HWC0", (2, 2, 3, 4, 16)),
    (dtypes.INT8, "NC1HWC0", (2, 1, 3, 4, 32)),
    (dtypes.FLOAT16, "FRACTAL_Z", (24, 1, 16, 16)),
    (dtypes.INT8, "FRACTAL_Z", (12, 1, 16, 32)),
    (dtypes.INT8, "FRACTAL_Z_C04", (3, 1, 16, 16)),
    (dtypes.INT8, "FRACTAL_ZZ", (2, 20, 1, 1, 32, 32)),
    (dtypes.FLOAT16, "FRACTAL_ZZ", (2, 20, 1, 1, 16, 16)),
    (dtypes.FLOAT32, "FRACTAL_NZ", (2, 20, 1, 1, 16, 16)),
]


@pytest.mark.parametrize(("dtype", "target", "stored"), PACKED)
def test_tiles_depend_on_the_element_type(dtype: dtypes.DType, target: str, stored: Shape) -> None:
    codes = np.zeros((2, 4 if target == "FRACTAL_Z_C04" else 20, 3, 4), dtype.storage)
    aligned = convert(codes, TensorSpec(dtype, codes.shape, "NCHW"), target)
    assert aligned.codes.shape == stored
    assert aligned.codes.dtype == codes.dtype
    assert aligned.steps[-1] == because("align.packed", layout=target, stored=stored)


@pytest.mark.parametrize("tile", [(16, 16), (16, 32), (3, 2)], ids=str)
@pytest.mark.parametrize("shape", [(40, 20), (32, 32), (1, 7)], ids=str)
@pytest.mark.parametrize("target", ["ND", "NCHW"])
def test_weights_of_a_matrix_multiplication(shape: Shape, tile: tuple[int, int], target: str) -> None:
    array = numbered(shape)
    n0, c0 = tile
    stored = np.zeros((-(-shape[0] // c0), -(-shape[1] // n0), n0, c0), array.dtype)
    for (k, n), code in np.ndenumerate(array):
        stored[k // c0, n // n0, n % n0, k % c0] = code
    aligned = change(stored, "FRACTAL_Z", target, shape)
    np.testing.assert_array_equal(aligned.codes, array)


@pytest.mark.parametrize("name", ["NCHW", "NC1HWC0", "BN_WEIGHT", "my_own"])
def test_same_layout_is_unchanged(name: str) -> None:
    codes = numbered((1, 1, 2, 2, 16))
    assert change(codes, name, name, origin=(1, 3, 2, 2)).codes is codes
    kept = change(codes, name, name, shape=(4, 16))
    assert kept.codes.shape == ((4, 16) if name == "NCHW" else codes.shape)
    assert len(kept.steps) == 1
    with pytest.raises(LayoutError, match=r"this layout already, with shape \[1, 1, 2, 2, 16\], not \[1, 3, 2, 2\]"):
        change(codes, name, name, shape=(1, 3, 2, 2))


def test_stored_codes_are_not_modified() -> None:
    for name in (*TILED_4D, *WEIGHTS_4D):
        array = numbered((3, 4, 2, 2))
        stored = store(array, name)
        stored.flags.writeable = False
        np.testing.assert_array_equal(change(stored, name, "NCHW", shape=array.shape).codes, array)


@pytest.mark.parametrize("order", [*permutations("CHW")], ids="".join)
def test_origin_shape_without_axes_of_extent_one(order: tuple[str, ...]) -> None:
    array = numbered((1, 20, 3, 4))
    origin = tuple(array.shape["NCHW".index(label)] for label in order)
    aligned = change(store(array, "NC1HWC0"), "NC1HWC0", "NCHW", origin)
    np.testing.assert_array_equal(aligned.codes, array)

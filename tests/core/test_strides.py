"""`StridedView`: the same operations on views and on arrays lead to the same elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdiff.core.strides import NotStrided, StridedView, is_strided_view, require_data

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


def offsets_of(view: StridedView) -> AnyArray:
    """Return the offset of each element, computed from the factors of all axes."""
    offsets = np.zeros((), np.int64)
    for axis in view.axes:
        index, rest = np.zeros(axis.extent, np.int64), np.arange(axis.extent)
        for factor in reversed(axis.factors):
            index += rest % factor.extent * factor.stride
            rest //= factor.extent
        offsets = offsets[..., np.newaxis] + index
    return offsets.reshape(view.shape)


def split_offsets(view: StridedView) -> AnyArray:
    """Return the offset of each element, computed from split axes, as the kernel does."""
    offsets = np.zeros((), np.int64)
    for extent, split, outer, inner in view.split_axes():
        index = np.arange(extent)
        offsets = offsets[..., np.newaxis] + (index // split * outer + index % split * inner)
    return offsets.reshape(view.shape)


def check(view: StridedView, array: AnyArray) -> None:
    assert (view.shape, view.ndim, view.size) == (array.shape, array.ndim, array.size)
    np.testing.assert_array_equal(offsets_of(view), array)
    try:
        found = split_offsets(view)
    except NotStrided:
        return
    np.testing.assert_array_equal(found, array)


def numbered(shape: Shape, *, fortran_order: bool = False) -> AnyArray:
    return np.arange(prod(shape)).reshape(shape, order="F" if fortran_order else "C")


def factors(draw: st.DrawFn, size: int) -> Shape:
    """Draw a shape of this size."""
    shape: list[int] = []
    while size > 1 and len(shape) < 5:
        divisors = [number for number in range(1, size + 1) if size % number == 0]
        shape.append(draw(st.sampled_from(divisors)))
        size //= shape[-1]
    return (*shape, size)


@st.composite
def steps(draw: st.DrawFn, shape: Shape) -> tuple[str, Any, Shape]:
    """Draw an operation on an array of this shape, and the shape of the result."""
    kind = draw(st.sampled_from(["transpose", "reshape", "cut"]))
    if kind == "transpose":
        order = draw(st.permutations(range(len(shape))))
        return kind, tuple(order), tuple(shape[axis] for axis in order)
    if kind == "reshape" and 0 not in shape:
        wanted = factors(draw, prod(shape))
        return kind, wanted, wanted
    stops = tuple(draw(st.none() | st.integers(0, extent + 1)) for extent in shape)
    left = tuple(extent if stop is None else min(extent, stop) for extent, stop in zip(shape, stops, strict=True))
    return "cut", tuple(slice(stop) for stop in stops), left


def is_small(shape: Shape) -> bool:
    return prod(shape) <= 2000


EXTENTS = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(st.data(), EXTENTS.map(tuple).filter(is_small), st.booleans(), st.integers(1, 6))
def test_strided_view_matches_numpy(data: st.DataObject, shape: Shape, fortran_order: bool, count: int) -> None:
    view, array = StridedView(shape, fortran_order=fortran_order), numbered(shape, fortran_order=fortran_order)
    check(view, array)
    for _ in range(count):
        kind, arguments, shape = data.draw(steps(shape))
        try:
            view = view[arguments] if kind == "cut" else getattr(view, kind)(*arguments)
        except NotStrided:
            return
        array = array[arguments] if kind == "cut" else getattr(array, kind)(*arguments)
        check(view, array)


def test_split_axes_of_a_tiled_layout() -> None:
    view, array = StridedView((2, 3, 4, 5, 16)), numbered((2, 3, 4, 5, 16))
    moved = view.transpose(0, 1, 4, 2, 3).reshape(2, 48, 4, 5)[:, :35]
    check(moved, array.transpose(0, 1, 4, 2, 3).reshape(2, 48, 4, 5)[:, :35])
    assert moved.split_axes() == ((2, 1, 960, 0), (35, 16, 320, 1), (4, 1, 80, 0), (5, 1, 16, 0))


INDICES: list[tuple[str, Any]] = [
    ("first", 0),
    ("first of two", (slice(None), 0)),
    ("ellipsis", (..., slice(None, 2))),
    ("ellipsis and first", (0, ..., slice(None, 2))),
    ("ellipsis alone", ...),
    ("nothing", slice(None, 0)),
]


@pytest.mark.parametrize("index", [row[1] for row in INDICES], ids=[row[0] for row in INDICES])
def test_indexing_matches_numpy(index: Any) -> None:
    check(StridedView((3, 4, 5))[index], numbered((3, 4, 5))[index])


def test_shape_arguments_as_tuple_or_integers() -> None:
    view = StridedView((3, 4))
    assert view.reshape((2, 6)).shape == view.reshape(2, 6).shape == (2, 6)
    assert view.transpose((1, 0)).shape == view.transpose(1, 0).shape == (4, 3)


def test_reshape_to_another_size_raises() -> None:
    with pytest.raises(ValueError, match=r"12 elements do not fill \[5, 2\]"):
        StridedView((3, 4)).reshape(5, 2)


def test_reshape_over_padding_raises() -> None:
    padded = StridedView((2, 3, 4, 5)).transpose(0, 2, 1, 3).reshape(2, 12, 5)[:, :5]
    check(padded, numbered((2, 3, 4, 5)).transpose(0, 2, 1, 3).reshape(2, 12, 5)[:, :5])
    with pytest.raises(NotStrided):
        padded.reshape(10, 5)


def test_added_axis_can_be_cut() -> None:
    check(StridedView((2,)).reshape(2, 1)[:, :0], numbered((2,)).reshape(2, 1)[:, :0])


def test_require_data_rejects_views() -> None:
    assert is_strided_view(StridedView((1,)))
    assert not is_strided_view(np.zeros(1))
    require_data(np.zeros(1))
    with pytest.raises(NotStrided):
        require_data(StridedView((1,)))

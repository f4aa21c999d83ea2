"""Contract of all built-in layouts, and offsets of elements by the format page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdiff.align import LAYOUTS, Extents, Layout, Tile
from opdiff.align.tiled_channels import TiledChannels
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import quoted
from opdiff.sample.storage import store
from opdiff.testing.layouts import check_layout

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

SMALL = st.integers(0, 4)
WIDE = st.integers(0, 40)
SHAPES: dict[str, st.SearchStrategy[Shape]] = {
    "": st.lists(SMALL, max_size=4).flatmap(lambda lead: st.tuples(*map(st.just, lead), WIDE, WIDE)),
    "NC": st.tuples(WIDE, WIDE),
    "CN": st.tuples(WIDE, WIDE),
    "NCL": st.tuples(SMALL, SMALL, SMALL),
    "NCHW": st.tuples(WIDE, WIDE, SMALL, SMALL),
    "NCDHW": st.tuples(WIDE, WIDE, st.integers(0, 2), SMALL, SMALL),
}
TILES = st.builds(Tile, c0=st.sampled_from([1, 2, 4, 8, 16, 32]), n0=st.sampled_from([1, 4, 16]))
NAMES = LAYOUTS.names()


def layout_of(name: str) -> Layout:
    found = LAYOUTS.find(name)
    assert found is not None
    return found


def numbered(shape: Shape) -> AnyArray:
    """Return an array without zeros, so that elements differ from padding."""
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.int32).reshape(shape)


def shapes_of(name: str) -> st.SearchStrategy[Shape]:
    axes = layout_of(name).axes
    shapes = SHAPES[axes if axes in SHAPES else "NCHW" if len(axes) == 4 else "NCDHW"]
    return shapes.map(lambda shape: (shape[0], shape[1] % 5, *shape[2:])) if name == "FRACTAL_Z_C04" else shapes


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_builtin_layouts_pass_the_contract(name: str, data: st.DataObject) -> None:
    check_layout(layout_of(name), [numbered(data.draw(shapes_of(name)))], tiles=[data.draw(TILES)])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pack_matches_the_index_arithmetic_of_the_format_page(name: str, data: st.DataObject) -> None:
    layout, tile = layout_of(name), data.draw(TILES)
    shape = data.draw(shapes_of(name))
    array = numbered(shape)
    # The oracle takes NCHW; logical arrays of plain layouts are in their own axis order.
    logical = array if len(layout.axes) != len(name) else store(array, name)
    expected = store(array, name, c0=tile.c0, n0=tile.n0)
    np.testing.assert_array_equal(layout.pack(logical, tile, 1), expected)


@settings(max_examples=60, deadline=None)
@given(
    groups=st.integers(2, 40),
    n=st.integers(1, 20),
    c=st.integers(1, 20),
    space=st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
def test_grouped_weights_match_the_format_page(groups: int, n: int, c: int, space: tuple[int, int]) -> None:
    array = numbered((groups * n, c, *space))
    layout = layout_of("FRACTAL_Z")
    check_layout(layout, [array], groups=groups, tiles=[Tile()])
    np.testing.assert_array_equal(layout.pack(array, Tile(), groups), store(array, "FRACTAL_Z", groups=groups))


def test_groups_in_several_blocks() -> None:
    # c = 8, n = 4: four groups fill a block, so ten groups need three blocks, the last one half empty.
    array = numbered((40, 8, 2, 1))
    stored = layout_of("FRACTAL_Z").pack(array, Tile(), 10)
    assert stored.shape == (3 * 2 * 2, 1, 16, 16)
    assert np.count_nonzero(stored) == array.size
    # group 5 is the second in the second block: row (1*2 + 8//16)*2 + 0, N 4, C 8
    assert stored[4, 0, 4, 8] == array[20, 0, 0, 0]
    np.testing.assert_array_equal(layout_of("FRACTAL_Z").unpack(stored, array.shape, 10), array)


@pytest.mark.parametrize("rank", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("name", ["FRACTAL_NZ", "FRACTAL_ZZ"])
def test_matrices_of_any_rank_with_padding(name: str, rank: int) -> None:
    array = numbered((*(2, 3, 1, 2)[: rank - 2], 17, 33))  # 31 of 64 columns are padding
    stored = store(array, name, c0=32)
    layout = layout_of(name)
    assert layout.logical_shape(stored.shape, array.shape, 1, "").shape == array.shape
    np.testing.assert_array_equal(layout.unpack(stored, array.shape, 1), array)


def test_leading_axes_can_be_merged_or_split() -> None:
    array = numbered((2, 3, 5, 7))
    stored = store(array, "FRACTAL_NZ")
    unpacked = layout_of("FRACTAL_NZ").unpack(stored, (6, 5, 7), 1)
    np.testing.assert_array_equal(unpacked, array.reshape(6, 5, 7))


def test_vector_is_a_matrix_of_one_row() -> None:
    array = numbered((20,))
    stored = store(array, "FRACTAL_NZ")
    assert stored.shape == (2, 1, 16, 16)
    np.testing.assert_array_equal(layout_of("FRACTAL_NZ").unpack(stored, (20,), 1), array)


def test_elements_outside_the_diagonal_are_ignored() -> None:
    array = numbered((2, 20, 1, 3))
    stored = store(array, "C1HWNCoC0")
    assert stored.shape == (2, 1, 3, 2, 16, 16)
    assert stored[1, 0, 2, 1, 3, 3] == array[1, 19, 0, 2]
    assert np.count_nonzero(stored) == array.size


@pytest.mark.parametrize(
    ("dtype", "c0"),
    [
        (dtypes.FLOAT16, 16),
        (dtypes.BFLOAT16, 16),
        (dtypes.FLOAT32, 16),
        (dtypes.INT64, 16),
        (dtypes.INT8, 32),
        (dtypes.INT4, 32),
        (dtypes.STRING, 16),
    ],
    ids=str,
)
def test_tile_of_element_type(dtype: dtypes.DType, c0: int) -> None:
    assert Tile.of(dtype) == Tile(c0=c0, n0=16)


BAD_STORED: list[tuple[str, Shape, str]] = [
    ("NC1HWC0", (1, 1, 2, 16), r"stored shape \[1, 1, 2, 16\] does not have 5 axes"),
    ("NC1HWC0", (1, 1, 2, 2, 0), "C0, the last extent of the stored shape .* must be at least 1"),
    ("NC1HWC0_C04", (1, 1, 2, 2, 16), "must be 4"),
    ("C1HWNCoC0", (1, 1, 2, 2, 16, 8), r"stored shape \[1, 1, 2, 2, 16, 8\] .* end in a square"),
    ("C1HWNCoC0", (1, 1, 2, 2, 0, 0), "end in a square"),
    ("FRACTAL_NZ", (1, 16, 16), r"stored shape \[1, 16, 16\] does not end in tiles"),
    ("FRACTAL_NZ", (), "does not end in tiles"),
    ("FRACTAL_ZZ", (1, 1, 0, 16), "does not end in tiles"),
    ("FRACTAL_Z", (1, 1, 16), "does not have 4 axes that end in a tile"),
    ("FRACTAL_Z_3D", (1, 1, 16, 0), "does not have 4 axes that end in a tile"),
    ("FRACTAL_Z_C04", (1, 1, 0, 16), "does not have 4 axes that end in a tile"),
]


@pytest.mark.parametrize(("name", "stored", "message"), BAD_STORED, ids=[f"{row[0]}-{row[1]}" for row in BAD_STORED])
def test_impossible_stored_shapes_raise(name: str, stored: Shape, message: str) -> None:
    layout = layout_of(name)
    with pytest.raises(LayoutError, match=f"layout {name}: .*{message}"):
        layout.logical_shape(stored, (1, 2, 2, 2), 1, "")
    with pytest.raises(LayoutError, match=f"layout {name}: .*{message}"):
        layout.unpack(np.zeros(stored), (1, 2, 2, 2), 1)


BAD_ARRAYS: list[tuple[str, Shape, int, str]] = [
    ("NCHW", (1, 2, 3), 1, r"shape \[1, 2, 3\] does not have the axes NCHW"),
    ("NC1HWC0", (1, 2, 3), 1, "does not have the axes NCHW"),
    ("FRACTAL_Z", (1, 2, 3), 1, "does not have the axes NCHW"),
    ("FRACTAL_Z", (7, 2, 1, 1), 2, r"N = 7 of shape \[7, 2, 1, 1\] is not a multiple of 2 groups"),
    ("FRACTAL_Z", (0, 2, 1, 1), 2, "N = 0 .* is not a multiple of 2 groups"),
    ("FRACTAL_Z_3D", (4, 2, 1, 1, 1), 2, "the storage of 2 groups is not known; write a custom conversion for it"),
    ("FRACTAL_Z_C04", (4, 2, 1, 1), 2, "the storage of 2 groups is not known; write a custom conversion for it"),
    ("FRACTAL_Z_C04", (4, 5, 1, 1), 1, r"shape \[4, 5, 1, 1\] is not NCHW with at most 4 channels"),
]


@pytest.mark.parametrize(
    ("name", "shape", "groups", "message"), BAD_ARRAYS, ids=[f"{row[0]}-{row[1]}-{row[2]}" for row in BAD_ARRAYS]
)
def test_pack_of_unsuitable_arrays_raises(name: str, shape: Shape, groups: int, message: str) -> None:
    with pytest.raises(LayoutError, match=f"layout {name}: .*{message}"):
        layout_of(name).pack(np.zeros(shape), Tile(), groups)


def test_impossible_shapes_of_empty_arrays_raise() -> None:
    huge = 1 << 62
    with pytest.raises(LayoutError, match="do not fill the shape"):
        layout_of("FRACTAL_NZ").unpack(np.zeros((0, 1, 1, 16, 16)), (0, huge, huge, 3, 3), 1)
    with pytest.raises(LayoutError, match="do not fill the shape"):
        layout_of("FRACTAL_Z").unpack(np.zeros((0, 1, 16, 16)), (4, 0, huge, huge), 1)


class Leaky(TiledChannels, frozen=True):
    """Returns the last channels including padding."""

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        super().unpack(stored, shape, groups)
        whole = TiledChannels.unpack(self, stored, self._padded_shape(stored.shape), groups)
        return whole[:, whole.shape[1] - shape[1] :]


class Dirty(TiledChannels, frozen=True):
    """Adds the padding to the first channel, with an effect only if it is not 0."""

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        result = TiledChannels.unpack(self, stored, shape, groups).copy()
        whole = TiledChannels.unpack(self, stored, self._padded_shape(stored.shape), groups)
        result[:, 0] += whole[:, shape[1] :].sum(axis=1, dtype=stored.dtype)
        return result


class Careless(TiledChannels, frozen=True):
    """Accepts any shape."""

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        return TiledChannels.unpack(self, stored, shape[:4], groups)


class Widening(TiledChannels, frozen=True):
    """Changes the element type."""

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        return TiledChannels.pack(self, array, tile, groups).astype(np.float64)


class Guessing(TiledChannels, frozen=True):
    """Applies the origin shape by position."""

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        return Extents(TiledChannels.logical_shape(self, stored, (), groups, prefer).shape, quoted(f"not {origin}"))


BROKEN = [
    (Leaky, "unpack does not undo pack"),
    (Dirty, "padding leaks into the result"),
    (Careless, "unpack accepts shape"),
    (Widening, "pack changes the element type"),
    (Guessing, "logical_shape finds"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_contract_detects_broken_layouts(broken: type[TiledChannels], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_layout(broken("NC1HWC0", axes="NCHW", order="N1HW0"), [numbered((1, 3, 2, 2))])

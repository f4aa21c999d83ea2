"""The contract of layouts, as a check that the tests of a plug-in can call."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np

from opdiff.align import Tile
from opdiff.core.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.align import Layout
    from opdiff.core.codes import AnyArray

TILES = (Tile(), Tile(c0=32), Tile(c0=8, n0=4), Tile(c0=2, n0=3))


def check_layout(layout: Layout, arrays: Iterable[AnyArray], *, groups: int = 1, tiles: Iterable[Tile] = TILES) -> None:
    """Assert that a layout keeps its promises for these logical arrays, in tiles of several sizes.

    The arrays must be ones that the layout can hold, of any element type; small ones with odd extents find most.

        def test_my_layout() -> None:
            check_layout(MyLayout(), [np.arange(210, dtype=np.int16).reshape(2, 3, 5, 7)])

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    assert isinstance(layout.name, str), "a layout needs a name"
    assert layout.name, "a layout needs a name"
    assert len(set(layout.axes)) == len(layout.axes), f"{layout.name}: the letters of the axes must differ"
    assert pickle.loads(pickle.dumps(layout)) == layout, f"{layout.name}: must survive pickling"  # noqa: S301 (its own)
    sizes = tuple(tiles)
    for array in arrays:
        if array.size:
            _check_refusal(layout, array, groups)
        for tile in sizes:
            _check_array(layout, array, tile, groups)


def _check_array(layout: Layout, array: AnyArray, tile: Tile, groups: int) -> None:
    case = f"{layout.name}, shape {array.shape}, {tile}, groups {groups}"
    assert not layout.axes or array.ndim == len(layout.axes), f"{case}: the array does not have these axes"
    stored = layout.pack(_frozen(array), tile, groups)
    assert stored.dtype == array.dtype, f"{case}: pack changes the element type"
    if array.ndim:  # an empty origin shape means that none is recorded
        found = layout.logical_shape(stored.shape, array.shape, groups, layout.axes)
        assert found.shape == array.shape, f"{case}: logical_shape finds {found.shape}"
    restored = layout.unpack(_frozen(stored), array.shape, groups)
    assert restored.dtype == array.dtype, f"{case}: unpack changes the element type"
    np.testing.assert_array_equal(restored, array, f"{case}: unpack does not undo pack")
    dirty = layout.unpack(_frozen(_with_dirty_padding(layout, array, stored, tile, groups)), array.shape, groups)
    np.testing.assert_array_equal(dirty, array, f"{case}: padding leaks into the result")


def _check_refusal(layout: Layout, array: AnyArray, groups: int) -> None:
    """A shape that the stored data cannot have is refused, never cut or filled up."""
    stored = layout.pack(_frozen(array), Tile(), groups)
    wrong = (*array.shape, stored.size + 2)
    try:
        layout.unpack(_frozen(stored), wrong, groups)
    except LayoutError:
        return
    raise AssertionError(f"{layout.name}: unpack accepts shape {wrong} for stored shape {stored.shape}")


def _with_dirty_padding(layout: Layout, array: AnyArray, stored: AnyArray, tile: Tile, groups: int) -> AnyArray:
    used = layout.pack(np.ones(array.shape, np.uint8), tile, groups)
    garbage = np.full(stored.size * stored.dtype.itemsize, 0xA5, np.uint8).view(stored.dtype)
    return np.where(used == 1, stored, garbage.reshape(stored.shape))


def _frozen(array: AnyArray) -> AnyArray:
    """A view that cannot be written to: tensors of dumps are mapped files."""
    view = array.view()
    view.flags.writeable = False
    return view

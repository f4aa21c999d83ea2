"""Where the element at some coordinates could be instead, and what that would mean."""

from __future__ import annotations

from itertools import combinations, permutations
from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from opdiff.align import LAYOUTS, Tile
from opdiff.align.permute import is_plain
from opdiff.align.walk import Walk
from opdiff.core.errors import LayoutError
from opdiff.core.strides import NotPlaces, Places
from opdiff.workflows.element_diff.detective import What

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from opdiff.align.walk import Axes
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

    Index = npt.NDArray[np.intp]
    Coordinates = Sequence[Index]

# Beyond this many axes only pairs of them change places.
_MAX_PERMUTED = 5
# Larger tensors are not packed to learn the stored shape of a layout.
_MAX_PACKED = 1 << 26
_TILED = (
    "NC1HWC0", "NC1HWC0_C04", "NHWC1C0", "C1HWNC0", "NDC1HWC0", "FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_Z", "FRACTAL_Z_3D",
)  # fmt: skip
_TILES = (Tile(16, 16), Tile(32, 16), Tile(8, 16), Tile(64, 16))
# Colours come in threes, and with opacity in fours.
_COLOURS = {3: (2, 1, 0), 4: (2, 1, 0, 3)}
_BY_RANK = {4: "NCHW", 5: "NCDHW"}


class Hypothesis(NamedTuple):
    """Something that may have been done to the target.

    Attributes:
        kind: what it is.
        text: the same in words.
        places: from coordinates in the golden shape to places among the target's stored codes. Places beyond its end
            stand for elements that are lost.
        swapped: the bytes of each element are to be read backwards.
    """

    kind: What
    text: str
    places: Callable[[Coordinates], Index]
    swapped: bool = False


class Scene(NamedTuple):
    """What hypotheses are about: the target's elements, the golden shape, and the letters of its axes."""

    target: Walk
    shape: Shape
    letters: str
    layout: str
    groups: int

    def name(self, axis: int) -> str:
        """An axis in words."""
        return f"axis {axis} ({self.letters[axis]})" if self.letters else f"axis {axis}"

    def order(self, axes: Sequence[int]) -> str:
        """An order of axes in words."""
        return " ".join(self.letters[axis] if self.letters else str(axis) for axis in axes)

    @property
    def stored_count(self) -> int:
        """Elements that are stored, padding included."""
        return int(self.target.stored.codes.size)


def axis_letters(layout: str, rank: int) -> str:
    """The letters of the axes of an array in a declared layout; empty when there are none for so many axes."""
    return layout if len(layout) == rank and is_plain(LAYOUTS.find(layout)) and layout != "ND" else ""


def iter_hypotheses(scene: Scene) -> Iterator[Hypothesis]:
    """Everything that may have been done to the target, the simplest first."""
    yield from _reversed(scene)
    yield from _orders(scene)
    if scene.target.axes or not is_plain(LAYOUTS.find(scene.layout)):
        yield from _stored_orders(scene)
    yield from _layouts(scene)
    if scene.target.dtype.bits >= 16:
        text = "the bytes of each element are in the opposite order"
        yield Hypothesis(What.BYTES, text, lambda at: _logical(scene, at), swapped=True)


def _logical(scene: Scene, at: Coordinates) -> Index:
    """The places of elements as they were compared, given by coordinates in the golden shape."""
    if not scene.shape:
        return np.zeros(1, np.intp)
    return scene.target.offsets(np.asarray(np.ravel_multi_index(tuple(at), scene.shape)))


def _solid(shape: Shape) -> list[int]:
    return [axis for axis, extent in enumerate(shape) if extent > 1]


def _reversed(scene: Scene) -> Iterator[Hypothesis]:
    for axis in _solid(scene.shape):
        extent = scene.shape[axis]
        may_be_colours = extent in _COLOURS and (not scene.letters or scene.letters[axis] == "C")
        if may_be_colours:
            text = f"the channels are in another order along {scene.name(axis)}, as RGB and BGR are"
            yield Hypothesis(What.CHANNELS, text, _renumbered(scene, axis, np.array(_COLOURS[extent])))
        if not may_be_colours or extent > 3:
            text = f"{scene.name(axis)} runs backwards"
            yield Hypothesis(What.REVERSED, text, _renumbered(scene, axis, np.arange(extent)[::-1]))


def _renumbered(scene: Scene, axis: int, table: Index) -> Callable[[Coordinates], Index]:
    def places(at: Coordinates) -> Index:
        return _logical(scene, [table[index] if place == axis else index for place, index in enumerate(at)])

    return places


def _permuted(shape: Shape) -> Iterator[tuple[int, ...]]:
    """The orders of axes that move something, axes of extent 1 first."""
    solid = _solid(shape)
    thin = [axis for axis, extent in enumerate(shape) if extent == 1]
    if len(solid) > _MAX_PERMUTED:
        for first, second in combinations(solid, 2):
            swap = {first: second, second: first}
            yield (*thin, *(swap.get(axis, axis) for axis in solid))
        return
    yield from ((*thin, *order) for order in permutations(solid) if list(order) != solid)


def _orders(scene: Scene) -> Iterator[Hypothesis]:
    for order in _permuted(scene.shape):
        shown = [axis for axis in order if scene.shape[axis] > 1]
        text = f"the data is in the order {scene.order(shown)}, not {scene.order(sorted(shown))}"
        yield Hypothesis(What.AXES, text, _ordered(scene, order))
        for axis in shown:
            if scene.shape[axis] == 3:
                both = f"{text}, and the channels of {scene.name(axis)} run backwards"
                yield Hypothesis(What.AXES, both, _ordered(scene, order, axis))


def _ordered(scene: Scene, order: Sequence[int], backwards: int | None = None) -> Callable[[Coordinates], Index]:
    shape = tuple(scene.shape[axis] for axis in order)

    def places(at: Coordinates) -> Index:
        moved = [scene.shape[axis] - 1 - at[axis] if axis == backwards else at[axis] for axis in order]
        return scene.target.offsets(np.asarray(np.ravel_multi_index(tuple(moved), shape)))

    return places


def _stored_orders(scene: Scene) -> Iterator[Hypothesis]:
    """As if the stored data had no tiles and no padding, whatever its header says."""
    if prod(scene.shape) > scene.stored_count or not scene.shape:
        return
    plain = tuple(range(len(scene.shape)))
    for order in (plain, *_permuted(scene.shape)):
        shown = [axis for axis in order if scene.shape[axis] > 1]
        text = f"the data is stored plainly, in the order {scene.order(shown)}, though it is declared {scene.layout}"
        yield Hypothesis(What.LAYOUT, text, _stored_order(scene.shape, order))


def _stored_order(shape: Shape, order: Sequence[int]) -> Callable[[Coordinates], Index]:
    extents = tuple(shape[axis] for axis in order)
    return lambda at: np.asarray(np.ravel_multi_index(tuple(at[axis] for axis in order), extents))


def _layouts(scene: Scene) -> Iterator[Hypothesis]:
    """As if the stored data were in another layout than its header says, or in tiles of another size."""
    if prod(scene.shape) > _MAX_PACKED or not scene.shape:
        return
    seen: set[Axes] = {scene.target.axes}
    for name in _TILED:
        for tile in _TILES:
            axes = _axes_of(scene, name, tile)
            if axes is None or axes in seen:
                continue
            seen.add(axes)
            size = f" with tiles of {tile.c0}" if name == scene.layout or tile != _TILES[0] else ""
            text = f"the data is stored as {name}{size}, though it is declared {scene.layout}"
            yield Hypothesis(What.LAYOUT, text, _tiled(scene, axes))


def _tiled(scene: Scene, axes: Axes) -> Callable[[Coordinates], Index]:
    walk = Walk(scene.target.stored, scene.target.dtype, scene.shape, axes)
    return walk.places


def _axes_of(scene: Scene, name: str, tile: Tile) -> Axes | None:
    """Where the elements would be in a layout; `None` when it cannot hold them."""
    layout = LAYOUTS.find(name)
    letters = scene.letters or _BY_RANK.get(len(scene.shape), "")
    if layout is None or (layout.axes and sorted(layout.axes) != sorted(letters)):
        return None
    to_layout = [letters.index(letter) for letter in layout.axes] or list(range(len(scene.shape)))
    shape = tuple(scene.shape[axis] for axis in to_layout)
    try:
        stored = layout.pack(np.broadcast_to(np.uint8(0), shape), tile, scene.groups).shape
        unpacked = cast("Places", layout.unpack(cast("AnyArray", Places.of(stored)), shape, scene.groups))
        return tuple(unpacked.transpose(np.argsort(to_layout).tolist()).in_two_digits())
    except (LayoutError, NotPlaces, ValueError):
        return None

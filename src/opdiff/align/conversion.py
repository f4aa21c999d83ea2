"""The way from one layout to another: unpack to the logical array, bring its axes in order, pack.

stored codes ──unpack──► logical array ──order──► logical array ──pack──► stored codes
             extents: from --shape, else worked out of the origin shape
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.layout import Aligned, Extents, Tile, reshape_codes
from opdiff.align.origin_shape import permute_extents, to_origin_order
from opdiff.align.plain import for_rank, is_plain
from opdiff.core import layout_ids as layouts
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.align.custom import Conversions, ConversionScript
    from opdiff.align.layout import Layout
    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, TensorSpec

# Layouts whose tiles do not depend on the element type.
_TILES: dict[str, Tile] = {"FRACTAL_Z": Tile(), "FRACTAL_Z_C04": Tile()}


class _Way(NamedTuple):
    """One conversion: what is there and what is wanted."""

    spec: TensorSpec
    source: Layout
    target: Layout
    shape: Shape

    @property
    def groups(self) -> int:
        """At least 1."""
        return max(self.spec.groups, 1)


class _Logical(NamedTuple):
    """An array without tiles and padding, and how it came about."""

    array: AnyArray
    steps: tuple[Reason, ...]

    def then(self, array: AnyArray, *steps: Reason) -> _Logical:
        """Return the result of further steps."""
        return _Logical(array, (*self.steps, *steps))


def convert(
    codes: AnyArray, spec: TensorSpec, layout: str, shape: Shape = (), custom: Conversions | None = None
) -> Aligned:
    """The codes, brought from the layout of `spec` to `layout`, without padding unless `layout` itself has some.

    `codes` are in the stored shape. `shape` is the wanted logical shape, in the order of the target's axes; without it
    the extents are worked out of the origin shape. A conversion of the user's comes before a built-in one.

    Raises:
        LayoutError: there is no such conversion, or the shapes contradict each other or leave several answers.
        PluginError: a conversion of the user's cannot be loaded.
    """
    if codes.shape != spec.shape:
        problem = because("align.description_differs", shape=codes.shape, described=spec.shape)
        raise LayoutError(spec.layout, problem)
    if min(shape, default=0) < 0:
        raise LayoutError(layout, because("align.negative_shape", shape=shape))
    script = custom.find(spec.layout, layout) if custom else None
    if script:
        return _scripted(codes, spec, layout, shape, script)
    if layout == spec.layout:
        return _unchanged(codes, layout, shape)
    way = _Way(spec, for_rank(_layout(spec.layout), codes.ndim), _layout(layout), shape)
    return _packed(_ordered(_unpacked(codes, way), way), way)


def _find(name: str) -> Layout | None:
    from opdiff.align import LAYOUTS  # the list of built-ins stands in the package, which imports this module

    return LAYOUTS.find(name)


def _layout(name: str) -> Layout:
    found = _find(name)
    if found is None:
        raise LayoutError(name, _unknown(name))
    return found


def _unknown(name: str) -> Reason:
    from opdiff.align import LAYOUTS  # as above

    if name in layouts.NUMBERS:
        return because("align.unsupported_layout")
    from difflib import get_close_matches

    near = get_close_matches(name.upper(), LAYOUTS.names(), 3)
    return because("align.misspelt_layout", names=tuple(near)) if near else because("align.no_such_layout")


def _scripted(codes: AnyArray, spec: TensorSpec, layout: str, shape: Shape, script: ConversionScript) -> Aligned:
    from opdiff.align.custom import run_conversion

    result = run_conversion(script, codes, shape or spec.origin_shape, max(spec.groups, 1))
    if shape and result.size != prod(shape):
        problem = because("align.script_shape", path=script.path, shape=result.shape, wanted=shape)
        raise LayoutError(spec.layout, problem)
    facts = {"layout": spec.layout, "wanted": layout, "path": script.path}
    step = because("align.by_script", stored=codes.shape, shape=result.shape, **facts)
    return Aligned(reshape_codes(result, shape, layout) if shape else result, layout, (step,))


def _unchanged(codes: AnyArray, layout: str, shape: Shape) -> Aligned:
    if not shape or shape == codes.shape:
        return Aligned(codes, layout)
    if codes.size != prod(shape):
        problem = because("align.same_layout_shape", shape=codes.shape, wanted=shape)
        raise LayoutError(layout, problem)
    if not is_plain(_find(layout)):
        return Aligned(codes, layout, (because("align.stored_shape_kept", stored=codes.shape),))
    result = reshape_codes(codes, shape, layout)
    return Aligned(result, layout, (because("align.reshaped", shape=codes.shape, wanted=shape),))


def _unpacked(codes: AnyArray, way: _Way) -> _Logical:
    """The logical array in the order of the source's axes."""
    extents = _extents(codes, way)
    array = way.source.unpack(codes, extents.shape, way.groups)
    logical = _Logical(array, (extents.assumed,) if extents.assumed else ())
    layout = way.source.name
    if layout != way.spec.layout:
        logical = logical.then(
            array, because("align.rank_differs", layout=way.spec.layout, rank=codes.ndim, used=layout)
        )
    if array.shape != codes.shape:
        axes = way.source.axes or "ND"
        logical = logical.then(
            array, because("align.unpacked", layout=layout, stored=codes.shape, axes=axes, shape=array.shape)
        )
    if array.size < codes.size:
        logical = logical.then(array, because("align.padding_cut", count=codes.size - array.size))
    return logical


def _extents(codes: AnyArray, way: _Way) -> Extents:
    source, target = way.source.axes, way.target.axes
    if not way.shape:
        return way.source.logical_shape(codes.shape, way.spec.origin_shape, way.groups, target)
    if not source:
        return Extents(way.shape)
    if not target:
        return way.source.logical_shape(codes.shape, way.shape, way.groups, "")
    _require_same_letters(way)
    if len(way.shape) != len(target):
        problem = because("align.shape_rank", shape=way.shape, axes=target)
        raise LayoutError(way.target.name, problem)
    return Extents(permute_extents(way.shape, target, source))


def _require_same_letters(way: _Way) -> None:
    if sorted(way.source.axes) != sorted(way.target.axes):
        problem = because("align.other_axes", axes=way.source.axes, wanted=way.target.axes, layout=way.target.name)
        raise LayoutError(way.source.name, problem)


def _ordered(logical: _Logical, way: _Way) -> _Logical:
    """The logical array in the order of the target's axes."""
    source, target = way.source.axes, way.target.axes
    if not source:
        return _labelled(logical, way)
    if not target:
        return _as_origin(logical, way)
    _require_same_letters(way)
    if source == target:
        return logical
    moved = logical.array.transpose([source.index(letter) for letter in target])
    return logical.then(moved, because("align.transposed", axes=source, wanted=target))


def _labelled(logical: _Logical, way: _Way) -> _Logical:
    """An array in the order of its framework, under the letters of the target: nothing is moved."""
    target, rank = way.target.axes, logical.array.ndim
    if not target:
        return logical
    if for_rank(way.target, rank) is not way.target:
        return logical.then(logical.array, because("align.rank_differs", layout=way.target.name, rank=rank, used="ND"))
    if rank != len(target):
        problem = because("align.axes_of_layout", shape=logical.array.shape, axes=target, layout=way.target.name)
        raise LayoutError(way.source.name, problem)
    return logical.then(logical.array, because("align.axes_assumed", layout=way.source.name, axes=target))


def _as_origin(logical: _Logical, way: _Way) -> _Logical:
    """An array with letters, in the order in which its framework had it."""
    array, note = to_origin_order(logical.array, way.source.axes, way.shape or way.spec.origin_shape)
    if way.shape and array.shape != way.shape:
        problem = because("align.no_such_order", axes=way.source.axes, shape=array.shape, wanted=way.shape)
        raise LayoutError(way.source.name, problem)
    return logical.then(array, note)


def _packed(logical: _Logical, way: _Way) -> Aligned:
    target = for_rank(way.target, logical.array.ndim)
    tile = _TILES.get(target.name) or Tile.of(way.spec.dtype)
    stored = target.pack(logical.array, tile, way.groups)
    step = () if is_plain(target) else (because("align.packed", layout=target.name, stored=stored.shape),)
    return Aligned(stored, way.target.name, logical.steps + step)

"""Conversion from one layout to another: unpack to the logical array, reorder its axes, pack.

stored codes ──unpack──► logical array ──reorder──► logical array ──pack──► stored codes
             extents: from --shape, otherwise from the origin shape
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.fractal_nz import MATRIX_OF_WEIGHTS
from opdiff.align.layout import Aligned, Extents, Tile, reshape_codes
from opdiff.align.origin_shape import permute_extents, to_origin_order
from opdiff.align.plain import for_rank, is_plain
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.tensor import LAYOUT_NUMBERS

if TYPE_CHECKING:
    from opdiff.align.custom import Conversions, ConversionScript
    from opdiff.align.layout import Layout
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, TensorSpec

# Tiles of layouts in which they do not depend on the element type, and layouts whose tiles are square.
_FIXED_TILES: dict[str, Tile] = {"FRACTAL_Z_C04": Tile()}
_SQUARE_TILES = frozenset({"FRACTAL_ZZ"})
_MATRIX_RANK = 2


class _Request(Struct, frozen=True):
    """A stored tensor, its layout, the requested layout and the requested shape; `steps` are those so far."""

    spec: TensorSpec
    source: Layout
    target: Layout
    shape: Shape
    steps: list[Reason]

    @property
    def groups(self) -> int:
        """At least 1."""
        return max(self.spec.groups, 1)


def convert(
    codes: AnyArray, spec: TensorSpec, layout: str, shape: Shape = (), custom: Conversions | None = None
) -> Aligned:
    """Convert codes in the stored shape from the layout of `spec` to `layout`.

    `shape` is the requested logical shape in the axis order of `layout`; without it the extents are derived from the
    origin shape. A user script for these layouts takes precedence.

    Raises:
        LayoutError: there is no such conversion, or the shapes contradict each other or are ambiguous.
        PluginError: a user script cannot be loaded.
    """
    if codes.shape != spec.shape:
        problem = because("align.description_differs", shape=codes.shape, described=spec.shape)
        raise LayoutError(spec.layout, problem)
    if min(shape, default=0) < 0:
        raise LayoutError(layout, because("align.negative_shape", shape=shape))
    script = custom.find(spec.layout, layout) if custom else None
    if script:
        return _run_script(codes, spec, layout, shape, script)
    if layout == spec.layout:
        return _keep_layout(codes, layout, shape)
    source = find_source_layout(spec) or _layout(spec.layout)
    request = _Request(spec, source, _layout(layout), shape, [])
    return _pack(_reorder(_unpack(codes, request), request), request)


def _find(name: str) -> Layout | None:
    from opdiff.align import LAYOUTS  # the package imports this module

    return LAYOUTS.find(name)


def _layout(name: str) -> Layout:
    found = _find(name)
    if found is None:
        raise LayoutError(name, _unknown(name))
    return found


def find_source_layout(spec: TensorSpec) -> Layout | None:
    """Return the layout of a stored tensor; weights of a matrix multiplication have two axes instead of four."""
    if spec.layout == MATRIX_OF_WEIGHTS.name and len(spec.origin_shape) == _MATRIX_RANK and spec.groups <= 1:
        return MATRIX_OF_WEIGHTS
    found = _find(spec.layout)
    return None if found is None else for_rank(found, len(spec.shape))


def _unknown(name: str) -> Reason:
    from opdiff.align import LAYOUTS  # as above

    if name in LAYOUT_NUMBERS:
        return because("align.unsupported_layout")
    from difflib import get_close_matches

    near = get_close_matches(name.upper(), LAYOUTS.names(), 3)
    return because("align.misspelt_layout", names=tuple(near)) if near else because("align.no_such_layout")


def _run_script(codes: AnyArray, spec: TensorSpec, layout: str, shape: Shape, script: ConversionScript) -> Aligned:
    from opdiff.align.custom import run_conversion

    result = run_conversion(script, codes, shape or spec.origin_shape, max(spec.groups, 1))
    if shape and result.size != prod(shape):
        problem = because("align.script_shape", path=script.path, shape=result.shape, wanted=shape)
        raise LayoutError(spec.layout, problem)
    facts = {"layout": spec.layout, "wanted": layout, "path": script.path}
    step = because("align.by_script", stored=codes.shape, shape=result.shape, **facts)
    return Aligned(reshape_codes(result, shape, layout) if shape else result, layout, (step,))


def _keep_layout(codes: AnyArray, layout: str, shape: Shape) -> Aligned:
    if not shape or shape == codes.shape:
        return Aligned(codes, layout)
    if codes.size != prod(shape):
        problem = because("align.same_layout_shape", shape=codes.shape, wanted=shape)
        raise LayoutError(layout, problem)
    if not is_plain(_find(layout)):
        return Aligned(codes, layout, (because("align.stored_shape_kept", stored=codes.shape),))
    result = reshape_codes(codes, shape, layout)
    return Aligned(result, layout, (because("align.reshaped", shape=codes.shape, wanted=shape),))


def _unpack(codes: AnyArray, request: _Request) -> AnyArray:
    """Return the logical array in the axis order of the source."""
    extents = _extents(codes, request)
    array = request.source.unpack(codes, extents.shape, request.groups)
    layout, steps = request.source.name, request.steps
    if extents.assumed:
        steps.append(extents.assumed)
    if layout != request.spec.layout:
        steps.append(because("align.rank_differs", layout=request.spec.layout, rank=codes.ndim, used=layout))
    if array.shape != codes.shape:
        axes = request.source.axes or "ND"
        steps.append(because("align.unpacked", layout=layout, stored=codes.shape, axes=axes, shape=array.shape))
    if array.size < codes.size:
        steps.append(because("align.padding_cut", count=codes.size - array.size))
    return array


def _extents(codes: AnyArray, request: _Request) -> Extents:
    source, target = request.source.axes, request.target.axes
    if not request.shape:
        return request.source.logical_shape(codes.shape, request.spec.origin_shape, request.groups, target)
    if not source:
        return Extents(request.shape)
    if not target:
        return request.source.logical_shape(codes.shape, request.shape, request.groups, "")
    _require_same_axes(request)
    if len(request.shape) != len(target):
        problem = because("align.shape_rank", shape=request.shape, axes=target)
        raise LayoutError(request.target.name, problem)
    return Extents(permute_extents(request.shape, target, source))


def _require_same_axes(request: _Request) -> None:
    if sorted(request.source.axes) != sorted(request.target.axes):
        facts = {"axes": request.source.axes, "wanted": request.target.axes, "layout": request.target.name}
        raise LayoutError(request.source.name, because("align.other_axes", **facts))


def _reorder(array: AnyArray, request: _Request) -> AnyArray:
    """Return the logical array in the axis order of the target."""
    source, target = request.source.axes, request.target.axes
    if not source:
        _label_axes(array, request)
        return array
    if not target:
        return _restore_origin_order(array, request)
    _require_same_axes(request)
    if source == target:
        return array
    request.steps.append(because("align.transposed", axes=source, wanted=target))
    return array.transpose([source.index(label) for label in target])


def _label_axes(array: AnyArray, request: _Request) -> None:
    """Assign the axis labels of the target to an array in the axis order of its framework, without moving data."""
    axes, layout = request.target.axes, request.target.name
    if not axes:
        return
    if for_rank(request.target, array.ndim) is not request.target:
        request.steps.append(because("align.rank_differs", layout=layout, rank=array.ndim, used="ND"))
        return
    if array.ndim != len(axes):
        problem = because("align.axes_of_layout", shape=array.shape, axes=axes, layout=layout)
        raise LayoutError(request.source.name, problem)
    request.steps.append(because("align.axes_assumed", layout=request.source.name, axes=axes))


def _restore_origin_order(array: AnyArray, request: _Request) -> AnyArray:
    """Return an array with axis labels in the axis order of its framework."""
    axes, shape = request.source.axes, request.shape
    restored, note = to_origin_order(array, axes, shape or request.spec.origin_shape)
    if shape and restored.shape != shape:
        problem = because("align.no_such_order", axes=axes, shape=restored.shape, wanted=shape)
        raise LayoutError(request.source.name, problem)
    request.steps.append(note)
    return restored


def _pack(array: AnyArray, request: _Request) -> Aligned:
    target = for_rank(request.target, array.ndim)
    stored = target.pack(array, _tile(target.name, request.spec.dtype), request.groups)
    if not is_plain(target):
        request.steps.append(because("align.packed", layout=target.name, stored=stored.shape))
    return Aligned(stored, request.target.name, tuple(request.steps))


def _tile(layout: str, dtype: DType) -> Tile:
    """Return the tile extents of a layout for an element type."""
    usual = Tile.of(dtype)
    if layout in _SQUARE_TILES:
        return Tile(usual.c0, usual.c0)
    return _FIXED_TILES.get(layout, usual)

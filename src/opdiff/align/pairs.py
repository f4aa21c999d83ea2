"""Alignment of two tensors: conversion to one layout, in which elements correspond by position.

    Tensor, Tensor ──load──► codes ──align──► codes in one layout
                   ──views──► align ──axes──► offsets of the elements in both files, without reading them

Only the padding of layouts is cut. Any other difference of extents is an error that names both shapes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from opdiff.align.conversion import convert
from opdiff.align.layout import Aligned, ceil_div, without_ones
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.strides import NotStrided, StridedView, require_data
from opdiff.core.tensor import NOTHING_DECLARED

if TYPE_CHECKING:
    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.strides import SplitAxis
    from opdiff.core.tensor import Declared, Shape, Tensor, TensorSpec

# Layouts that rule files may declare for each other.
_CONFUSED_LAYOUTS = {"NCHW": "NHWC", "NHWC": "NCHW", "NCDHW": "NDHWC", "NDHWC": "NCDHW"}
LAYOUT_BY_RANK = {4: "NCHW", 5: "NCDHW"}
"""Usual layout of tensors by their rank, where none is recorded."""


class AlignedPair(Struct, frozen=True):
    """Two aligned tensors with the same number of elements.

    Attributes:
        target: codes of the target.
        golden: codes of the golden tensor.
        shape: shape in which they are compared.
        steps: conversion steps.
        warning: a reservation about the alignment.
        layout: axis order of `shape`; empty if unknown.
    """

    target: AnyArray
    golden: AnyArray
    shape: Shape
    steps: tuple[Reason, ...]
    warning: Reason | None = None
    layout: str = ""


class StridedPair(Struct, frozen=True):
    """Two aligned tensors, without data.

    Attributes:
        pair: the alignment; its codes are views.
        target_axes: strides of the target; empty if its elements are stored in the order of comparison.
        golden_axes: strides of the golden tensor, likewise.
    """

    pair: AlignedPair
    target_axes: tuple[SplitAxis, ...]
    golden_axes: tuple[SplitAxis, ...]


def align_pair(
    target: Tensor, golden: Tensor, declared: Declared = NOTHING_DECLARED, custom: Conversions | None = None
) -> AlignedPair:
    """Load two tensors and bring them to one layout.

    Raises:
        DumpError, ElementError: one of them cannot be read.
        LayoutError: they cannot be brought to one shape.
    """
    return align_codes((target.spec, golden.spec), (target.codes(), golden.codes()), declared, custom)


def align_codes(
    specs: tuple[TensorSpec, TensorSpec],
    codes: tuple[AnyArray, AnyArray],
    declared: Declared = NOTHING_DECLARED,
    custom: Conversions | None = None,
) -> AlignedPair:
    """Bring stored codes of two tensors to one layout; target first.

    Raises:
        LayoutError: they cannot be brought to one shape.
    """
    target, golden = specs
    if not target.origin_shape:
        target = replace(target, origin_shape=declared.origin_shape)
    if golden.layout != "ND" or golden.origin_shape:
        return _align_devices((target, golden), codes, custom)
    return _align_to_array(target, declared, *codes, custom)


def _align_to_array(
    spec: TensorSpec, declared: Declared, target: AnyArray, golden: AnyArray, custom: Conversions | None
) -> AlignedPair:
    """Align a device's tensor with an array of the original model in the declared layout."""
    layout = declared.layout
    errors: list[LayoutError] = []
    results: list[Aligned] = []
    for wanted, shape in _attempts(spec, layout, golden.shape):
        try:
            result = convert(target, spec, wanted, shape, custom)
        except LayoutError as error:
            errors.append(error)
            continue
        if result.codes.shape == golden.shape:
            is_other = wanted == _CONFUSED_LAYOUTS.get(layout)
            note = (because("align.declared_differs", declared=layout, layout=wanted),) if is_other else ()
            warning = _padding_warning(spec, target, result)
            return AlignedPair(result.codes, golden, golden.shape, note + result.steps, warning, result.layout)
        results.append(result)
    return _select_result(results, golden, errors, may_skip_positions=declared.may_skip_positions)


def _padding_warning(spec: TensorSpec, stored: AnyArray, result: Aligned) -> Reason | None:
    """Return a warning if the shape was taken from the golden array and the padding cut off is not zero."""
    if spec.origin_shape or result.codes.size == stored.size:
        return None
    require_data(stored)
    import numpy as np

    if np.count_nonzero(stored) == np.count_nonzero(result.codes):
        return None
    return because("align.padding_not_zero")


def _attempts(spec: TensorSpec, layout: str, golden: Shape) -> list[tuple[str, Shape]]:
    """Return layouts and shapes to try, the likeliest first: declared layout, confused layout, origin axis order."""
    declared = layout or spec.layout
    names = dict.fromkeys(name for name in (declared, _CONFUSED_LAYOUTS.get(declared, ""), "ND") if name)
    # An origin shape decides the number of elements; a golden shape of another size must not be used.
    is_golden_size = 0 not in golden and (not spec.origin_shape or prod(spec.origin_shape) == prod(golden))
    attempts: list[tuple[str, Shape]] = []
    for name in names:
        if spec.layout != name and is_golden_size:
            attempts.append((name, golden))
        attempts.append((name, ()))
    return attempts


def _select_result(
    results: list[Aligned], golden: AnyArray, errors: list[LayoutError], *, may_skip_positions: bool
) -> AlignedPair:
    """Return the first result with the golden extents except for ones, or the first with as many elements."""
    for result in results:
        if without_ones(result.codes.shape) == without_ones(golden.shape):
            return AlignedPair(result.codes, golden, result.codes.shape, result.steps, layout=result.layout)
    for result in results:
        if result.codes.size == golden.size:
            step = because("align.elementwise", target=result.codes.shape, golden=golden.shape)
            return AlignedPair(result.codes, golden, result.codes.shape, (*result.steps, step), layout=result.layout)
    for result in results if may_skip_positions else ():
        if spacing := _spacing(result, golden.shape):
            return _align_to_positions(result, golden, spacing)
    if results:
        raise _mismatch(results[0].layout, results[0].codes.shape, golden.shape)
    raise errors[0]


def _spacing(result: Aligned, golden: Shape) -> int:
    """Return n if the target has every n-th row and column of the golden shape; otherwise 0."""
    target, labels = result.codes.shape, result.layout
    if len(target) != len(golden) or sorted(labels) != sorted("NCHW") or 0 in target:
        return 0
    spacing = ceil_div(golden[labels.index("H")], target[labels.index("H")])
    expected = tuple(
        ceil_div(extent, spacing) if label in "HW" else extent for label, extent in zip(labels, golden, strict=True)
    )
    return spacing if spacing > 1 and expected == target else 0


def _align_to_positions(result: Aligned, golden: AnyArray, spacing: int) -> AlignedPair:
    """Align with every n-th row and column of the golden array, which is all that the target computes."""
    require_data(golden)
    import numpy as np

    kept = tuple(slice(None, None, spacing if label in "HW" else 1) for label in result.layout)
    step = because("align.every_nth_position", spacing=spacing, golden=golden.shape, target=result.codes.shape)
    positions = np.ascontiguousarray(golden[kept])
    return AlignedPair(result.codes, positions, positions.shape, (*result.steps, step), layout=result.layout)


def _align_devices(
    specs: tuple[TensorSpec, TensorSpec], stored: tuple[AnyArray, AnyArray], custom: Conversions | None
) -> AlignedPair:
    """Align the tensors of two devices, both without padding."""
    aligned = [_to_logical(spec, codes, custom) for spec, codes in zip(specs, stored, strict=True)]
    target, golden = aligned[0].codes, aligned[1].codes
    stored_forms = {(spec.layout, spec.shape, spec.origin_shape) for spec in specs}
    if len(stored_forms) == 1 and len(specs[0].origin_shape) == 5 and _has_equal_padding(stored, (target, golden)):
        step = because("align.equal_padding", layout=specs[0].layout)
        return AlignedPair(*stored, stored[0].shape, (step,))
    steps = (
        *(because("align.of_target", step=step) for step in aligned[0].steps),
        *(because("align.of_golden", step=step) for step in aligned[1].steps),
    )
    if target.size != golden.size:
        raise _mismatch(specs[0].layout, target.shape, golden.shape)
    if without_ones(target.shape) != without_ones(golden.shape):
        steps = (*steps, because("align.elementwise", target=target.shape, golden=golden.shape))
    return AlignedPair(target, golden, target.shape, steps, layout=aligned[0].layout)


def _has_equal_padding(stored: tuple[AnyArray, AnyArray], logical: tuple[AnyArray, AnyArray]) -> bool:
    """Return whether two stored tensors differ in their data only."""
    if logical[0].shape != logical[1].shape:
        return False
    require_data(stored[0])
    import numpy as np

    return bool(np.count_nonzero(stored[0] != stored[1]) == np.count_nonzero(logical[0] != logical[1]))


def _to_logical(spec: TensorSpec, codes: AnyArray, custom: Conversions | None) -> Aligned:
    from opdiff.align import LAYOUTS  # the package may import this module

    layout = LAYOUTS.find(spec.layout)
    axes = layout.axes if layout is not None and codes.ndim >= len(layout.axes) else ""
    for name in (LAYOUT_BY_RANK.get(len(spec.origin_shape or axes), "ND"), "ND"):
        try:
            return convert(codes, spec, name, custom=custom)
        except LayoutError:
            continue
    return Aligned(codes, spec.layout, (because("align.compared_as_stored", layout=spec.layout, stored=codes.shape),))


def _mismatch(layout: str, target: Shape, golden: Shape) -> LayoutError:
    return LayoutError(layout, because("align.shapes_differ", target=target, golden=golden))


# By strides, without reading the tensors


def align_strided(target: Tensor, golden: Tensor, declared: Declared = NOTHING_DECLARED) -> StridedPair | None:
    """Align two tensors by strides; `None` if strides cannot describe them or the result.

    Raises:
        LayoutError: they cannot be brought to one shape.
    """
    try:
        views = _stored_view(target), _stored_view(golden)
        pair = align_codes((target.spec, golden.spec), cast("tuple[AnyArray, AnyArray]", views), declared)
        return StridedPair(pair, _axes(pair.target, target), _axes(pair.golden, golden))
    except NotStrided:
        return None


def strides_in_nd(tensor: Tensor) -> tuple[Shape, tuple[SplitAxis, ...]] | None:
    """Return the logical shape and the strides of a tensor; `None` if strides cannot describe them.

    Raises:
        LayoutError: its layout cannot be converted.
    """
    try:
        codes = convert(cast("AnyArray", _stored_view(tensor)), tensor.spec, "ND").codes
        return codes.shape, _axes(codes, tensor)
    except NotStrided:
        return None


def _stored_view(tensor: Tensor) -> StridedView:
    source, shape = tensor.source, tensor.spec.shape
    if not isinstance(source, FileRange) or len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise NotStrided
    return StridedView(shape, fortran_order=source.fortran_order)


def _axes(codes: object, tensor: Tensor) -> tuple[SplitAxis, ...]:
    if not isinstance(codes, StridedView):
        raise NotStrided
    if not codes.size or (codes.size == tensor.spec.count and codes.is_contiguous):
        return ()
    return codes.split_axes()

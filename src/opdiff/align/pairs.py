"""Two tensors brought to one layout, so that element k of one belongs to element k of the other.

Padding is cut because a layout says so. Any other difference of extents is an error with both shapes, never a cut.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.conversion import convert
from opdiff.align.layout import Aligned
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.strides import require_data
from opdiff.core.tensor import NOTHING_DECLARED

if TYPE_CHECKING:
    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Declared, Shape, Tensor, TensorSpec

# Layouts between which a declared one may be mistaken for the other.
_TWINS = {"NCHW": "NHWC", "NHWC": "NCHW", "NCDHW": "NDHWC", "NDHWC": "NCDHW"}
# To which order the tensors of two devices are brought, by the rank of what they were before, or by their axes.
_COMMON = {4: "NCHW", 5: "NCDHW"}


class AlignedPair(NamedTuple):
    """Codes of equal count, the shape in which they are compared, what was done to them, and what is doubtful there.

    `layout` is the order of the axes of that shape, where it has one.
    """

    target: AnyArray
    golden: AnyArray
    shape: Shape
    steps: tuple[Reason, ...]
    warning: Reason | None = None
    layout: str = ""


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
        target = target._replace(origin_shape=declared.origin_shape)
    if golden.layout != "ND" or golden.origin_shape:
        return _align_devices(target, golden, *codes, custom)
    return _align_to_array(target, declared.layout, *codes, custom)


def _align_to_array(
    spec: TensorSpec, layout: str, target: AnyArray, golden: AnyArray, custom: Conversions | None
) -> AlignedPair:
    """A device's tensor against an array of the original model, in the layout that is declared for it."""
    errors: list[LayoutError] = []
    results: list[Aligned] = []
    for wanted, shape in _attempts(spec, layout, golden.shape):
        try:
            result = convert(target, spec, wanted, shape, custom)
        except LayoutError as error:
            errors.append(error)
            continue
        if result.codes.shape == golden.shape:
            other = wanted == _TWINS.get(layout)
            note = (because("align.declared_differs", declared=layout, layout=wanted),) if other else ()
            warning = _padding_warning(spec, target, result)
            return AlignedPair(result.codes, golden, golden.shape, note + result.steps, warning, result.layout)
        results.append(result)
    return _by_extents(results, golden, errors)


def _padding_warning(spec: TensorSpec, stored: AnyArray, result: Aligned) -> Reason | None:
    """Return the warning about a fit to the golden's shape if the header has none: padding is nearly always zero."""
    if spec.origin_shape or result.codes.size == stored.size:
        return None
    require_data(stored)
    import numpy as np

    if np.count_nonzero(stored) == np.count_nonzero(result.codes):
        return None
    return because("align.padding_not_zero")


def _attempts(spec: TensorSpec, layout: str, golden: Shape) -> list[tuple[str, Shape]]:
    """Layouts to try, the likeliest first: the declared one with the golden's extents, its twin, the origin's order."""
    declared = layout or spec.layout
    names = dict.fromkeys(name for name in (declared, _TWINS.get(declared, ""), "ND") if name)
    # Where the header tells how many elements there are, a golden of another size is not to be fitted.
    is_golden_size = 0 not in golden and (not spec.origin_shape or prod(spec.origin_shape) == prod(golden))
    tries: list[tuple[str, Shape]] = []
    for name in names:
        if spec.layout != name and is_golden_size:
            tries.append((name, golden))
        tries.append((name, ()))
    return tries


def _by_extents(results: list[Aligned], golden: AnyArray, errors: list[LayoutError]) -> AlignedPair:
    """The first result whose extents are the golden's but for ones, else the first with as many elements."""
    for result in results:
        if _without_ones(result.codes.shape) == _without_ones(golden.shape):
            return AlignedPair(result.codes, golden, result.codes.shape, result.steps, layout=result.layout)
    for result in results:
        if result.codes.size == golden.size:
            step = because("align.elementwise", target=result.codes.shape, golden=golden.shape)
            return AlignedPair(result.codes, golden, result.codes.shape, (*result.steps, step), layout=result.layout)
    if results:
        raise _mismatch(results[0].layout, results[0].codes.shape, golden.shape)
    raise errors[0]


def _align_devices(
    target_spec: TensorSpec,
    golden_spec: TensorSpec,
    target: AnyArray,
    golden: AnyArray,
    custom: Conversions | None,
) -> AlignedPair:
    """Two devices' tensors, both without their padding."""
    ours, theirs = (_logical(spec, codes, custom) for spec, codes in ((target_spec, target), (golden_spec, golden)))
    alike = [(spec.layout, spec.shape, spec.origin_shape) for spec in (target_spec, golden_spec)]
    if (
        alike[0] == alike[1]
        and len(target_spec.origin_shape) == 5
        and _has_equal_padding((target, golden), ours, theirs)
    ):
        step = because("align.equal_padding", layout=target_spec.layout)
        return AlignedPair(target, golden, target.shape, (step,))
    steps = (
        *(because("align.of_target", step=step) for step in ours.steps),
        *(because("align.of_golden", step=step) for step in theirs.steps),
    )
    if ours.codes.size != theirs.codes.size:
        raise _mismatch(target_spec.layout, ours.codes.shape, theirs.codes.shape)
    if _without_ones(ours.codes.shape) != _without_ones(theirs.codes.shape):
        steps = (*steps, because("align.elementwise", target=ours.codes.shape, golden=theirs.codes.shape))
    return AlignedPair(ours.codes, theirs.codes, ours.codes.shape, steps, layout=ours.layout)


def _has_equal_padding(stored: tuple[AnyArray, AnyArray], ours: Aligned, theirs: Aligned) -> bool:
    """Whether everything in which two stored tensors differ is in their data."""
    if ours.codes.shape != theirs.codes.shape:
        return False
    require_data(stored[0])
    import numpy as np

    in_data = np.count_nonzero(ours.codes != theirs.codes)
    return bool(np.count_nonzero(stored[0] != stored[1]) == in_data)


def _logical(spec: TensorSpec, codes: AnyArray, custom: Conversions | None) -> Aligned:
    from opdiff.align import LAYOUTS  # the list of built-ins stands in the package, which may import this module

    layout = LAYOUTS.find(spec.layout)
    axes = layout.axes if layout is not None and codes.ndim >= len(layout.axes) else ""
    for name in (_COMMON.get(len(spec.origin_shape or axes), "ND"), "ND"):
        try:
            return convert(codes, spec, name, custom=custom)
        except LayoutError:
            continue
    return Aligned(codes, spec.layout, (because("align.compared_as_stored", layout=spec.layout, stored=codes.shape),))


def _without_ones(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent != 1)


def _mismatch(layout: str, target: Shape, golden: Shape) -> LayoutError:
    return LayoutError(layout, because("align.shapes_differ", target=target, golden=golden))

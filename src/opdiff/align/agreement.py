"""Agreement of the shapes and the layout of a stored tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from opdiff.align.conversion import find_source_layout
from opdiff.align.fractal_z import FractalZ, FractalZC04
from opdiff.align.plain import is_plain
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import TensorSpec


def shape_doubt(spec: TensorSpec) -> Reason | None:
    """Return the contradiction between stored shape, origin shape and layout; `None` if they agree.

    Nothing is said about layouts that cannot be converted.
    """
    layout = find_source_layout(spec)
    if layout is None:
        return None
    if is_plain(layout):
        if not spec.origin_shape or prod(spec.origin_shape) == spec.count:
            return None
        return because("align.origin_count", stored=spec.shape, layout=spec.layout, origin=spec.origin_shape)
    if isinstance(layout, FractalZ | FractalZC04) and not spec.origin_shape:
        return None
    try:
        layout.logical_shape(spec.shape, spec.origin_shape, max(spec.groups, 1), layout.axes)
    except LayoutError as error:
        return error.reason
    return None

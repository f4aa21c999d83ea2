"""Interpretation of origin shapes. Dumps record their extents without axis labels.

An origin shape is therefore matched in all axis orders that frameworks use, and ambiguities are reported.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opdiff.align.layout import Extents, reshape_codes, without_ones
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape

_ORDERS = ("NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN", "NC", "CN")
# Frameworks store weights with the filters first or last; the other orders are those of data and are tried last.
_WEIGHT_ORDERS = frozenset({"NCHW", "HWCN", "NCDHW", "DHWCN"})


def orders_of(axes: str) -> tuple[str, ...]:
    """Return the possible axis orders of an origin shape with these axes."""
    return tuple(order for order in _ORDERS if sorted(order) == sorted(axes))


def permute_extents(shape: Shape, order: str, axes: str) -> Shape:
    """Permute `shape` from the axis order `order` to the axis order `axes`."""
    return tuple(shape[order.index(label)] for label in axes)


def missing_extent(origin: Shape, known: Shape) -> int | None:
    """Return the only extent of `origin` that is not in `known`; `None` if there are other differences.

    Axes of extent 1 are ignored, because frameworks add and remove them; if no other extent remains, the result is 1.
    """
    recorded, expected = Counter(without_ones(origin)), Counter(without_ones(known))
    additional = list((recorded - expected).elements())
    if expected - recorded or len(additional) > 1:
        return None
    return additional[0] if additional else 1


def find_weight_extents(
    layout: str, axes: str, origin: Shape, prefer: str, stored: Reason, fits: Callable[[Shape], bool]
) -> Extents:
    """Return the extents of weights, in the order of `axes`, with which the origin shape fits the stored shape.

    `fits` tests extents; `stored` describes the stored shape in errors.

    Raises:
        LayoutError: no axis order fits, or several with different extents do, and `prefer` is none of them.
    """
    if len(origin) != len(axes):
        raise LayoutError(layout, because("align.origin_rank", origin=origin, rank=len(axes), axes=axes))
    found = {order: permute_extents(origin, order, axes) for order in orders_of(axes)}
    found = {order: extents for order, extents in found.items() if fits(extents)}
    if not found:
        problem = because("align.origin_misfit", origin=origin, stored=stored, orders=orders_of(axes))
        raise LayoutError(layout, problem)
    found = {order: extents for order, extents in found.items() if order in _WEIGHT_ORDERS} or found
    if len(set(found.values())) == 1:
        return Extents(next(iter(found.values())))
    if prefer not in found:
        raise LayoutError(layout, because("align.origin_ambiguous", origin=origin, orders=tuple(found)))
    assumed = because("align.origin_preferred", origin=origin, orders=tuple(found), order=prefer)
    return Extents(found[prefer], assumed)


def to_origin_order(array: AnyArray, axes: str, origin: Shape) -> tuple[AnyArray, Reason]:
    """Return the array in the axis order of the origin shape, and a note; unchanged if that order is not known."""
    if not origin:
        return array, because("align.origin_unrecorded", axes=axes)
    orders = dict.fromkeys((axes, *orders_of(axes)))
    shapes = {order: permute_extents(array.shape, axes, order) for order in orders}
    fitting = [order for order, shape in shapes.items() if shape == origin]
    fitting = fitting or [order for order, shape in shapes.items() if without_ones(shape) == without_ones(origin)]
    if not fitting:
        return array, because("align.origin_order_unknown", axes=axes, origin=origin)
    if len({_element_order(array.shape, axes, order) for order in fitting}) > 1:
        return array, because("align.origin_order_ambiguous", axes=axes, origin=origin, orders=tuple(fitting))
    moved = array.transpose([axes.index(label) for label in fitting[0]])
    return reshape_codes(moved, origin, "ND"), because("align.order_of_origin", origin=origin, order=fitting[0])


def _element_order(shape: Shape, axes: str, order: str) -> str:
    """Return an axis order without axes of extent 1, which have no effect on the order of elements."""
    return "".join(label for label in order if shape[axes.index(label)] != 1)

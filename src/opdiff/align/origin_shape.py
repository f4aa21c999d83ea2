"""What the origin shape of a tensor tells. Dumps record its extents and not which axis each of them is.

So it is never applied position by position: it is tried in the orders that frameworks use, and what it leaves open is
said.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opdiff.align.layout import Extents, reshape_codes
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape

_ORDERS = ("NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN", "NC", "CN")
# Frameworks write weights with the filters first or last; other orders are for data, and tried only when these fail.
_OF_WEIGHTS = frozenset({"NCHW", "HWCN", "NCDHW", "DHWCN"})


def orders_of(axes: str) -> tuple[str, ...]:
    """The orders in which an origin shape with these axes may be written."""
    return tuple(order for order in _ORDERS if sorted(order) == sorted(axes))


def permute_extents(shape: Shape, order: str, axes: str) -> Shape:
    """The extents of `shape`, written in `order`, in the order of `axes`; both have the same letters."""
    return tuple(shape[order.index(letter)] for letter in axes)


def missing_extent(origin: Shape, known: Shape) -> int | None:
    """The one extent of `origin` that is not in `known`, or `None` when more than this sets them apart.

    Axes of extent 1 come and go between frameworks, so they do not count; if only those are left, the answer is 1.
    """
    have, want = (Counter(extent for extent in shape if extent != 1) for shape in (origin, known))
    left = list((have - want).elements())
    if want - have or len(left) > 1:
        return None
    return left[0] if left else 1


def find_weight_extents(
    layout: str, axes: str, origin: Shape, prefer: str, stored: Reason, fits: Callable[[Shape], bool]
) -> Extents:
    """Return the extents of weights, in the order of `axes`, in which the origin shape fits what is stored.

    `fits` decides; `stored` describes what is stored, for errors.

    Raises:
        LayoutError: no order fits, or several do, with different extents, and none of them is `prefer`.
    """
    if len(origin) != len(axes):
        raise LayoutError(layout, because("align.origin_rank", origin=origin, rank=len(axes), axes=axes))
    found = {order: permute_extents(origin, order, axes) for order in orders_of(axes)}
    found = {order: extents for order, extents in found.items() if fits(extents)}
    if not found:
        problem = because("align.origin_misfit", origin=origin, stored=stored, orders=orders_of(axes))
        raise LayoutError(layout, problem)
    found = {order: extents for order, extents in found.items() if order in _OF_WEIGHTS} or found
    if len(set(found.values())) == 1:
        return Extents(next(iter(found.values())))
    return _preferred(layout, origin, prefer, found)


def _preferred(layout: str, origin: Shape, prefer: str, found: Mapping[str, Shape]) -> Extents:
    if prefer not in found:
        raise LayoutError(layout, because("align.origin_ambiguous", origin=origin, orders=tuple(found)))
    assumed = because("align.origin_preferred", origin=origin, orders=tuple(found), order=prefer)
    return Extents(found[prefer], assumed)


def to_origin_order(array: AnyArray, axes: str, origin: Shape) -> tuple[AnyArray, Reason]:
    """Return the array in the axis order of the origin shape, and a note; unchanged if that order is not known."""
    if not origin:
        return array, because("align.origin_unrecorded", axes=axes)
    orders = dict.fromkeys((axes, *orders_of(axes)))
    same = [order for order in orders if permute_extents(array.shape, axes, order) == origin]
    same = same or [order for order in orders if _solid(permute_extents(array.shape, axes, order)) == _solid(origin)]
    if not same:
        return array, because("align.origin_order_unknown", axes=axes, origin=origin)
    if len({_effect(array.shape, axes, order) for order in same}) > 1:
        return array, because("align.origin_order_ambiguous", axes=axes, origin=origin, orders=tuple(same))
    moved = array.transpose([axes.index(letter) for letter in same[0]])
    return reshape_codes(moved, origin, "ND"), because("align.order_of_origin", origin=origin, order=same[0])


def _solid(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent != 1)


def _effect(shape: Shape, axes: str, order: str) -> str:
    """What is left of an order when axes of extent 1 do not count: equal text, equal arrangement of the elements."""
    return "".join(letter for letter in order if shape[axes.index(letter)] != 1)

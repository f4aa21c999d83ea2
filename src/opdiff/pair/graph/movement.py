"""Operators of the graph engine that move elements and compute nothing: which position goes where.

Besides, element types as graph texts write them, and which of them a conversion keeps exact.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dtypes import BY_NAME, NANO_BY_NUMBER, Kind, name_in_graph

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.tensor import Shape

# Operators whose output has the elements of input 0 in the same order.
_SAME_ORDER = frozenset(
    {
        "Reshape", "Identity", "TensorMove", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2",
        "UnsqueezeV3", "ExpandDims", "Flatten", "FlattenV2", "Cast", "StopGradient", "Bypass",
    }
)  # fmt: skip
_TRANSPOSES = frozenset({"Transpose", "TransposeD", "Permute"})
_BROADCASTS = frozenset({"BroadcastTo", "BroadcastToD", "Expand"})
CAST = "Cast"
# Which kinds hold the numbers of which.
_WIDTH_OF_KIND = {Kind.BOOL: 0, Kind.INTEGER: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


class Movement(Struct, frozen=True):
    """How an operator orders the elements of its first input.

    Attributes:
        source: shape of the input; empty where it does not matter.
        result: shape of the output; empty where it does not matter.
        axes: for each axis of the output, the axis of the input; empty for the same order.
        is_broadcast: whether axes of one element are repeated.
    """

    source: Shape = ()
    result: Shape = ()
    axes: tuple[int, ...] = ()
    is_broadcast: bool = False

    @property
    def keeps_order(self) -> bool:
        """Whether the elements stay as they are."""
        return not self.axes and not self.is_broadcast

    def to_input(self, positions: AnyArray) -> AnyArray:
        """Return the input's position for each position of the output."""
        import numpy as np

        if self.keeps_order:
            return positions
        indices = np.unravel_index(positions, self.result)
        if self.is_broadcast:
            return _ravel([index % extent for index, extent in zip(indices, self.source, strict=True)], self.source)
        chosen = [indices[self.axes.index(axis)] for axis in range(len(self.axes))]
        return _ravel(chosen, self.source)

    def inverse(self) -> Movement | None:
        """Return the movement from output to input; `None` if elements are repeated."""
        if self.is_broadcast:
            return None
        axes = tuple(self.axes.index(axis) for axis in range(len(self.axes)))
        return Movement(self.result, self.source, axes)


SAME_ORDER = Movement()


class Path(Struct, frozen=True):
    """Movements one after the other."""

    steps: tuple[Movement, ...] = ()

    @property
    def keeps_order(self) -> bool:
        """Whether the elements stay as they are."""
        return all(step.keeps_order for step in self.steps)

    def to_input(self, positions: AnyArray) -> AnyArray:
        """Return the position before the first movement for each position behind the last."""
        for step in reversed(self.steps):
            positions = step.to_input(positions)
        return positions

    def inverse(self) -> Path | None:
        """Return the path back; `None` if elements are repeated."""
        back = [step.inverse() for step in reversed(self.steps)]
        whole = tuple(step for step in back if step is not None)
        return Path(whole) if len(whole) == len(back) else None

    def elements(self, before: int | None) -> int | None:
        """Return the number of elements behind the last movement; `None` if they do not fit a shape on the way."""
        for step in self.steps:
            if not step.keeps_order:
                before = prod(step.result) if before == prod(step.source) else None
        return before


def moves(op: TextOp) -> bool:
    """Return whether an operator only moves the elements of its first input, or converts their type."""
    return op.op_type in _SAME_ORDER or op.op_type in _TRANSPOSES or op.op_type in _BROADCASTS


def movement_of(op: TextOp, graph: TextGraph, source: Shape | None) -> Movement | None:
    """Return how an operator moves elements; `None` if that is not known.

    Args:
        op: the operator.
        graph: the graph, for constants that it reads.
        source: shape of the first input, where it is known.
    """
    if op.op_type in _SAME_ORDER:
        return SAME_ORDER
    if source is None:
        return None
    if op.op_type in _TRANSPOSES:
        axes = op.integer("perm") or op.integer("order") or _constant_input(op, graph) or ()
        if sorted(axes) != list(range(len(source))):
            return None
        return Movement(source, tuple(source[axis] for axis in axes), axes)
    if op.op_type in _BROADCASTS:
        wanted = op.integer("shape") or _constant_input(op, graph)
        return _broadcast(source, wanted) if wanted else None
    return None


def moved_shape(op: TextOp, graph: TextGraph, source: Shape | None) -> Shape | None:
    """Return the shape of the output of an operator that moves elements, if the text determines it."""
    if source is None:
        return None
    if op.op_type in {CAST, "Identity", "TensorMove", "StopGradient", "Bypass"}:
        return source
    if op.op_type == "Reshape":
        return _reshaped(source, _constant_input(op, graph))
    if op.op_type.startswith("Unsqueeze") or op.op_type == "ExpandDims":
        return _unsqueezed(source, op.integer("axes") or op.integer("axis") or _constant_input(op, graph))
    if op.op_type.startswith("Squeeze"):
        return _squeezed(source, op.integer("axis") or op.integer("axes") or _constant_input(op, graph))
    found = movement_of(op, graph, source)
    return found.result if found is not None and not found.keeps_order else None


def _constant_input(op: TextOp, graph: TextGraph) -> tuple[int, ...] | None:
    """The integers that an operator reads as its second input, if they stand in the text."""
    producer = graph.operators.get(op.inputs[1][0]) if len(op.inputs) > 1 else None
    return producer.constant if producer is not None else None


def _reshaped(source: Shape, wanted: tuple[int, ...] | None) -> Shape | None:
    if wanted is None or wanted.count(-1) > 1:
        return None
    known = prod(extent for extent in wanted if extent != -1)
    if -1 in wanted:
        if not known or prod(source) % known:
            return None
        return tuple(prod(source) // known if extent == -1 else extent for extent in wanted)
    return wanted if known == prod(source) else None


def _unsqueezed(source: Shape, axes: tuple[int, ...] | None) -> Shape | None:
    if not axes:
        return None
    rank = len(source) + len(axes)
    chosen = {axis % rank for axis in axes}
    rest = iter(source)
    return tuple(1 if axis in chosen else next(rest) for axis in range(rank)) if len(chosen) == len(axes) else None


def _squeezed(source: Shape, axes: tuple[int, ...] | None) -> Shape | None:
    if not source:
        return source
    chosen = {axis % len(source) for axis in axes or ()}
    if axes:
        return tuple(extent for axis, extent in enumerate(source) if axis not in chosen)
    return tuple(extent for extent in source if extent != 1)


def _broadcast(source: Shape, wanted: tuple[int, ...]) -> Movement | None:
    padded = (1,) * (len(wanted) - len(source)) + source
    if len(padded) != len(wanted):
        return None
    result = tuple(old if new == -1 else new for old, new in zip(padded, wanted, strict=True))
    if any(old not in (1, new) for old, new in zip(padded, result, strict=True)):
        return None
    return SAME_ORDER if result == padded else Movement(padded, result, is_broadcast=True)


def _ravel(indices: list[AnyArray], shape: Shape) -> AnyArray:
    import numpy as np

    if not shape:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(indices), shape))


def dtype_name(text: str) -> str:
    """Return the element type of a descriptor, as `DT_FLOAT16`; empty if it is not known."""
    name = name_in_graph(text)
    return name if name in BY_NAME and name != "undefined" else ""


def dtype_of_number(number: int) -> str:
    """Return the element type of an attribute such as `dst_type`; empty if it is not known."""
    dtype = NANO_BY_NUMBER.get(number)
    return dtype.name if dtype is not None and dtype.name != "undefined" else ""


def are_alike(first: str, second: str) -> bool:
    """Return whether one tensor can have these element types in two runs; an unknown type fits any.

    The widths of the two runs may differ, but floats stay floats.
    """
    return first not in BY_NAME or second not in BY_NAME or BY_NAME[first].kind is BY_NAME[second].kind


def holds(wide: str, narrow: str) -> bool:
    """Return whether every number of the second element type is a number of the first."""
    if wide not in BY_NAME or narrow not in BY_NAME:
        return False
    outer, inner = BY_NAME[wide], BY_NAME[narrow]
    order = _WIDTH_OF_KIND.get(outer.kind, -1), _WIDTH_OF_KIND.get(inner.kind, 9)
    if outer == inner:
        return True
    if order[0] == order[1]:
        same_sign = outer.name.startswith("u") == inner.name.startswith("u")
        return outer.bits > inner.bits and (same_sign or not outer.name.startswith("u"))
    return order[0] > order[1] and (inner.kind is Kind.BOOL or outer.bits >= 2 * inner.bits)

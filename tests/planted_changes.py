"""Faults of operators: changes of their part of the model or of their results; small operators to plant them in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from device_runs import DeviceRun, Fused
from onnx_models import Array, model, node, value, weight
from opdiff.core.dtypes import FLOAT16, DType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.replay import Replay

    Change = Callable[[Any], None]
    Spoil = Callable[[Array], Array]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Operator:
    """The nodes that one operator is compiled from, and what they read."""

    nodes: list[Any]
    inputs: dict[str, Array]
    weights: dict[str, Array] = field(default_factory=dict)
    dtype: DType = FLOAT16
    opset: int = 17

    def replay(self, folder: Path, change: Change | None = None, spoil: Spoil | None = None) -> Replay:
        """Run the operator on a device, with a fault, and replay it with the model."""
        inputs = [value(name, array.shape) for name, array in self.inputs.items()]
        made = model(self.nodes, inputs, weights=[weight(*item) for item in self.weights.items()], opset=self.opset)
        operator = Fused("op", self.nodes[0].op_type, tuple(item.name for item in self.nodes), change, spoil)
        (found,) = DeviceRun(folder, made, self.inputs, (operator,), dtype=self.dtype).write().replay()
        return found


def single(
    op_type: str, inputs: dict[str, Array], weights: dict[str, Array] | None = None, **attributes: Any
) -> Operator:
    """An operator of one node with the name of its type in lower case, which reads all inputs and weights in order."""
    reads = " ".join([*inputs, *(weights or {})])
    return Operator([node(op_type, reads, "z", op_type.lower(), **attributes)], inputs, weights or {})


# Changes of a part of the model


def attribute(name: str, new: Any) -> Change:
    """Set an attribute of the first node."""

    def change(part: Any) -> None:
        kept = [item for item in part.graph.node[0].attribute if item.name != name]
        del part.graph.node[0].attribute[:]
        part.graph.node[0].attribute.extend([*kept, onnx.helper.make_attribute(name, new)])

    return change


def left_out(*positions: int) -> Change:
    """Let nodes pass their first input on that is no weight."""

    def change(part: Any) -> None:
        weights = {item.name for item in part.graph.initializer}
        for item in (part.graph.node[position] for position in positions):
            kept = next(name for name in item.input if name not in weights)
            item.op_type = "Identity"
            del item.input[:], item.attribute[:]
            item.input.append(kept)

    return change


def set_weight(name: str, change: Spoil) -> Change:
    """Change a weight."""

    def apply(part: Any) -> None:
        (item,) = (item for item in part.graph.initializer if item.name == name)
        array = onnx.numpy_helper.to_array(item)
        item.CopyFrom(weight(name, np.asarray(change(array), array.dtype)))

    return apply


def exchanged(part: Any) -> None:
    """Reverse the operands of the first node."""
    operands = list(part.graph.node[0].input)[::-1]
    del part.graph.node[0].input[:]
    part.graph.node[0].input.extend(operands)


def prepend(part: Any, *nodes: Any) -> None:
    """Add nodes before all others."""
    changed = [onnx.NodeProto.FromString(item.SerializeToString()) for item in (*nodes, *part.graph.node)]
    del part.graph.node[:]
    part.graph.node.extend(changed)


def constant(name: str, numbers: list[int]) -> Any:
    return onnx.helper.make_node("Constant", [], [name], value_ints=numbers)


def reversed_image(part: Any) -> None:
    """Reverse the channels of the image: BGR in place of RGB."""
    first = part.graph.node[0]
    gather = node("Gather", f"{first.input[0]} order", "reversed", axis=1)
    first.input[0] = "reversed"
    prepend(part, constant("order", [2, 1, 0]), gather)


def padded(mode: str) -> Change:
    """Pad the image of the first node, a convolution, with other values than zeros."""

    def change(part: Any) -> None:
        first = part.graph.node[0]
        pad = node("Pad", f"{first.input[0]} pads", "padded", mode=mode)
        first.input[0] = "padded"
        attribute("pads", [0, 0, 0, 0])(part)
        prepend(part, constant("pads", [0, 0, 1, 1, 0, 0, 1, 1]), pad)

    return change


def transposed_operand(position: int) -> Change:
    """Transpose a matrix of the first node."""

    def change(part: Any) -> None:
        first = part.graph.node[0]
        transpose = node("Transpose", first.input[position], "moved", perm=[1, 0])
        first.input[position] = "moved"
        prepend(part, transpose)

    return change


def rounded_operands(part: Any) -> None:
    """Round all operands of the first node to float16."""
    first, steps = part.graph.node[0], []
    for position, source in enumerate(list(first.input)):
        narrow, wide = f"narrow{position}", f"wide{position}"
        steps += [node("Cast", source, narrow, to=10), node("Cast", narrow, wide, to=1)]
        first.input[position] = wide
    prepend(part, *steps)


# Changes of a result


def as_nhwc(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1).reshape(array.shape)


def swapped_channels(first: int, second: int) -> Spoil:
    def change(array: Array) -> Array:
        changed = array.copy()
        changed[:, [first, second]] = array[:, [second, first]]
        return changed

    return change


def foreign_channel(number: int) -> Spoil:
    def change(array: Array) -> Array:
        changed = array.copy()
        changed[:, number] = normal(*changed[:, number].shape, seed=9)
        return changed

    return change


def rough(extent: float) -> Spoil:
    """Add an error that depends on the value, as of a function that is approximated otherwise."""
    return lambda array: np.asarray(array + extent * np.sin(9 * array))

"""Variants of intermediate results: sums of products in 16 bits, and steps that end at the range of the type."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import onnx_encoder as onnx
from opdiff.core.dtypes import FLOAT16, largest_finite
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.arithmetic import FLOAT16_ELEMENTS
from opdiff.workflows.replay.attributes import read_attributes
from opdiff.workflows.replay.encoded_model import added_node
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape
    from opdiff.workflows.replay.encoded_model import EncodedNode
    from opdiff.workflows.replay.variants.variant import Computation

# Products that matrix units add before they round.
_BLOCK = 16
_MAX_BLOCKS = 512


def narrow_sums(computation: Computation, device: DType) -> Iterator[Variant]:
    """Yield variants of matrix products and convolutions that round their sums to 16 bits after some products each."""
    if device not in FLOAT16_ELEMENTS:
        return
    for node in computation.computing_nodes():
        for sums in _blocks_of(computation, node):
            reason = because("replay.cause_accumulation", operator=node.name, op_type=node.op_type, dtype=device.name)
            subgraph = computation.with_node(node, *sums.nodes(FLOAT16_ELEMENTS[device]))
            yield Variant(ErrorKind.PRECISION, reason, subgraph, is_narrow_sum=True)


def _blocks_of(computation: Computation, node: EncodedNode) -> Iterator[_Sums]:
    shapes = [computation.shape_of(name) for name in node.inputs[:2]]
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None:
        return
    if node.op_type == "MatMul" and len(shapes[0]) > 1 and len(shapes[1]) > 1:
        length = shapes[0][-1]
        for size in (_BLOCK, 1):
            if 1 < length / size <= _MAX_BLOCKS:
                yield _matrix_sums(node, (len(shapes[0]) - 1, len(shapes[1]) - 2), length, size)
    if node.op_type == "Conv" and len(shapes[0]) == 4:
        yield from _convolution_sums(computation, node, shapes[0], shapes[1])


class _Sums:
    """Nodes that compute parts of a result, whose sum is rounded after each part."""

    def __init__(self, node: EncodedNode) -> None:
        self._node = node
        self._name = f"opdiff:sum:{node.outputs[0]}"
        self._steps: list[EncodedNode] = []
        self._parts: list[str] = []
        self._count = 0

    def add(self, op_type: str, inputs: Sequence[str], **attributes: int | str | tuple[int, ...]) -> str:
        """Add a node; return its tensor."""
        self._count += 1
        name = f"{self._name}:{self._count}"
        self._steps.append(added_node(op_type, inputs, name, **attributes))
        return name

    def add_part(self, tensor: str) -> None:
        """Add a summand."""
        self._parts.append(tensor)

    def slice(self, tensor: str, ranges: dict[int, tuple[int, int, int]]) -> str:
        """Return a part of a tensor, by start, end and step along some axes."""
        columns = [tuple(item) for item in zip(*ranges.values(), strict=True)]
        starts, ends, steps = (self.add("Constant", (), value_ints=column) for column in columns)
        axes = self.add("Constant", (), value_ints=tuple(ranges))
        return self.add("Slice", (tensor, starts, ends, axes, steps))

    def _rounded(self, tensor: str, element: int) -> str:
        return self.add("Cast", (self.add("Cast", (tensor,), to=element),), to=onnx.FLOAT)

    def nodes(self, element: int) -> list[EncodedNode]:
        """Return all nodes; the last one has the output of the node that they replace."""
        total = self._rounded(self._parts[0], element)
        for part in self._parts[1:]:
            total = self._rounded(self.add("Add", (total, part)), element)
        bias = self._node.inputs[2:3]
        if self._node.op_type == "Conv" and bias and bias[0]:
            shape = self.add("Constant", (), value_ints=(1, -1, 1, 1))
            total = self.add("Add", (total, self.add("Reshape", (bias[0], shape))))
        end = replace(self._node, op_type="Identity", inputs=(total,), attributes=(), domain="")
        return [*self._steps, end]


def _matrix_sums(node: EncodedNode, axes: tuple[int, int], length: int, size: int) -> _Sums:
    sums = _Sums(node)
    for start in range(0, length, size):
        end = min(start + size, length)
        pair = [sums.slice(name, {axis: (start, end, 1)}) for name, axis in zip(node.inputs[:2], axes, strict=True)]
        sums.add_part(sums.add("MatMul", pair))
    return sums


def _convolution_sums(computation: Computation, node: EncodedNode, image: Shape, kernel: Shape) -> Iterator[_Sums]:
    """Yield the sums over blocks of channels at each position of the kernel, in both orders of blocks and positions."""
    given = read_attributes(computation.encoded, node)
    extents = computation.shape_of(node.outputs[0])
    blocks = range(0, kernel[1], _BLOCK)
    positions = list(product(range(kernel[2]), range(kernel[3])))
    is_plain = given.get("group", 1) == 1 and "auto_pad" not in given and extents is not None
    if not is_plain or extents is None or not 1 < len(blocks) * len(positions) <= _MAX_BLOCKS:
        return
    pads, strides, dilations = (
        _numbers(given.get(name), default)
        for name, default in (("pads", (0,) * 4), ("strides", (1, 1)), ("dilations", (1, 1)))
    )
    by_channel = [(block, position) for block in blocks for position in positions]
    by_position = [(block, position) for position in positions for block in blocks]
    for order in [by_channel] if by_channel == by_position else [by_channel, by_position]:
        sums = _Sums(node)
        whole = sums.add("Constant", (), value_ints=(0, 0, *pads[:2], 0, 0, *pads[2:]))
        padded = sums.add("Pad", (node.inputs[0], whole)) if any(pads) else node.inputs[0]
        for block, (row, column) in order:
            channels = (block, min(block + _BLOCK, image[1]), 1)
            places = {
                axis: (at * dilation, at * dilation + (extents[axis] - 1) * stride + 1, stride)
                for axis, at, dilation, stride in zip((2, 3), (row, column), dilations, strides, strict=True)
            }
            part = sums.slice(padded, {1: channels, **places})
            weight = sums.slice(node.inputs[1], {1: channels, 2: (row, row + 1, 1), 3: (column, column + 1, 1)})
            sums.add_part(sums.add("Conv", (part, weight)))
        yield sums


def _numbers(value: object, default: tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) and len(value) == len(default) else default


def saturated_steps(computation: Computation, device: DType) -> Iterator[Variant]:
    """Yield variants in which an inner result ends at the range of float16."""
    largest = largest_finite(FLOAT16) or 0.0
    if device is not FLOAT16:
        return
    for node in computation.computing_nodes():
        name = node.outputs[0]
        kind = computation.types.get(name)
        if name in computation.subgraph.outputs or kind is None:
            continue
        if kind.element != onnx.FLOAT or not prod(kind.shape or (1,)):
            continue
        inner = f"opdiff:unlimited:{name}"
        ends = [added_node("Constant", (), f"{inner}:{sign}", value_float=sign * largest) for sign in (-1, 1)]
        clip = added_node("Clip", (inner, f"{inner}:-1", f"{inner}:1"), name)
        changed = replace(node, outputs=(inner, *node.outputs[1:]))
        facts = {"operator": node.name, "op_type": node.op_type, "dtype": device.name}
        reason = because("replay.cause_saturated_step", largest=largest, **facts)
        yield Variant(ErrorKind.OVERFLOW, reason, computation.with_node(node, changed, *ends, clip))

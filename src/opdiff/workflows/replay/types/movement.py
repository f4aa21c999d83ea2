"""Operators that move all data: joining, splitting, reordering, padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder


def concat(graph: OnnxBuilder, call: Call) -> str:
    """Build `ConcatD` and `ConcatV2`, whose axis is an attribute or the last input."""
    has_axis = "concat_dim" in call.attributes
    operands = call.operands if has_axis else call.operands[:-1]
    axis = call.integers("concat_dim", len(call.operands) - 1)[0]
    return graph.add("Concat", [operand.tensor for operand in operands], {"axis": axis})


def split(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build the splits; the outputs give the extents."""
    data = next(operand for operand in call.operands if operand.rank == len(call.output_shapes[0]))
    axis = _split_axis(call, data.shape)
    extents = [shape[axis] for shape in call.output_shapes]
    if sum(extents) != data.shape[axis]:
        raise UnsupportedOperatorError("not all outputs were dumped")
    return graph.add_several("Split", [data.tensor, graph.integers(extents)], len(extents), {"axis": axis})


def _split_axis(call: Call, shape: tuple[int, ...]) -> int:
    """Return the axis, which is an attribute, or the only one whose extents differ."""
    if "split_dim" in call.attributes:
        return call.integers("split_dim")[0] % len(shape)
    axes = [axis for axis, extent in enumerate(shape) if call.output_shapes[0][axis] != extent]
    if len(axes) != 1:
        raise UnsupportedOperatorError("split_dim is not known")
    return axes[0]


def transpose(graph: OnnxBuilder, call: Call) -> str:
    """Build `Transpose` and `TransposeD`."""
    return graph.add("Transpose", [call.operand(0).tensor], {"perm": call.integers("perm", 1)})


def reshape(graph: OnnxBuilder, call: Call) -> str:
    """Build operators that change the shape only."""
    return graph.add("Reshape", [call.operand(0).tensor, graph.integers(call.output_shapes[0])])


def pad(graph: OnnxBuilder, call: Call) -> str:
    """Build the pads: with zeros, a given number, or mirrored and repeated edges."""
    mode = call.get("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise UnsupportedOperatorError(f"mode {mode}")
    rows = call.attributes.get("paddings", ())
    is_nested = bool(rows) and all(isinstance(row, tuple) for row in rows)
    flat = [item for row in rows for item in row] if is_nested else [*call.integers("paddings", 1)]
    if call.get("paddings_contiguous", default=True):
        flat = [*flat[::2], *flat[1::2]]
    inputs = [call.operand(0).tensor, graph.integers(flat)]
    if len(call.operands) > 2 and mode == "constant":
        inputs.append(graph.add("Reshape", [call.operand(2).tensor, graph.integers([])]))
    return graph.add("Pad", inputs, {"mode": mode})


def unpack(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `Unpack`: one output for each position along an axis."""
    data, count = call.operand(0), len(call.output_shapes)
    axis = call.get("axis", 0) % data.rank
    if data.shape[axis] != count:
        raise UnsupportedOperatorError("not all outputs were dumped")
    parts = graph.add_several("Split", [data.tensor, graph.integers([1] * count)], count, {"axis": axis})
    return [graph.add("Squeeze", [part, graph.integers([axis])]) for part in parts]


def fill(graph: OnnxBuilder, call: Call) -> str:
    """Build `Fill`: one number everywhere."""
    number = graph.add("Reshape", [call.operand(1).tensor, graph.integers([])])
    return graph.add("Expand", [number, graph.integers(call.output_shapes[0])])


def shape(graph: OnnxBuilder, call: Call) -> str:
    """Build `Shape`."""
    return graph.add("Shape", [call.operand(0).tensor])


def tile(graph: OnnxBuilder, call: Call) -> str:
    """Build `Tile` and `TileD`."""
    return graph.add("Tile", [call.operand(0).tensor, graph.integers(call.integers("multiples", 1))])


def expand(graph: OnnxBuilder, call: Call) -> str:
    """Build `BroadcastTo`."""
    return graph.add("Expand", [call.operand(0).tensor, graph.integers(call.output_shapes[0])])


def pack(graph: OnnxBuilder, call: Call) -> str:
    """Build `Pack`."""
    axis = call.get("axis", 0)
    wider = [graph.add("Unsqueeze", [operand.tensor, graph.integers([axis])]) for operand in call.operands]
    return graph.add("Concat", wider, {"axis": axis})


MOVEMENT: dict[str, Builder] = {
    "BroadcastTo": expand, "ConcatD": concat, "ConcatV2": concat, "ConcatV2D": concat, "ExpandDims": reshape,
    "Fill": fill, "Flatten": reshape, "FlattenV2": reshape, "Identity": reshape, "Pack": pack, "Pad": pad,
    "PadD": pad, "PadV3": pad, "PadV3D": pad, "Reshape": reshape, "Shape": shape, "Split": split, "SplitD": split,
    "SplitV": split, "SplitVD": split, "Squeeze": reshape, "SqueezeV2": reshape, "TensorMove": reshape, "Tile": tile,
    "TileD": tile, "TransData": reshape, "Transpose": transpose, "TransposeD": transpose, "Unpack": unpack,
    "Unsqueeze": reshape, "UnsqueezeV2": reshape,
}  # fmt: skip
"""Builders by type."""

"""Operators that move data: joining, splitting, reordering, padding, slices, gathering, and images of another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError
from opdiff.workflows.replay.types.elementwise import plain

if TYPE_CHECKING:
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder

_SLICE_END = 2**31 - 1


def concat(graph: OnnxBuilder, call: Call) -> str:
    """Build `ConcatD`, whose axis is an attribute, and `ConcatV2`, whose axis is an attribute or the last input."""
    operands, last = call.operands, None
    if call.op_type == "ConcatV2" and "concat_dim" not in call.attributes:
        operands, last = operands[:-1], len(operands) - 1
    result = call.output_shapes[0]
    axis = call.integers("concat_dim", last)[0] % len(result)
    if sum(operand.shape[axis] for operand in operands) != result[axis]:
        raise UnsupportedOperatorError(f"concat_dim {axis} does not lead to the shape of the output")
    return graph.add("Concat", [operand.tensor for operand in operands], {"axis": axis})


def split(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build the splits; the outputs give the extents."""
    data = call.operand(1 if call.op_type == "Split" else 0)
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
    return graph.reshape(call.operand(0).tensor, call.output_shapes[0])


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
        inputs.append(graph.reshape(call.operand(2).tensor, []))
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
    number = graph.reshape(call.operand(1).tensor, [])
    return graph.add("Expand", [number, graph.integers(call.output_shapes[0])])


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


def gather(graph: OnnxBuilder, call: Call) -> str:
    """Build `GatherV2` and `Gather`."""
    if call.get("batch_dims", 0):
        raise UnsupportedOperatorError(f"batch_dims {call.get('batch_dims', 0)}")
    axis = call.integers("axis", 2)[0] if "axis" in call.attributes or len(call.operands) > 2 else 0
    return graph.add("Gather", [call.operand(0).tensor, call.operand(1).tensor], {"axis": axis})


def gather_elements(graph: OnnxBuilder, call: Call) -> str:
    """Build `GatherElements`."""
    return graph.add("GatherElements", [call.operand(0).tensor, call.operand(1).tensor], {"axis": call.get("dim", 0)})


def index_by_tensor(graph: OnnxBuilder, call: Call) -> str:
    """Build `IndexByTensor` with an index for the first axis."""
    if call.integers("indices_mask") != (1,) or len(call.operands) != 2:
        raise UnsupportedOperatorError(f"indices_mask {list(call.integers('indices_mask'))}")
    return graph.add("Gather", [call.operand(0).tensor, call.operand(1).tensor], {"axis": 0})


def masked_fill(graph: OnnxBuilder, call: Call) -> str:
    """Build `MaskedFill`: a number where the mask is set."""
    data, mask, number = (call.operand(index).tensor for index in range(3))
    return graph.add("Where", [mask, number, data])


def slices(graph: OnnxBuilder, call: Call) -> str:
    """Build `Slice` and `SliceD`: offsets and sizes."""
    offsets = call.integers("offsets", 1)
    ends = [start + extent for start, extent in zip(offsets, call.output_shapes[0], strict=True)]
    return graph.add("Slice", [call.operand(0).tensor, graph.integers(offsets), graph.integers(ends)])


def strided_slice(graph: OnnxBuilder, call: Call) -> str:
    """Build `StridedSlice` and `StridedSliceD`."""
    starts, ends = call.integers("begin", 1), call.integers("end", 2)
    strides = call.integers("strides", 3) if "strides" in call.attributes or len(call.operands) > 3 else ()
    return _strided(graph, call, (starts, ends, strides or (1,) * len(starts)), tuple(range(len(starts))))


def strided_slice_v2(graph: OnnxBuilder, call: Call) -> str:
    """Build `StridedSliceV2`, which names its axes."""
    starts, ends = call.integers("begin", 1), call.integers("end", 2)
    axes = call.integers("axes", 3) if len(call.operands) > 3 else tuple(range(len(starts)))
    strides = call.integers("strides", 4) if len(call.operands) > 4 else (1,) * len(starts)
    return _strided(graph, call, (starts, ends, strides), axes)


def _strided(graph: OnnxBuilder, call: Call, ranges: tuple[tuple[int, ...], ...], axes: tuple[int, ...]) -> str:
    """Build a slice with the masks of TensorFlow: open starts, open ends, and axes that are removed."""
    if call.get("ellipsis_mask", 0) or call.get("new_axis_mask", 0):
        raise UnsupportedOperatorError("ellipsis_mask or new_axis_mask")
    starts, ends, strides = (list(values) for values in ranges)
    removed = [number for number in range(len(axes)) if call.get("shrink_axis_mask", 0) >> number & 1]
    for number, stride in enumerate(strides):
        if number in removed:
            ends[number] = starts[number] + 1 if starts[number] != -1 else _SLICE_END
        elif call.get("end_mask", 0) >> number & 1:
            ends[number] = _SLICE_END if stride > 0 else -_SLICE_END
        if call.get("begin_mask", 0) >> number & 1 and number not in removed:
            starts[number] = 0 if stride > 0 else _SLICE_END
    values = [graph.integers(items) for items in (starts, ends, axes, strides)]
    result = graph.add("Slice", [call.operand(0).tensor, *values])
    return graph.add("Squeeze", [result, graph.integers([axes[number] for number in removed])]) if removed else result


def _resize(graph: OnnxBuilder, call: Call, attributes: dict[str, Attribute]) -> str:
    sizes = graph.integers(call.output_shapes[0])
    return graph.add("Resize", [call.operand(0).tensor, "", "", sizes], attributes)


def bilinear(graph: OnnxBuilder, call: Call) -> str:
    """Build `ResizeBilinearV2` and its form with the size as an attribute."""
    return _resize(graph, call, {"mode": "linear", "coordinate_transformation_mode": _coordinates(call)})


def nearest(graph: OnnxBuilder, call: Call) -> str:
    """Build `ResizeNearestNeighborV2` and its form with the size as an attribute."""
    coordinates = _coordinates(call)
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    attributes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    return _resize(graph, call, {**attributes})


def _coordinates(call: Call) -> str:
    if call.get("align_corners", default=False):
        return "align_corners"
    return "half_pixel" if call.get("half_pixel_centers", default=False) else "asymmetric"


def resize(graph: OnnxBuilder, call: Call) -> str:
    """Build `Resize`, which has the attributes of ONNX."""
    names = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}
    attributes: dict[str, Attribute] = {name: call.get(name, default) for name, default in names.items()}
    if attributes["mode"] not in ("nearest", "linear", "cubic"):
        raise UnsupportedOperatorError(f"mode {attributes['mode']}")
    return _resize(graph, call, {**attributes, "cubic_coeff_a": call.get("cubic_coeff_a", -0.75)})


MOVEMENT: dict[str, Builder] = {
    "BroadcastTo": expand, "ConcatD": concat, "ConcatV2": concat, "ConcatV2D": concat, "ExpandDims": reshape,
    "Fill": fill, "Flatten": reshape, "FlattenV2": reshape, "Gather": gather, "GatherElements": gather_elements,
    "GatherV2": gather, "GatherV2D": gather, "Identity": reshape, "IndexByTensor": index_by_tensor,
    "MaskedFill": masked_fill, "Pack": pack, "Pad": pad, "PadD": pad, "PadV3": pad, "PadV3D": pad, "Reshape": reshape,
    "Resize": resize, "ResizeBilinearV2": bilinear, "ResizeBilinearV2D": bilinear, "ResizeNearestNeighborV2": nearest,
    "ResizeNearestNeighborV2D": nearest, "Shape": plain("Shape"), "Slice": slices, "SliceD": slices, "Split": split,
    "SplitD": split, "SplitV": split, "SplitVD": split, "Squeeze": reshape, "SqueezeV2": reshape,
    "StridedSlice": strided_slice, "StridedSliceD": strided_slice, "StridedSliceV2": strided_slice_v2,
    "SyncResizeBilinearV2": bilinear, "TensorMove": reshape, "Tile": tile, "TileD": tile, "TransData": reshape,
    "Transpose": transpose, "TransposeD": transpose, "Unpack": unpack, "Unsqueeze": reshape, "UnsqueezeV2": reshape,
}  # fmt: skip
"""Builders by type."""

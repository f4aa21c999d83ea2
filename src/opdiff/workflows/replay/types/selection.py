"""Operators that select elements: slices and gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder

_SLICE_END = 2**31 - 1


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


SELECTIONS: dict[str, Builder] = {
    "Gather": gather, "GatherElements": gather_elements, "GatherV2": gather, "GatherV2D": gather,
    "IndexByTensor": index_by_tensor, "MaskedFill": masked_fill, "Slice": slices, "SliceD": slices,
    "StridedSlice": strided_slice, "StridedSliceD": strided_slice, "StridedSliceV2": strided_slice_v2,
}  # fmt: skip
"""Builders by type."""

"""Pooling, reductions, and positions of the largest elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError
from opdiff.workflows.replay.types.elementwise import plain

if TYPE_CHECKING:
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder

_MAXIMUM, _MEAN = 0, 1
_ROUND_UP = 0


def pooling(graph: OnnxBuilder, call: Call) -> str:
    """Build `Pooling`: window, stride and pad, or the whole image."""
    mode = call.get("mode", _MAXIMUM)
    data = call.operand(0).tensor
    if mode not in (_MAXIMUM, _MEAN):
        raise UnsupportedOperatorError(f"mode {mode}")
    if call.get("global_pooling", default=False):
        return graph.add("GlobalMaxPool" if mode == _MAXIMUM else "GlobalAveragePool", [data])
    top, bottom, left, right = (*call.integers("pad"), 0, 0, 0, 0)[:4] if call.attributes.get("pad") else (0, 0, 0, 0)
    attributes: dict[str, Attribute] = {
        "kernel_shape": call.integers("window"),
        "strides": call.integers("stride") if call.attributes.get("stride") else (1, 1),
        "pads": (top, left, bottom, right),
        "ceil_mode": int(call.get("ceil_mode", _ROUND_UP) == _ROUND_UP),
    }
    if mode == _MAXIMUM:
        return graph.add("MaxPool", [data], attributes)
    return graph.add("AveragePool", [data], {**attributes, "count_include_pad": int(any((top, bottom, left, right)))})


def max_pool(graph: OnnxBuilder, call: Call) -> str:
    """Build `MaxPool` and `MaxPoolV3`, whose lists have an entry for each axis."""
    if call.get("global_pooling", default=False):
        return graph.add("GlobalMaxPool", [call.operand(0).tensor])
    return graph.add("MaxPool", [call.operand(0).tensor], _windows(call))


def average_pool(graph: OnnxBuilder, call: Call) -> str:
    """Build `AvgPool` and `AvgPoolV2`; `exclusive` leaves padding out of the mean."""
    if call.get("global_pooling", default=False):
        return graph.add("GlobalAveragePool", [call.operand(0).tensor])
    counted = int(not call.get("exclusive", default=True))
    return graph.add("AveragePool", [call.operand(0).tensor], {**_windows(call), "count_include_pad": counted})


def _windows(call: Call) -> dict[str, Attribute]:
    axes = call.get("data_format", "NCHW")
    height, width = (axes if axes in ("NCHW", "NHWC") else "NCHW").index("H"), axes.index("W")
    size, stride = call.integers("ksize"), call.integers("strides")
    return {
        "kernel_shape": (size[height], size[width]),
        "strides": (stride[height], stride[width]),
        "ceil_mode": int(call.get("ceil_mode", default=False)),
        **_padding(call),
    }


def _padding(call: Call) -> dict[str, Attribute]:
    mode = call.get("padding", "") or call.get("padding_mode", "CALCULATED")
    if mode == "CALCULATED":
        top, bottom, left, right = call.integers("pads") if call.attributes.get("pads") else (0, 0, 0, 0)
        return {"pads": (top, left, bottom, right)}
    if mode not in ("SAME", "VALID"):
        raise UnsupportedOperatorError(f"padding {mode}")
    return {"auto_pad": "SAME_UPPER" if mode == "SAME" else "VALID"}


def reduction(op_type: str, *, takes_input: bool = False) -> Builder:
    """Return the builder of a reduction; ONNX takes the axes of sums as an input, of others as an attribute."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        data = call.operand(0)
        axes = tuple(axis % data.rank for axis in call.integers("axes", 1)) or tuple(range(data.rank))
        kept = int(data.rank == len(call.output_shapes[0]) and call.get("keep_dims", default=True))
        if takes_input:
            return graph.add(op_type, [data.tensor, graph.integers(axes)], {"keepdims": kept})
        return graph.add(op_type, [data.tensor], {"axes": axes, "keepdims": kept})

    return build


def position(op_type: str) -> Builder:
    """Return the builder of the position of the largest or smallest element along an axis."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        axis = call.integers("dimension", 1)[0] % call.operand(0).rank
        return graph.add(op_type, [call.operand(0).tensor], {"axis": axis, "keepdims": 0})

    return build


def position_and_value(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `ArgMaxWithValue`: position and value of the largest element along an axis."""
    data = call.operand(0)
    axis = call.integers("dimension")[0] % data.rank
    kept = int(call.get("keep_dims", default=False))
    found = graph.add("ArgMax", [data.tensor], {"axis": axis, "keepdims": kept})
    return [found, graph.add("ReduceMax", [data.tensor], {"axes": (axis,), "keepdims": kept})]


def largest(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `TopK`, `TopKV2` and `TopKD`: values and positions."""
    attributes = {"axis": call.get("dim", -1), "largest": int(call.get("largest", default=True))}
    count = graph.integers(call.integers("k", 1))
    return graph.add_several("TopK", [call.operand(0).tensor, count], 2, attributes)


REDUCTIONS: dict[str, Builder] = {
    "ArgMaxD": position("ArgMax"),
    "ArgMaxV2": position("ArgMax"),
    "ArgMaxWithValue": position_and_value,
    "ArgMin": position("ArgMin"),
    "AvgPool": average_pool,
    "AvgPoolV2": average_pool,
    "GlobalAveragePool": plain("GlobalAveragePool"),
    "MaxPool": max_pool,
    "MaxPoolV3": max_pool,
    "Pooling": pooling,
    "ReduceMax": reduction("ReduceMax"),
    "ReduceMaxD": reduction("ReduceMax"),
    "ReduceMean": reduction("ReduceMean"),
    "ReduceMeanD": reduction("ReduceMean"),
    "ReduceMin": reduction("ReduceMin"),
    "ReduceMinD": reduction("ReduceMin"),
    "ReduceProd": reduction("ReduceProd"),
    "ReduceProdD": reduction("ReduceProd"),
    "ReduceSum": reduction("ReduceSum", takes_input=True),
    "ReduceSumD": reduction("ReduceSum", takes_input=True),
    "TopK": largest,
    "TopKD": largest,
    "TopKV2": largest,
}
"""Builders by type."""

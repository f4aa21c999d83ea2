"""Normalizations, whole and in pieces, and softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder, Operand


def softmax(op_type: str) -> Builder:
    """Return the builder of a softmax over one axis."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        axes = call.integers("axes") if call.attributes.get("axes") else (-1,)
        if len(axes) != 1:
            raise UnsupportedOperatorError(f"axes {list(axes)}")
        return graph.add(op_type, [call.operand(0).tensor], {"axis": axes[0]})

    return build


def layer_norm(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `LayerNorm`: result, mean, variance."""
    data, gamma, beta = (call.operand(index) for index in range(3))
    axis = call.get("begin_norm_axis", 0) % data.rank
    return _layer_norm(graph, (data, gamma, beta), axis, call.get("epsilon", 1e-7))[:3]


def layer_norm_v3(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `LayerNormV3`: result, mean, reciprocal deviation."""
    data, gamma, beta = (call.operand(index) for index in range(3))
    axis = call.get("begin_norm_axis", 0) % data.rank
    result, mean, _, deviation = _layer_norm(graph, (data, gamma, beta), axis, call.get("epsilon", 1e-5))
    return [result, mean, graph.add("Reciprocal", [deviation])]


def layer_norm_v4(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `LayerNormV4`, whose second input is the shape of the normalized axes."""
    data = call.operand(0)
    axis = data.rank - len(call.integers("normalized_shape", 1))
    result, mean, _, deviation = _layer_norm(graph, (data, *call.operands[2:]), axis, call.get("epsilon", 1e-5))
    return [result, mean, graph.add("Reciprocal", [deviation])]


def _layer_norm(graph: OnnxBuilder, operands: Sequence[Operand], axis: int, epsilon: float) -> list[str]:
    """Return result, mean, variance and deviation of a normalization over all axes from one on."""
    data, *affine = operands
    result, *statistics = _normalized(graph, data.tensor, tuple(range(axis, data.rank)), epsilon)
    for op_type, operand in zip(("Mul", "Add"), affine, strict=False):
        result = graph.add(op_type, [result, operand.tensor])
    return [result, *statistics]


def _normalized(graph: OnnxBuilder, data: str, axes: tuple[int, ...], epsilon: float) -> list[str]:
    """Return a tensor normalized over some axes, and its mean, variance and deviation."""
    mean = graph.add("ReduceMean", [data], {"axes": axes, "keepdims": 1})
    centered = graph.add("Sub", [data, mean])
    square = graph.add("Mul", [centered, centered])
    variance = graph.add("ReduceMean", [square], {"axes": axes, "keepdims": 1})
    deviation = _deviation(graph, variance, epsilon)
    return [graph.add("Div", [centered, deviation]), mean, variance, deviation]


def _deviation(graph: OnnxBuilder, variance: str, epsilon: float) -> str:
    return graph.add("Sqrt", [graph.add("Add", [variance, graph.number(epsilon)])])


def rms_norm(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `RmsNorm` over the last axes: result, reciprocal root of the mean square."""
    return _rms_norm(graph, call, call.operand(0).tensor, call.operand(0).rank)


def add_rms_norm(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `AddRmsNorm`: result, reciprocal root of the mean square, sum."""
    total = graph.add("Add", [call.operand(0).tensor, call.operand(1).tensor])
    return [*_rms_norm(graph, call, total, call.operand(0).rank), total]


def _rms_norm(graph: OnnxBuilder, call: Call, data: str, rank: int) -> list[str]:
    gamma = call.operands[-1]
    axes = tuple(range(rank - gamma.rank, rank))
    mean = graph.add("ReduceMean", [graph.add("Mul", [data, data])], {"axes": axes, "keepdims": 1})
    root = _deviation(graph, mean, call.get("epsilon", 1e-6))
    result = graph.add("Mul", [graph.add("Div", [data, root]), gamma.tensor])
    return [result, graph.add("Reciprocal", [root])]


def _by_channel(graph: OnnxBuilder, operand: Operand, rank: int) -> str:
    return graph.reshape(operand.tensor, [1, -1, *[1] * (rank - 2)])


def prepared_batch_norm(graph: OnnxBuilder, call: Call) -> str:
    """Build `BNInferenceD`: x plus the negative mean, times the reciprocal deviation, scaled and shifted."""
    data = call.operand(0)
    result = data.tensor
    for op_type, operand in zip(("Add", "Mul", "Mul", "Add"), call.operands[1:], strict=False):
        result = graph.add(op_type, [result, _by_channel(graph, operand, data.rank)])
    return result


def batch_norm(graph: OnnxBuilder, call: Call) -> str:
    """Build `BNInfer` and `BatchNorm` in inference: data, scale, offset, mean, variance."""
    if call.get("is_training", default=False):
        raise UnsupportedOperatorError("is_training")
    data = call.operand(0).tensor
    weights = [graph.reshape(call.operand(index).tensor, [-1]) for index in range(1, 5)]
    return graph.add("BatchNormalization", [data, *weights], {"epsilon": call.get("epsilon", 1e-4)})


def batch_norm_sums(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build `BNTrainingReduce`: sum and sum of squares of each channel."""
    data = call.operand(0)
    axes = graph.integers([0, *range(2, data.rank)])
    square = graph.add("Mul", [data.tensor, data.tensor])
    return [graph.add("ReduceSum", [tensor, axes], {"keepdims": 1}) for tensor in (data.tensor, square)]


def batch_norm_update(graph: OnnxBuilder, call: Call) -> list[str]:
    """Build the result of `BNTrainingUpdate` from the sums of each channel."""
    data = call.operand(0)
    count = graph.number(prod(data.shape) / data.shape[1])
    total, squares, scale, offset = (_by_channel(graph, call.operand(index), data.rank) for index in range(1, 5))
    mean = graph.add("Div", [total, count])
    variance = graph.add("Sub", [graph.add("Div", [squares, count]), graph.add("Mul", [mean, mean])])
    deviation = _deviation(graph, variance, call.get("epsilon", 1e-4))
    normal = graph.add("Div", [graph.add("Sub", [data.tensor, mean]), deviation])
    return [graph.add("Add", [graph.add("Mul", [normal, scale]), offset])]


def instance_norm(graph: OnnxBuilder, call: Call) -> str:
    """Build `InstanceNorm`: data, scale, offset."""
    data, *weights = (call.operand(index) for index in range(3))
    flat = [graph.reshape(weight.tensor, [-1]) for weight in weights]
    return graph.add("InstanceNormalization", [data.tensor, *flat], {"epsilon": call.get("epsilon", 1e-6)})


def group_norm(graph: OnnxBuilder, call: Call) -> str:
    """Build the result of `GroupNorm`: groups of channels are normalized, then scaled by channel."""
    data, gamma, beta = (call.operand(index) for index in range(3))
    groups = call.get("num_groups", 1)
    flat = graph.reshape(data.tensor, [data.shape[0], groups, -1])
    normal, *_ = _normalized(graph, flat, (2,), call.get("eps", call.get("epsilon", 1e-5)))
    shaped = graph.reshape(normal, data.shape)
    scaled = graph.add("Mul", [shaped, _by_channel(graph, gamma, data.rank)])
    return graph.add("Add", [scaled, _by_channel(graph, beta, data.rank)])


def l2_normalize(graph: OnnxBuilder, call: Call) -> str:
    """Build `L2Normalize`: data divided by the root of the sum of squares, which is not less than epsilon."""
    data = call.operand(0).tensor
    square = graph.add("Mul", [data, data])
    total = graph.add("ReduceSum", [square, graph.integers(call.integers("axis"))], {"keepdims": 1})
    return graph.add("Div", [data, graph.add("Sqrt", [graph.add("Max", [total, graph.number(call.get("eps", 1e-4))])])])


NORMALIZATIONS: dict[str, Builder] = {
    "AddRmsNorm": add_rms_norm, "BNInfer": batch_norm, "BNInferenceD": prepared_batch_norm,
    "BNTrainingReduce": batch_norm_sums, "BNTrainingUpdate": batch_norm_update, "BatchNorm": batch_norm,
    "GroupNorm": group_norm, "InstanceNorm": instance_norm, "L2Normalize": l2_normalize, "LayerNorm": layer_norm,
    "LayerNormV3": layer_norm_v3, "LayerNormV4": layer_norm_v4, "LogSoftmaxV2": softmax("LogSoftmax"),
    "RmsNorm": rms_norm, "SoftmaxV2": softmax("Softmax"),
}  # fmt: skip
"""Builders by type."""

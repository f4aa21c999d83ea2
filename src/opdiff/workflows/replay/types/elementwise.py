"""Elementwise operators and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder

# Element types of the graph engine by number, as numbers of ONNX.
_CAST_TYPES = {0: 1, 1: 1, 27: 1, 2: 3, 3: 6, 4: 2, 6: 5, 7: 4, 8: 12, 9: 7, 10: 13, 11: 11, 12: 9}
_SUM, _PRODUCT, _MAXIMUM = 1, 0, 2


def plain(op_type: str, operands: int = 1) -> Builder:
    """Return the builder of an operator that ONNX has, too."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        return graph.add(op_type, [call.operand(index).tensor for index in range(operands)])

    return build


def variadic(op_type: str) -> Builder:
    """Return the builder of an operator that takes all inputs."""
    return lambda graph, call: graph.add(op_type, [operand.tensor for operand in call.operands])


def with_parameters(op_type: str, **parameters: tuple[str, float]) -> Builder:
    """Return the builder of an operator whose attributes have the given names and default values in compiled models."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        attributes = {name: call.get(*given) for name, given in parameters.items()}
        return graph.add(op_type, [call.operand(0).tensor], attributes)

    return build


def with_value(op_type: str) -> Builder:
    """Return the builder of an operator whose second operand is the attribute `value`."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        return graph.add(op_type, [call.operand(0).tensor, graph.number(call.get("value", 0.0))])

    return build


def eltwise(graph: OnnxBuilder, call: Call) -> str:
    """Build `Eltwise`: product, weighted sum or maximum."""
    mode = call.get("mode", _SUM)
    tensors = [operand.tensor for operand in call.operands]
    if mode == _SUM:
        weights = call.attributes.get("coeff") or ()
        pairs = zip(tensors, weights, strict=False)
        tensors = [graph.add("Mul", [item, graph.number(weight)]) for item, weight in pairs] if weights else tensors
    return graph.add({_SUM: "Sum", _MAXIMUM: "Max"}[mode], tensors) if mode != _PRODUCT else _product(graph, tensors)


def _product(graph: OnnxBuilder, tensors: list[str]) -> str:
    result = tensors[0]
    for tensor in tensors[1:]:
        result = graph.add("Mul", [result, tensor])
    return result


def bias_add(graph: OnnxBuilder, call: Call) -> str:
    """Build `BiasAdd`: a number for each channel."""
    data, bias = call.operand(0), call.operand(1)
    is_last = call.get("data_format", "NHWC") == "NHWC" or data.rank == 2
    shape = [-1] if is_last else [1, -1, *[1] * (data.rank - 2)]
    return graph.add("Add", [data.tensor, graph.reshape(bias.tensor, shape)])


def cast(graph: OnnxBuilder, call: Call) -> str:
    """Build `Cast`; floats of 16 bits are computed in 32."""
    kind = call.get("dst_type", 0)
    if kind not in _CAST_TYPES:
        raise UnsupportedOperatorError(f"element type {kind}")
    return graph.add("Cast", [call.operand(0).tensor], {"to": _CAST_TYPES[kind]})


def relu6(graph: OnnxBuilder, call: Call) -> str:
    """Build `Relu6`."""
    return graph.add("Clip", [call.operand(0).tensor, graph.number(0.0), graph.number(6.0)])


def swish(graph: OnnxBuilder, call: Call) -> str:
    """Build `Swish`: x times the sigmoid of scale times x."""
    x = call.operand(0).tensor
    scaled = graph.add("Mul", [x, graph.number(call.get("scale", 1.0))])
    return graph.add("Mul", [x, graph.add("Sigmoid", [scaled])])


def mish(graph: OnnxBuilder, call: Call) -> str:
    """Build `Mish`."""
    x = call.operand(0).tensor
    return graph.add("Mul", [x, graph.add("Tanh", [graph.add("Softplus", [x])])])


def gelu(graph: OnnxBuilder, call: Call) -> str:
    """Build `Gelu` by its approximation with a hyperbolic tangent."""
    x = call.operand(0).tensor
    cubed = graph.add("Mul", [graph.add("Mul", [x, x]), x])
    inner = graph.add("Add", [x, graph.add("Mul", [cubed, graph.number(0.044715)])])
    bent = graph.add("Tanh", [graph.add("Mul", [inner, graph.number(0.7978845608)])])
    return graph.add("Mul", [graph.add("Mul", [x, graph.number(0.5)]), graph.add("Add", [bent, graph.number(1.0)])])


def hard_swish(graph: OnnxBuilder, call: Call) -> str:
    """Build `HardSwish`."""
    x = call.operand(0).tensor
    clipped = graph.add("Clip", [graph.add("Add", [x, graph.number(3.0)]), graph.number(0.0), graph.number(6.0)])
    return graph.add("Mul", [x, graph.add("Mul", [clipped, graph.number(1 / 6)])])


def prelu(graph: OnnxBuilder, call: Call) -> str:
    """Build `PRelu`: a slope for each channel."""
    data, slope = call.operand(0), call.operand(1)
    shape = [-1, *[1] * (data.rank - 2)]
    return graph.add("PRelu", [data.tensor, graph.reshape(slope.tensor, shape)])


def squared_difference(graph: OnnxBuilder, call: Call) -> str:
    """Build `SquaredDifference`."""
    difference = graph.add("Sub", [call.operand(0).tensor, call.operand(1).tensor])
    return graph.add("Mul", [difference, difference])


def rsqrt(graph: OnnxBuilder, call: Call) -> str:
    """Build `Rsqrt`."""
    return graph.add("Reciprocal", [graph.add("Sqrt", [call.operand(0).tensor])])


def square(graph: OnnxBuilder, call: Call) -> str:
    """Build `Square`."""
    return graph.add("Mul", [call.operand(0).tensor] * 2)


def power(graph: OnnxBuilder, call: Call) -> str:
    """Build `Power`: (scale x + shift) to the power."""
    scaled = graph.add("Mul", [call.operand(0).tensor, graph.number(call.get("scale", 1.0))])
    shifted = graph.add("Add", [scaled, graph.number(call.get("shift", 0.0))])
    return graph.add("Pow", [shifted, graph.number(call.get("power", 1.0))])


ELEMENTWISE: dict[str, Builder] = {
    "Abs": plain("Abs"), "Add": plain("Add", 2), "AddN": variadic("Sum"), "AddV2": plain("Add", 2),
    "Adds": with_value("Add"), "BiasAdd": bias_add, "Cast": cast, "ClipByValue": plain("Clip", 3),
    "Cos": plain("Cos"), "Div": plain("Div", 2), "Eltwise": eltwise,
    "Elu": with_parameters("Elu", alpha=("alpha", 1.0)), "Equal": plain("Equal", 2), "Erf": plain("Erf"),
    "Exp": plain("Exp"), "Gelu": gelu, "Greater": plain("Greater", 2),
    "HardSigmoid": with_parameters("HardSigmoid", alpha=("alpha", 1 / 6), beta=("beta", 0.5)), "HardSwish": hard_swish,
    "LeakyRelu": with_parameters("LeakyRelu", alpha=("negative_slope", 0.0)), "Less": plain("Less", 2),
    "Log": plain("Log"), "Maximum": plain("Max", 2), "Minimum": plain("Min", 2), "Mish": mish,
    "Mul": plain("Mul", 2), "Muls": with_value("Mul"), "Neg": plain("Neg"), "PRelu": prelu,
    "Pow": plain("Pow", 2), "Power": power, "RealDiv": plain("Div", 2), "Reciprocal": plain("Reciprocal"),
    "Relu": plain("Relu"), "Relu6": relu6, "Rsqrt": rsqrt, "Select": plain("Where", 3), "SelectV2": plain("Where", 3),
    "Sigmoid": plain("Sigmoid"), "Sin": plain("Sin"), "Softplus": plain("Softplus"), "Sqrt": plain("Sqrt"),
    "Square": square, "SquaredDifference": squared_difference, "Sub": plain("Sub", 2), "Swish": swish,
    "Tanh": plain("Tanh"),
}  # fmt: skip
"""Builders by type."""

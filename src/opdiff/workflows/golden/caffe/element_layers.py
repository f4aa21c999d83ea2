"""Layers that compute each element by itself: activations, scaling, element-wise arithmetic."""

from __future__ import annotations

from math import e, log
from typing import TYPE_CHECKING

import numpy as np

from opdiff.workflows.golden.caffe.builder import Blob, UnsupportedLayerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.workflows.golden.caffe.builder import GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer, Parameters

_OPERATIONS = {"PROD": "Mul", "0": "Mul", "SUM": "Add", "1": "Add", "MAX": "Max", "2": "Max"}


def relu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier, leaky with `negative_slope`."""
    slope = layer.parameters("relu_param").number("negative_slope", 0.0)
    if slope:
        return graph.add("LeakyRelu", [x.tensor], x.shape, {"alpha": slope})
    return graph.add("Relu", [x.tensor], x.shape)


def relu6(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier limited to 6."""
    return _clip(graph, x, 0.0, layer.parameters("relu6_param").number("threshold", 6.0))


def prelu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier with a trained slope for each channel, or one for all."""
    slopes = weights_of(layer, 0).reshape(-1)
    shape = (1,) if slopes.size == 1 else (slopes.size, *[1] * (x.rank - 2))
    return graph.add("PRelu", [x.tensor, graph.constant(slopes.reshape(shape))], x.shape)


def elu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Exponential linear unit."""
    return graph.add("Elu", [x.tensor], x.shape, {"alpha": layer.parameters("elu_param").number("alpha", 1.0)})


def swish(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """X · sigmoid(beta · x)."""
    beta = layer.parameters("swish_param").number("beta", 1.0)
    scaled = graph.add("Mul", [x.tensor, graph.scalar(beta)], x.shape)
    gate = graph.add("Sigmoid", [scaled.tensor], x.shape)
    return graph.add("Mul", [x.tensor, gate.tensor], x.shape)


def clip(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Limits from below and above."""
    parameters = layer.parameters("clip_param")
    return _clip(graph, x, parameters.number("min", -np.inf), parameters.number("max", np.inf))


def _clip(graph: GraphBuilder, x: Blob, low: float, high: float) -> Blob:
    return graph.add("Clip", [x.tensor, graph.scalar(low), graph.scalar(high)], x.shape)


def threshold(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """1 above the threshold, otherwise 0."""
    limit = graph.scalar(layer.parameters("threshold_param").number("threshold", 0.0))
    above = graph.add("Greater", [x.tensor, limit], x.shape)
    return graph.add("Cast", [above.tensor], x.shape, {"to": 1})


def power(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """(shift + scale · x) ^ power."""
    parameters = layer.parameters("power_param")
    shifted = _linear(graph, x, parameters)
    return graph.add("Pow", [shifted.tensor, graph.scalar(parameters.number("power", 1.0))], x.shape)


def exponential(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Base ^ (shift + scale · x); the base -1 stands for e."""
    parameters = layer.parameters("exp_param")
    factor = graph.scalar(log(_base(parameters)))
    exponent = graph.add("Mul", [_linear(graph, x, parameters).tensor, factor], x.shape)
    return graph.add("Exp", [exponent.tensor], x.shape)


def logarithm(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Logarithm of shift + scale · x to a base; -1 stands for e."""
    parameters = layer.parameters("log_param")
    natural = graph.add("Log", [_linear(graph, x, parameters).tensor], x.shape)
    return graph.add("Mul", [natural.tensor, graph.scalar(1 / log(_base(parameters)))], x.shape)


def _base(parameters: Parameters) -> float:
    base = parameters.number("base", -1.0)
    return e if base == -1 else base


def _linear(graph: GraphBuilder, x: Blob, parameters: Parameters) -> Blob:
    scaled = graph.add("Mul", [x.tensor, graph.scalar(parameters.number("scale", 1.0))], x.shape)
    return graph.add("Add", [scaled.tensor, graph.scalar(parameters.number("shift", 0.0))], x.shape)


def scale(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """Product with weights, or with a second blob, along an axis; then a bias."""
    parameters = layer.parameters("scale_param")
    scaled = _along_axis(graph, layer, inputs, "Mul", parameters)
    if not parameters.flag("bias_term", default=False):
        return scaled
    bias = weights_of(layer, 1 if len(inputs) == 1 else 0)
    return _with_weights(graph, scaled, "Add", bias, parameters)


def bias(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """Sum with weights, or with a second blob, along an axis."""
    return _along_axis(graph, layer, inputs, "Add", layer.parameters("bias_param"))


def _along_axis(
    graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob], op_type: str, parameters: Parameters
) -> Blob:
    x = inputs[0]
    if len(inputs) == 1:
        return _with_weights(graph, x, op_type, weights_of(layer, 0), parameters)
    second = inputs[1]
    axis = x.axis(parameters.integer("axis", 1))
    trailing = [1] * (x.rank - axis - second.rank)
    shaped = graph.reshape(second, (*second.shape, *trailing))
    return graph.add(op_type, [x.tensor, shaped.tensor], x.shape)


def _with_weights(graph: GraphBuilder, x: Blob, op_type: str, weights: AnyArray, parameters: Parameters) -> Blob:
    axis = x.axis(parameters.integer("axis", 1))
    axes = parameters.integer("num_axes", 1)
    shape = x.shape[axis:] if axes == -1 else x.shape[axis : axis + axes]
    if weights.size != np.prod(shape):
        raise UnsupportedLayerError(f"weights of shape {list(weights.shape)} for axes {list(shape)}")
    shaped = weights.reshape((*shape, *[1] * (x.rank - axis - len(shape))))
    return graph.add(op_type, [x.tensor, graph.constant(shaped)], x.shape)


def eltwise(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """Product, sum with coefficients, or maximum of several blobs."""
    parameters = layer.parameters("eltwise_param")
    op_type = _OPERATIONS.get(parameters.word("operation", "SUM"))
    if op_type is None or any(blob.shape != inputs[0].shape for blob in inputs):
        raise UnsupportedLayerError("this operation, or blobs of different shapes")
    factors = parameters.numbers("coeff")
    terms = list(inputs)
    if factors and op_type == "Add":
        terms = [
            graph.add("Mul", [blob.tensor, graph.scalar(factor)], blob.shape)
            for blob, factor in zip(inputs, factors, strict=True)
        ]
    result = terms[0]
    for term in terms[1:]:
        result = graph.add(op_type, [result.tensor, term.tensor], term.shape)
    return result


def weights_of(layer: Layer, number: int) -> AnyArray:
    """Return a blob of weights.

    Raises:
        UnsupportedLayerError: the caffemodel does not have it.
    """
    if number >= len(layer.blobs):
        raise UnsupportedLayerError("its weights are not in the caffemodel")
    return layer.blobs[number]

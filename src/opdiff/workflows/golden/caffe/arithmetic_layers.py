"""Layers that compute each element by itself, or sum over axes: activations, arithmetic, products, normalizations."""

from __future__ import annotations

from math import e, log, prod
from typing import TYPE_CHECKING

import numpy as np

from opdiff.workflows.golden.caffe.builder import Blob, UnsupportedLayerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.workflows.golden.caffe.builder import GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer, Parameters

_OPERATIONS = {"PROD": "Mul", "0": "Mul", "SUM": "Add", "1": "Add", "MAX": "Max", "2": "Max"}

_REDUCTIONS = {
    "SUM": "ReduceSum", "1": "ReduceSum", "ASUM": "ReduceL1", "2": "ReduceL1", "SUMSQ": "ReduceSumSquare",
    "3": "ReduceSumSquare", "MEAN": "ReduceMean", "4": "ReduceMean",
}  # fmt: skip


def relu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier, leaky with `negative_slope`."""
    slope = layer.parameters("relu_param").number("negative_slope", 0.0)
    if slope:
        return graph.add("LeakyRelu", x, alpha=slope)
    return graph.add("Relu", x)


def relu6(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier limited to 6."""
    return _clip(graph, x, 0.0, layer.parameters("relu6_param").number("threshold", 6.0))


def prelu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rectifier with a trained slope for each channel, or one for all."""
    return graph.add("PRelu", x, _for_channels(graph, x, weights_of(layer, 0)))


def elu(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Exponential linear unit."""
    return graph.add("Elu", x, alpha=layer.parameters("elu_param").number("alpha", 1.0))


def swish(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """X · sigmoid(beta · x)."""
    beta = layer.parameters("swish_param").number("beta", 1.0)
    scaled = graph.add("Mul", x, graph.scalar(beta))
    gate = graph.add("Sigmoid", scaled)
    return graph.add("Mul", x, gate)


def clip(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Limits from below and above."""
    parameters = layer.parameters("clip_param")
    return _clip(graph, x, parameters.number("min", -np.inf), parameters.number("max", np.inf))


def _clip(graph: GraphBuilder, x: Blob, low: float, high: float) -> Blob:
    return graph.add("Clip", x, graph.scalar(low), graph.scalar(high))


def threshold(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """1 above the threshold, otherwise 0."""
    limit = graph.scalar(layer.parameters("threshold_param").number("threshold", 0.0))
    above = graph.add("Greater", x, limit)
    return graph.add("Cast", above, to=1)


def power(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """(shift + scale · x) ^ power."""
    parameters = layer.parameters("power_param")
    shifted = _linear(graph, x, parameters)
    return graph.add("Pow", shifted, graph.scalar(parameters.number("power", 1.0)))


def exponential(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Base ^ (shift + scale · x); the base -1 stands for e."""
    parameters = layer.parameters("exp_param")
    factor = graph.scalar(log(_base(parameters)))
    exponent = graph.add("Mul", _linear(graph, x, parameters), factor)
    return graph.add("Exp", exponent)


def logarithm(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Logarithm of shift + scale · x to a base; -1 stands for e."""
    parameters = layer.parameters("log_param")
    natural = graph.add("Log", _linear(graph, x, parameters))
    return graph.add("Mul", natural, graph.scalar(1 / log(_base(parameters))))


def _base(parameters: Parameters) -> float:
    base = parameters.number("base", -1.0)
    return e if base == -1 else base


def _linear(graph: GraphBuilder, x: Blob, parameters: Parameters) -> Blob:
    scaled = graph.add("Mul", x, graph.scalar(parameters.number("scale", 1.0)))
    return graph.add("Add", scaled, graph.scalar(parameters.number("shift", 0.0)))


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
    return graph.add(op_type, x, shaped)


def _with_weights(graph: GraphBuilder, x: Blob, op_type: str, weights: AnyArray, parameters: Parameters) -> Blob:
    axis = x.axis(parameters.integer("axis", 1))
    axes = parameters.integer("num_axes", 1)
    shape = x.shape[axis:] if axes == -1 else x.shape[axis : axis + axes]
    if weights.size != np.prod(shape):
        raise UnsupportedLayerError(f"weights of shape {list(weights.shape)} for axes {list(shape)}")
    shaped = weights.reshape((*shape, *[1] * (x.rank - axis - len(shape))))
    return graph.add(op_type, x, graph.constant(shaped))


def eltwise(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """Product, sum with coefficients, or maximum of several blobs."""
    parameters = layer.parameters("eltwise_param")
    op_type = _OPERATIONS.get(parameters.word("operation", "SUM"))
    if op_type is None or any(blob.shape != inputs[0].shape for blob in inputs):
        raise UnsupportedLayerError("this operation, or blobs of different shapes")
    factors = parameters.numbers("coeff")
    terms = list(inputs)
    if factors and op_type == "Add":
        terms = [graph.add("Mul", blob, graph.scalar(factor)) for blob, factor in zip(inputs, factors, strict=True)]
    result = terms[0]
    for term in terms[1:]:
        result = graph.add(op_type, result, term)
    return result


# Sums over axes


def inner_product(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Fully connected layer."""
    parameters = layer.parameters("inner_product_param")
    axis = x.axis(parameters.integer("axis", 1))
    rows, length = prod(x.shape[:axis]), prod(x.shape[axis:])
    is_transposed = parameters.flag("transpose", default=False)
    weights = weights_of(layer, 0).reshape((length, -1) if is_transposed else (-1, length))
    outputs = weights.shape[1 if is_transposed else 0]
    inputs = [graph.constant(weights)]
    if parameters.flag("bias_term", default=True):
        inputs.append(graph.constant(weights_of(layer, 1).reshape(-1)))
    matrix = graph.reshape(x, (rows, length))
    product = graph.add("Gemm", matrix, *inputs, shape=(rows, outputs), transB=int(not is_transposed))
    return product if axis == 1 else graph.reshape(product, (*x.shape[:axis], outputs))


def batch_norm(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Normalization by stored means and variances, which the third blob scales."""
    parameters = layer.parameters("batch_norm_param")
    if not parameters.flag("use_global_stats", default=True) or len(layer.blobs) != 3:
        raise UnsupportedLayerError("statistics of the batch, or other than three blobs")
    mean, variance, count = layer.blobs
    factor = float(count.reshape(-1)[0])
    factor = 1 / factor if factor else 0.0
    channels = mean.size
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    statistics = [(blob.reshape(-1) * factor).astype(np.float32) for blob in (mean, variance)]
    names = [graph.constant(array) for array in (ones, zeros, *statistics)]
    return graph.add("BatchNormalization", x, *names, epsilon=parameters.number("eps", 1e-5))


def softmax(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Softmax along an axis."""
    axis = x.axis(layer.parameters("softmax_param").integer("axis", 1))
    return graph.add("Softmax", x, axis=axis)


def arg_max(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Position of the maximum along an axis, or in each item of the batch; as numbers of float32."""
    parameters = layer.parameters("argmax_param")
    if parameters.integer("top_k", 1) != 1 or parameters.flag("out_max_val", default=False):
        raise UnsupportedLayerError("several maxima, or their values")
    if parameters.has("axis"):
        axis, flat = x.axis(parameters.integer("axis", 1)), x
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    else:
        axis, flat = 2, graph.reshape(x, (x.shape[0], 1, prod(x.shape[1:])))
        shape = (x.shape[0], 1, 1)
    found = graph.add("ArgMax", flat, shape=shape, axis=axis, keepdims=1)
    return graph.add("Cast", found, to=1)


def reduction(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Sum, sum of magnitudes or squares, or mean of all axes from one on, times a coefficient."""
    parameters = layer.parameters("reduction_param")
    op_type = _REDUCTIONS.get(parameters.word("operation", "SUM"))
    if op_type is None:
        raise UnsupportedLayerError("this operation")
    axis = x.axis(parameters.integer("axis", 0))
    shape = x.shape[:axis]
    flat = graph.reshape(x, (*shape, prod(x.shape[axis:])))
    if op_type == "ReduceSum":  # takes axes as an input in this version of ONNX, unlike the others
        reduced = graph.add(op_type, flat, graph.integers(axis), shape=shape, keepdims=0)
    else:
        reduced = graph.add(op_type, flat, shape=shape, axes=(axis,), keepdims=0)
    return graph.add("Mul", reduced, graph.scalar(parameters.number("coeff", 1.0)))


def mvn(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Mean of each channel, or of all, subtracted; then divided by the standard deviation."""
    parameters = layer.parameters("mvn_param")
    first = 1 if parameters.flag("across_channels", default=False) else 2
    axes = tuple(range(first, x.rank))
    small = (*x.shape[:first], *[1] * len(axes))
    mean = graph.add("ReduceMean", x, shape=small, axes=axes)
    centred = graph.add("Sub", x, mean)
    if not parameters.flag("normalize_variance", default=True):
        return centred
    squares = graph.add("Mul", centred, centred)
    variance = graph.add("ReduceMean", squares, shape=small, axes=axes)
    deviation = graph.add("Sqrt", variance)
    divisor = graph.add("Add", deviation, graph.scalar(parameters.number("eps", 1e-9)))
    return graph.add("Div", centred, divisor)


def normalize(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Division by the Euclidean norm over channels, or over everything, and a trained scale."""
    parameters = layer.parameters("norm_param")
    across = parameters.flag("across_spatial", default=True)
    axes = tuple(range(1, x.rank)) if across else (1,)
    small = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    squares = graph.add("ReduceSumSquare", x, shape=small, axes=axes)
    shifted = graph.add("Add", squares, graph.scalar(parameters.number("eps", 1e-10)))
    norm = graph.add("Sqrt", shifted)
    unit = graph.add("Div", x, norm)
    return graph.add("Mul", unit, _for_channels(graph, x, weights_of(layer, 0)))


def _for_channels(graph: GraphBuilder, x: Blob, weights: AnyArray) -> str:
    """Add weights for each channel of a blob, or one for all."""
    shape = (1,) if weights.size == 1 else (weights.size, *[1] * (x.rank - 2))
    return graph.constant(weights.reshape(shape))


def weights_of(layer: Layer, number: int) -> AnyArray:
    """Return a blob of weights.

    Raises:
        UnsupportedLayerError: the caffemodel does not have it.
    """
    if number >= len(layer.blobs):
        raise UnsupportedLayerError("its weights are not in the caffemodel")
    return layer.blobs[number]

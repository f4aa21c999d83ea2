"""Layers that sum over axes: inner products, normalizations, reductions, softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from opdiff.workflows.golden.caffe.builder import Blob, UnsupportedLayerError
from opdiff.workflows.golden.caffe.element_layers import weights_of

if TYPE_CHECKING:
    from opdiff.workflows.golden.caffe.builder import GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer

_REDUCTIONS = {
    "SUM": "ReduceSum", "1": "ReduceSum", "ASUM": "ReduceL1", "2": "ReduceL1", "SUMSQ": "ReduceSumSquare",
    "3": "ReduceSumSquare", "MEAN": "ReduceMean", "4": "ReduceMean",
}  # fmt: skip


def inner_product(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Fully connected layer."""
    parameters = layer.parameters("inner_product_param")
    axis = x.axis(parameters.integer("axis", 1))
    rows, length = prod(x.shape[:axis]), prod(x.shape[axis:])
    is_transposed = parameters.flag("transpose", default=False)
    weights = weights_of(layer, 0).reshape((length, -1) if is_transposed else (-1, length))
    outputs = weights.shape[1 if is_transposed else 0]
    inputs = [graph.reshape(x, (rows, length)).tensor, graph.constant(weights)]
    if parameters.flag("bias_term", default=True):
        inputs.append(graph.constant(weights_of(layer, 1).reshape(-1)))
    product = graph.add("Gemm", inputs, (rows, outputs), {"transB": int(not is_transposed)})
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
    return graph.add("BatchNormalization", [x.tensor, *names], x.shape, {"epsilon": parameters.number("eps", 1e-5)})


def softmax(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Softmax along an axis."""
    axis = x.axis(layer.parameters("softmax_param").integer("axis", 1))
    return graph.add("Softmax", [x.tensor], x.shape, {"axis": axis})


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
    found = graph.add("ArgMax", [flat.tensor], shape, {"axis": axis, "keepdims": 1})
    return graph.add("Cast", [found.tensor], shape, {"to": 1})


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
        reduced = graph.add(op_type, [flat.tensor, graph.integers(axis)], shape, {"keepdims": 0})
    else:
        reduced = graph.add(op_type, [flat.tensor], shape, {"axes": (axis,), "keepdims": 0})
    return graph.add("Mul", [reduced.tensor, graph.scalar(parameters.number("coeff", 1.0))], shape)


def mvn(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Mean of each channel, or of all, subtracted; then divided by the standard deviation."""
    parameters = layer.parameters("mvn_param")
    first = 1 if parameters.flag("across_channels", default=False) else 2
    axes = tuple(range(first, x.rank))
    small = (*x.shape[:first], *[1] * len(axes))
    mean = graph.add("ReduceMean", [x.tensor], small, {"axes": axes})
    centred = graph.add("Sub", [x.tensor, mean.tensor], x.shape)
    if not parameters.flag("normalize_variance", default=True):
        return centred
    squares = graph.add("Mul", [centred.tensor, centred.tensor], x.shape)
    variance = graph.add("ReduceMean", [squares.tensor], small, {"axes": axes})
    deviation = graph.add("Sqrt", [variance.tensor], small)
    divisor = graph.add("Add", [deviation.tensor, graph.scalar(parameters.number("eps", 1e-9))], small)
    return graph.add("Div", [centred.tensor, divisor.tensor], x.shape)


def normalize(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Division by the Euclidean norm over channels, or over everything, and a trained scale."""
    parameters = layer.parameters("norm_param")
    across = parameters.flag("across_spatial", default=True)
    axes = tuple(range(1, x.rank)) if across else (1,)
    small = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    squares = graph.add("ReduceSumSquare", [x.tensor], small, {"axes": axes})
    shifted = graph.add("Add", [squares.tensor, graph.scalar(parameters.number("eps", 1e-10))], small)
    norm = graph.add("Sqrt", [shifted.tensor], small)
    unit = graph.add("Div", [x.tensor, norm.tensor], x.shape)
    scales = weights_of(layer, 0).reshape(-1)
    shape = (1,) if scales.size == 1 else (scales.size, *[1] * (x.rank - 2))
    return graph.add("Mul", [unit.tensor, graph.constant(scales.reshape(shape))], x.shape)

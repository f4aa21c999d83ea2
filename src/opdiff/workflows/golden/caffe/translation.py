"""Caffe nets as ONNX models, layer by layer, under the names of the layers.

A blob name stands for the output of the layer that wrote it last, so that in-place layers need no change: each has an
output of its own. A layer without translation, and what depends on it, gets no golden data.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError, UsageError
from opdiff.core.onnx_encoder import FLOAT
from opdiff.core.reasons import because
from opdiff.workflows.golden.caffe import arithmetic_layers as arithmetic
from opdiff.workflows.golden.caffe import quantized_layers as quantized
from opdiff.workflows.golden.caffe import spatial_layers as spatial
from opdiff.workflows.golden.caffe.builder import Blob, GraphBuilder, InvalidLayerError, UnsupportedLayerError
from opdiff.workflows.golden.caffe.net import read_net
from opdiff.workflows.golden.computing import compute
from opdiff.workflows.golden.model_inputs import free_dimensions
from opdiff.workflows.golden.onnx_model import InputSpec
from opdiff.workflows.golden.original import Omitted, Operator, OriginalModel, PreparedModel
from opdiff.workflows.golden.runtime import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.caffe.net import Layer, Net
    from opdiff.workflows.golden.model_inputs import ModelInput

    OneInput = Callable[[GraphBuilder, Layer, Blob], Blob | list[Blob]]
    AllInputs = Callable[[GraphBuilder, Layer, Sequence[Blob]], Blob]


def _same(op_type: str) -> OneInput:
    """Return the translation of a layer without parameters."""
    return lambda graph, _layer, x: graph.add(op_type, x)


ONE_INPUT: dict[str, OneInput] = {
    "AbsVal": _same("Abs"), "ArgMax": arithmetic.arg_max, "BNLL": _same("Softplus"), "BatchNorm": arithmetic.batch_norm,
    "Clip": arithmetic.clip, "Convolution": spatial.convolution, "ConvolutionDepthwise": spatial.depthwise_convolution,
    "DeQuant": quantized.dequant, "Deconvolution": spatial.deconvolution,
    "DepthwiseConvolution": spatial.depthwise_convolution,
    "Dropout": spatial.copies, "ELU": arithmetic.elu, "Exp": arithmetic.exponential, "Flatten": spatial.flatten,
    "InnerProduct": arithmetic.inner_product, "Interp": spatial.interpolation, "LRN": spatial.lrn,
    "Log": arithmetic.logarithm, "MVN": arithmetic.mvn, "Normalize": arithmetic.normalize, "PReLU": arithmetic.prelu,
    "Permute": spatial.permute, "Pooling": spatial.pooling, "Power": arithmetic.power,
    "Quant": quantized.quant, "ReLU": arithmetic.relu,
    "ReLU6": arithmetic.relu6, "Reduction": arithmetic.reduction, "Reshape": spatial.reshape,
    "ShuffleChannel": spatial.shuffle, "Sigmoid": _same("Sigmoid"), "Slice": spatial.slices,
    "Softmax": arithmetic.softmax, "Split": spatial.copies, "Swish": arithmetic.swish, "TanH": _same("Tanh"),
    "Threshold": arithmetic.threshold, "Tile": spatial.tile, "Upsample": spatial.upsample,
}  # fmt: skip
"""Layers with one bottom, by type."""

ALL_INPUTS: dict[str, AllInputs] = {
    "Bias": arithmetic.bias, "Concat": spatial.concat, "Crop": spatial.crop, "Eltwise": arithmetic.eltwise,
    "Scale": arithmetic.scale,
}  # fmt: skip
"""Layers that may have several bottoms, by type."""


class CaffeOriginal:
    """A Caffe net as an ONNX model; `shapes` replace the shapes of the prototxt."""

    def __init__(self, prototxt: str, caffemodel: str, given_shapes: Mapping[str, Shape]) -> None:
        net = read_net(prototxt, caffemodel)
        quantized.refuse_unfit(net, (prototxt, caffemodel))
        self.original = _translate(net, _with_shapes(net, given_shapes), (prototxt, caffemodel))

    @property
    def operator_names(self) -> frozenset[str]:
        """Names of all layers."""
        names = (operator.name for operator in self.original.operators)
        return frozenset((*names, *(item.name for item in self.original.omitted)))

    def prepare(self, inputs: Sequence[ModelInput], libraries: Sequence[str]) -> PreparedModel:
        """Return the net with its inputs."""
        runner = Runner(inputs, free_dimensions(self.original.inputs, inputs), libraries)
        return PreparedModel(self.original, runner.engine, partial(compute, self.original, runner))


def _with_shapes(net: Net, given: Mapping[str, Shape]) -> dict[str, Shape]:
    inputs = net.inputs
    if "" in given and len(inputs) == 1:
        return dict.fromkeys(inputs, given[""])
    found = {name: given.get(name, shape) for name, shape in inputs.items()}
    missing = next((name for name, shape in found.items() if not shape), None)
    if missing is not None or not found:
        raise UsageError(because("golden.prototxt_shape", name=missing or ""))
    return found


def _translate(net: Net, inputs: dict[str, Shape], files: tuple[str, str]) -> OriginalModel:
    graph = GraphBuilder()
    blobs: dict[str, Blob | Reason] = {name: Blob(name, shape) for name, shape in inputs.items()}
    operators, omitted = [], []
    for layer in net.layers:
        try:
            tops = _translate_layer(graph, layer, blobs)
        except InvalidLayerError as error:
            names = {"layer": layer.name, "type": layer.type}
            raise InputError(files[0], because("golden.layer_invalid", **names, problem=error.reason)) from error
        if isinstance(tops, list):
            operators.append(Operator(layer.name, layer.type, tuple(blob.tensor for blob in tops)))
            blobs |= dict(zip(layer.tops, tops, strict=True))
        else:
            omitted.append(Omitted(layer.name, tops))
            blobs |= dict.fromkeys(layer.tops, because("golden.after_layer", layer=layer.name))
    specs = tuple(InputSpec(name, FLOAT, shape) for name, shape in inputs.items())
    last = [operator.outputs[0] for operator in operators if operator.outputs][-1:]
    folder = os.path.dirname(os.path.abspath(files[0]))
    data = graph.model(inputs, last)
    return OriginalModel(files[0], files, data, folder, specs, tuple(last), tuple(operators), omitted=tuple(omitted))


def _translate_layer(graph: GraphBuilder, layer: Layer, blobs: Mapping[str, Blob | Reason]) -> list[Blob] | Reason:
    """Return the tops of a layer, or the reason why they cannot be computed."""
    inputs = []
    for name in layer.bottoms:
        blob = blobs.get(name, because("golden.no_such_blob", blob=name))
        if not isinstance(blob, Blob):
            return blob
        inputs.append(blob)
    try:
        tops = _tops(graph, layer, inputs)
    except (UnsupportedLayerError, ValueError, ZeroDivisionError, IndexError) as problem:
        return because("golden.layer_unsupported", type=layer.type, problem=str(problem))
    if len(tops) != len(layer.tops):
        return because("golden.layer_unsupported", type=layer.type, problem=f"{len(layer.tops)} tops")
    return tops


def _tops(graph: GraphBuilder, layer: Layer, inputs: list[Blob]) -> list[Blob]:
    if layer.type == "Silence":
        return []
    one, several = ONE_INPUT.get(layer.type), ALL_INPUTS.get(layer.type)
    if one is not None and len(inputs) == 1:
        made = one(graph, layer, inputs[0])
    elif several is not None and inputs:
        made = several(graph, layer, inputs)
    else:
        raise UnsupportedLayerError(f"{len(inputs)} inputs" if one else "no translation")
    return made if isinstance(made, list) else [made]

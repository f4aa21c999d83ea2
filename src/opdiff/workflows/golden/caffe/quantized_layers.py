"""Layers that AMCT adds to a net: `Quant` and `DeQuant` of fake-quantized nets, and those that cannot be run.

The formulas are those of AMCT's own Caffe layers. All values stay float32; rounding is that of C's `round`, half away
from zero.
"""

from __future__ import annotations

import os
from math import inf
from sys import float_info
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.workflows.golden.caffe.builder import InvalidLayerError

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.workflows.golden.caffe.builder import Blob, GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer, Net

# Of files that AMCT writes on the way to a quantized net.
_INTERMEDIATE_TYPES = frozenset({"AntiQuant", "IFMR", "SearchN", "RetrainDataQuant", "RetrainWeightQuant"})
_QUANTIZATION_TYPES = frozenset({"Quant", "DeQuant"})
_DEPLOYED_NAMES = {
    "_deploy_model.prototxt": "_fake_quant_model.prototxt",
    "_deploy_weights.caffemodel": "_fake_quant_weights.caffemodel",
}
_DEQUANT_BLOBS = 3
_MAX_SHIFT = 16
# Layers of an LSTM have one parameter for each of the four gates, which lie one behind the other along this axis.
_LSTM_AXES = {"LSTM_X": 2, "LSTM_H": 2, "LSTM_S": 1}
_LSTM_GATES = 4


def refuse_unfit(net: Net, files: tuple[str, str]) -> None:
    """Refuse nets of AMCT that are not meant to be run on a CPU.

    Raises:
        InputError: the net is the deployed one, or an intermediate one.
    """
    for layer in net.layers:
        if layer.type in _INTERMEDIATE_TYPES:
            raise InputError(files[0], because("golden.intermediate_net", layer=layer.name, type=layer.type))
    quantized = {top for layer in net.layers if layer.type == "Quant" for top in layer.tops}
    if not any(layer.type in _QUANTIZATION_TYPES for layer in net.layers):
        return
    for path in files:
        name = os.path.basename(path)
        for ending, wanted in _DEPLOYED_NAMES.items():
            if name.endswith(ending):
                raise InputError(path, because("golden.deployed_net", file=f"{name.removesuffix(ending)}{wanted}"))
    for layer in net.layers:
        if quantized.intersection(layer.bottoms) and layer.blobs and _holds_steps(layer.blobs[0]):
            raise InputError(files[1], because("golden.deployed_weights", layer=layer.name))


def _holds_steps(weights: AnyArray) -> bool:
    """Return whether weights are 8-bit integers, as in a deployed net, whatever its files are called."""
    return bool(np.abs(weights).max(initial=0) > 1 and (weights == np.rint(weights)).all())


def quant(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Fake quantization: the nearest of 256 multiples of 1 / scale."""
    parameters = layer.parameters("quant_param")
    if not parameters.has("scale"):
        raise InvalidLayerError(because("golden.scale_missing"))
    scale = _checked_scale(parameters.number("scale", 0.0))
    offset = graph.scalar(parameters.signed_byte("offset"))
    whole = _rounded(graph, graph.add("Mul", x, graph.scalar(scale)))
    steps = graph.add("Clip", graph.add("Add", whole, offset), graph.scalar(-128.0), graph.scalar(127.0))
    return graph.add("Div", graph.add("Sub", steps, offset), graph.scalar(scale))


def dequant(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Rounding to 16 bits of the steps that a sum consists of; a copy if the sum is not shifted."""
    scales, shifts = _dequant_parameters(layer)
    if not shifts.any():
        return graph.add("Identity", x)
    if not shifts.all():
        raise InvalidLayerError(because("golden.shifts_mixed"))
    if shifts.min() < 1 or shifts.max() > _MAX_SHIFT:
        raise InvalidLayerError(because("golden.shift_range", limit=_MAX_SHIFT))
    for value in scales:
        _checked_scale(float(value))
    step, power = (_along_channels(graph, layer, x, values) for values in (scales, np.exp2(shifts)))
    shifted = graph.add("Div", _rounded(graph, graph.add("Div", x, step)), power)
    kept = graph.add("Clip", _rounded(graph, shifted), graph.scalar(-32768.0), graph.scalar(32767.0))
    return graph.add("Mul", graph.add("Mul", kept, step), power)


def _dequant_parameters(layer: Layer) -> tuple[AnyArray, AnyArray]:
    """Return scales and shifts, one for each channel or one for all.

    They are the first two of three blobs of the caffemodel, or parameters in the prototxt. The third is the offset of
    the weights, which the computation does not use.
    """
    if len(layer.blobs) == _DEQUANT_BLOBS:
        scales, shifts = (blob.reshape(-1) for blob in layer.blobs[:2])
    else:
        parameters = layer.parameters("dequant_param")
        scales, shifts = (np.array(parameters.numbers(name), np.float32) for name in ("deqscale", "shift_bit"))
    if not scales.size or scales.size != shifts.size:
        raise InvalidLayerError(because("golden.dequant_sizes", scales=scales.size, shifts=shifts.size))
    return scales, shifts


def _along_channels(graph: GraphBuilder, layer: Layer, x: Blob, values: AnyArray) -> str:
    """Add one value for each channel, or one for all."""
    lstm_axis = _LSTM_AXES.get(layer.parameters("dequant_param").word("layer_type", ""))
    axis = x.axis(1 if lstm_axis is None else lstm_axis)
    extent = x.shape[axis]
    if values.size not in (1, extent if lstm_axis is None else _LSTM_GATES) or extent % values.size:
        raise InvalidLayerError(because("golden.dequant_channels", count=values.size, channels=extent))
    repeated = np.repeat(values, extent // values.size).astype(np.float32)
    return graph.constant(repeated.reshape(extent, *[1] * (x.rank - axis - 1)))


def _checked_scale(scale: float) -> float:
    # AMCT's layer refuses smaller ones, too; not a number fails as well.
    if not float_info.epsilon < scale < inf:
        raise InvalidLayerError(because("golden.scale_value", scale=scale))
    return scale


def _rounded(graph: GraphBuilder, x: Blob) -> Blob:
    """Add C's `round`. The fraction is exact; floor(|x| + 0.5) would round 0.49999997 up."""
    size = graph.add("Abs", x)
    whole = graph.add("Floor", size)
    is_up = graph.add("GreaterOrEqual", graph.add("Sub", size, whole), graph.scalar(0.5))
    return graph.add("Mul", graph.add("Sign", x), graph.add("Add", whole, graph.add("Cast", is_up, to=1)))

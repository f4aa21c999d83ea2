"""Caffe files of a sample network: its prototxt and its caffemodel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import wire
from opdiff.sample import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape
    from opdiff.sample.graph import GoldenOp, Kernel, Port

_TYPES: dict[Kernel, tuple[str, str]] = {
    ops.relu: ("ReLU", ""),
    ops.add: ("Eltwise", ""),
    ops.max_pool: ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 1 pad: 1 }"),
    ops.average_all: ("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
    ops.flatten: ("Flatten", ""),
    ops.softmax: ("Softmax", ""),
}
# Fields of a caffemodel.
_NET_LAYER = 100
_LAYER_NAME, _LAYER_TYPE, _LAYER_BLOB = 1, 2, 7
_BLOB_DATA, _BLOB_SHAPE, _SHAPE_DIM = 5, 7, 1


@dataclass(frozen=True, slots=True, eq=False)
class CaffeLayer:
    """A layer with one top, which has its name.

    Attributes:
        parameters: its parameters as the prototxt has them.
        blobs: its weights.
    """

    name: str
    type: str
    inputs: tuple[Port, ...]
    parameters: str = ""
    blobs: tuple[AnyArray, ...] = ()


def layer_of(op: GoldenOp) -> CaffeLayer:
    """Return the layer that computes an operator."""
    if op.function in _TYPES:
        return CaffeLayer(op.name, _TYPES[op.function][0], op.inputs, _TYPES[op.function][1])
    weight, bias = op.parameters["weight"], op.parameters["bias"]
    if op.function is ops.dense:
        parameters = f"inner_product_param {{ num_output: {len(bias)} }}"
        return CaffeLayer(op.name, "InnerProduct", op.inputs, parameters, (weight.T, bias))
    size = weight.shape[2]
    parameters = f"convolution_param {{ num_output: {len(bias)} kernel_size: {size} pad: {size // 2} }}"
    return CaffeLayer(op.name, "Convolution", op.inputs, parameters, (weight, bias))


def encode_prototxt(layers: Iterable[CaffeLayer], image_name: str, image_shape: Shape) -> bytes:
    """Return the prototxt of a net with one input."""
    dims = " ".join(f"dim: {extent}" for extent in image_shape)
    image = CaffeLayer(image_name, "Input", (), f"input_param {{ shape {{ {dims} }} }}")
    return "".join(map(_text, (image, *layers))).encode()


def _text(layer: CaffeLayer) -> str:
    fields = [f'name: "{layer.name}"', f'type: "{layer.type}"', *(f'bottom: "{port.op}"' for port in layer.inputs)]
    fields += [f'top: "{layer.name}"', *([layer.parameters] if layer.parameters else [])]
    return "layer {\n" + "".join(f"  {field}\n" for field in fields) + "}\n"


def encode_caffemodel(layers: Sequence[CaffeLayer]) -> bytes:
    """Return the weights of all layers in single precision."""
    return b"".join(wire.block(_NET_LAYER, _encode_layer(layer)) for layer in layers)


def _encode_layer(layer: CaffeLayer) -> bytes:
    blobs = [
        wire.text(_BLOB_DATA, array.astype(np.dtype("<f4")).tobytes())
        + wire.block(_BLOB_SHAPE, wire.packed(_SHAPE_DIM, array.shape))
        for array in layer.blobs
    ]
    names = wire.text(_LAYER_NAME, layer.name) + wire.text(_LAYER_TYPE, layer.type)
    return names + b"".join(wire.block(_LAYER_BLOB, blob) for blob in blobs)

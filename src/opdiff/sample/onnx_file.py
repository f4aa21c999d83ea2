"""ONNX file of a sample network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import onnx_encoder as onnx
from opdiff.sample import ops
from opdiff.sample.golden import run_golden
from opdiff.sample.graph import Port

if TYPE_CHECKING:
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.sample.graph import GoldenOp, Kernel, SampleNetwork

_OPSET = 13
_TYPES: dict[Kernel, str] = {
    ops.conv: "Conv",
    ops.dense: "Gemm",
    ops.relu: "Relu",
    ops.add: "Add",
    ops.average_all: "GlobalAveragePool",
    ops.flatten: "Flatten",
    ops.softmax: "Softmax",
}


def encode_onnx(network: SampleNetwork) -> bytes:
    """Return the model, whose output is that of the last operator."""
    last = network.golden[-1].name
    parts = [onnx.graph_input(network.image_name, network.image.shape)]
    parts += [part for op in network.golden for part in _node(op)]
    return onnx.model([*parts, onnx.graph_output(last, run_golden(network)[Port(last)].shape)], _OPSET)


def _node(op: GoldenOp) -> list[bytes]:
    """Return a node, whose output has its name, and its weights."""
    inputs = [port.op for port in op.inputs]
    parameters = op.parameters
    weights = {f"{op.name}.{name}": parameters[name] for name in ("weight", "bias") if name in parameters}
    attributes: dict[str, Attribute] = {}
    if op.function is ops.conv:
        height, width = parameters["weight"].shape[2:]
        stride = parameters["stride"]
        pads = (height // 2, width // 2) * 2
        attributes = {"kernel_shape": (height, width), "strides": (stride, stride), "pads": pads}
    node = onnx.node(_TYPES[op.function], [*inputs, *weights], [op.name], attributes, name=op.name)
    return [node, *(onnx.initializer(name, array.astype(np.float32)) for name, array in weights.items())]

"""Builder of networks in two forms: layers of the original model and their compiled device operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.device import rounded
from opdiff.sample.graph import Const, DeviceOp, GoldenOp, Output, Port

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.graph import Attributes, Kernel

_ACTIVATIONS: dict[str, Kernel] = {
    "relu": ops.relu,
    "clip": ops.relu6,
    "sigmoid": ops.sigmoid,
    "gelu": ops.gelu,
    "": ops.identity,
}

# Parameters of types that all layers of the type have.
_ATTRIBUTES: dict[str, Attributes] = {
    "ConcatD": {"concat_dim": 1},
    "MaxPoolV3": {"ksize": (1, 1, 3, 3), "strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "data_format": "NCHW"},
    "ResizeBilinearV2": {"align_corners": False, "half_pixel_centers": True},
    "SoftmaxV2": {"axes": (-1,)},
    "SplitD": {"split_dim": 1},
}

# Names of the compiler's fusion passes, by which they can be switched off.
_FOLD_NORM = "ConvBatchnormFusionPass"
_FUSE_CONV = "TbeCommonRules2FusionPass"
_FUSE_DEPTHWISE = "TbeDepthwiseConvElemwiseFusionPass"
_FUSE_ELEMENTWISE = "TbeEltwiseFusionPass"
_FUSE_MATMUL = "ATbeMatmulElemwiseFusionPass"


@dataclass(frozen=True, slots=True)
class Wire:
    """A tensor between layers, in both forms; `width` is the number of channels or columns."""

    golden: Port
    device: Port
    width: int
    dtype: DType = dtypes.FLOAT16
    layout: str = "NC1HWC0"


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator that is the same in both forms.

    Attributes:
        widths: widths of the outputs; empty for one output as wide as the first input.
        types: element types of the outputs; empty for that of the first input.
        layout: layout of the outputs on the device; empty for that of the first input.
        alias: name on the device, if the compiler renamed it.
        attributes: parameters of the operator on the device; empty for those of its type.
    """

    name: str
    type: str
    kernel: Kernel
    widths: tuple[int, ...] = ()
    types: tuple[DType, ...] = ()
    layout: str = ""
    alias: str = ""
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution of the original model with its normalization and activation.

    Attributes:
        channels: output channels.
        size: side of the square kernel.
        norm: whether a batch normalization follows.
        activation: "relu", "clip" or "sigmoid", or empty.
        gain: factor on weights that would keep values at the order of 1.
        dtype: element type of the output on the device; `None` for that of the network.
    """

    channels: int
    size: int = 3
    stride: int = 1
    groups: int = 1
    norm: bool = True
    activation: str = ""
    gain: float = 1.0
    dtype: DType | None = None


class NetworkBuilder:
    """Both forms of a network under construction."""

    def __init__(self, seed: int, dtype: DType = dtypes.FLOAT16, axes: str = "NCHW") -> None:
        self.dtype = dtype
        self.axes = axes
        self.golden: list[GoldenOp] = []
        self.device: list[DeviceOp] = []
        self._random = np.random.default_rng(seed)
        self._inserted = 0
        self._consts = 0

    def conv(self, x: Wire, name: str, spec: Conv) -> Wire:
        """Add a convolution; the device fuses its normalization and activation."""
        weight, factor, offset = self._conv_weights(x.width, spec)
        how = partial(ops.conv, stride=spec.stride, groups=spec.groups)
        if spec.norm:
            steps = {name: partial(how, weight=weight)}
            steps[f"{name}_bn"] = partial(ops.batch_norm, factor=factor, offset=offset)
        else:
            steps = {name: partial(how, weight=weight, bias=offset)}
        originals = self._chain((x.golden,), steps | _activation(name, spec.activation))
        fuse = _FUSE_DEPTHWISE if spec.groups == x.width else _FUSE_CONV
        op = DeviceOp(
            name=name + (originals[-1] if spec.activation else ""),
            type="DepthwiseConv2D" if spec.groups == x.width else "Conv2D",
            inputs=(x.device,),
            kernel=partial(how, activation=_ACTIVATIONS[spec.activation]),
            outputs=(Output(spec.dtype or self.dtype, "NC1HWC0", Port(originals[-1])),),
            consts=(
                self._const(weight * factor[:, None, None, None], "FRACTAL_Z", spec.groups),
                self._const(offset, "ND"),
            ),
            originals=originals,
            graph_pass=_FOLD_NORM if spec.norm else "",
            buffer_pass=fuse if spec.activation else "",
            attributes=_window(spec, self.axes),
        )
        return self._emit(op, x.golden, (spec.channels,))[0]

    def dense(self, x: Wire, name: str, columns: int, activation: str = "") -> Wire:
        """Add a fully connected layer; the device fuses its activation."""
        weight = self._random.normal(0, sqrt(2 / x.width), (x.width, columns))
        bias = self._random.normal(0, 0.1, columns)
        steps = {name: partial(ops.dense, weight=weight, bias=bias)}
        originals = self._chain((x.golden,), steps | _activation(name, activation))
        op = DeviceOp(
            name="".join(originals),
            type="MatMulV2",
            inputs=(x.device,),
            kernel=partial(ops.dense, activation=_ACTIVATIONS[activation]),
            outputs=(Output(x.dtype, x.layout, Port(originals[-1])),),
            consts=(self._const(weight, "FRACTAL_NZ"), self._const(bias, "ND")),
            originals=originals,
            buffer_pass=_FUSE_MATMUL if activation else "",
            attributes={"transpose_x1": False, "transpose_x2": False},
        )
        return self._emit(op, x.golden, (columns,))[0]

    def add(self, x: Wire, y: Wire, name: str, activation: str = "") -> Wire:
        """Add a sum; the device fuses its activation."""
        originals = self._chain((x.golden, y.golden), {name: ops.add} | _activation(name, activation))
        op = DeviceOp(
            name="".join(originals),
            type="Add",
            inputs=(x.device, y.device),
            kernel=partial(ops.add, activation=_ACTIVATIONS[activation]),
            outputs=(Output(x.dtype, x.layout, Port(originals[-1])),),
            originals=originals,
            buffer_pass=_FUSE_ELEMENTWISE if activation else "",
        )
        return self._emit(op, x.golden, (x.width,))[0]

    def apply(self, layer: Layer, *inputs: Wire) -> tuple[Wire, ...]:
        """Add an operator that is the same in both forms; return its outputs."""
        first = inputs[0]
        self._chain(tuple(wire.golden for wire in inputs), {layer.name: layer.kernel})
        widths = layer.widths or (first.width,)
        types = layer.types or (first.dtype,) * len(widths)
        layout = layer.layout or first.layout
        outputs = tuple(Output(dtype, layout, Port(layer.name, index)) for index, dtype in enumerate(types))
        ports = tuple(wire.device for wire in inputs)
        op = DeviceOp(
            layer.alias or layer.name, layer.type, ports, layer.kernel, outputs, originals=(layer.name,),
            attributes=layer.attributes or _ATTRIBUTES.get(layer.type, {}),
        )  # fmt: skip
        return self._emit(op, first.golden, widths)

    def fuse(self, x: Wire, steps: dict[str, Kernel], op_type: str, kernel: Kernel) -> Wire:
        """Add a chain of original operators, by name, that is a single operator on the device."""
        originals = self._chain((x.golden,), steps)
        outputs = (Output(x.dtype, x.layout, Port(originals[-1])),)
        op = DeviceOp(originals[-1], op_type, (x.device,), kernel, outputs, originals=originals)
        return self._emit(op, x.golden, (x.width,))[0]

    def hard_swish(self, x: Wire, name: str) -> Wire:
        """Add one original operator that is two operators on the device."""
        originals = self._chain((x.golden,), {name: ops.hard_swish})
        inner, whole = (Output(x.dtype, x.layout), Output(x.dtype, x.layout, Port(name)))
        gate, product = f"{name}_sigmoid", f"{name}_mul"
        first = DeviceOp(gate, "HardSigmoid", (x.device,), ops.hard_sigmoid, (inner,), (), originals, is_part=True)
        ports = (x.device, Port(gate))
        second = DeviceOp(product, "Mul", ports, ops.multiply, (whole,), (), originals, is_part=True)
        self._emit(first, x.golden, (x.width,))
        return self._emit(second, x.golden, (x.width,))[0]

    def store_as(self, x: Wire, layout: str) -> Wire:
        """Convert the layout by an operator that the compiler inserts."""
        return self._insert(x, "TransData", Output(x.dtype, layout))

    def cast(self, x: Wire, dtype: DType) -> Wire:
        """Convert the element type by an operator that the compiler inserts."""
        return self._insert(x, "Cast", Output(dtype, x.layout))

    def _insert(self, x: Wire, op_type: str, output: Output) -> Wire:
        op = DeviceOp(f"trans_{op_type}_{self._inserted}", op_type, (x.device,), ops.identity, (output,))
        self._inserted += 1
        return self._emit(op, x.golden, (x.width,))[0]

    def _chain(self, inputs: tuple[Port, ...], steps: dict[str, Kernel]) -> tuple[str, ...]:
        for name, kernel in steps.items():
            self.golden.append(GoldenOp(name, inputs, kernel))
            inputs = (Port(name),)
        return tuple(steps)

    def _emit(self, op: DeviceOp, golden: Port, widths: tuple[int, ...]) -> tuple[Wire, ...]:
        """Add a device operator; return its outputs, which equal `golden` unless they have an origin of their own."""
        self.device.append(op)
        return tuple(
            Wire(output.origin or golden, port, width, output.dtype, output.layout)
            for output, port, width in zip(op.outputs, op.ports, widths, strict=True)
        )

    def _const(self, array: AnyArray, layout: str, groups: int = 1) -> Const:
        self._consts += 1
        return Const(f"dynamic_const_{self._consts}", rounded(array, self.dtype), self.dtype, layout, groups)

    def _conv_weights(self, width: int, spec: Conv) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Return the weights, and factor and offset per channel of the normalization."""
        shape = (spec.channels, width // spec.groups, spec.size, spec.size)
        spread = spec.gain * sqrt((2 if spec.activation else 1) / (shape[1] * spec.size**2))
        weight = self._random.normal(0, spread, shape)
        factor = self._random.uniform(0.8, 1.2, spec.channels) if spec.norm else np.ones(spec.channels)
        return weight, factor, self._random.normal(0, 0.1, spec.channels)


def _window(spec: Conv, axes: str) -> Attributes:
    """Return the parameters of a convolution that keeps the image size, apart from the stride."""
    return {
        "strides": tuple(spec.stride if label in "HW" else 1 for label in axes),
        "pads": (spec.size // 2,) * 4,
        "dilations": (1, 1, 1, 1),
        "groups": spec.groups,
        "data_format": axes,
    }


def _activation(name: str, kind: str) -> dict[str, Kernel]:
    return {f"{name}_{kind}": _ACTIVATIONS[kind]} if kind else {}

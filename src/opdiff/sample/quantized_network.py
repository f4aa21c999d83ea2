"""A small quantized network in four forms: original, fake-quantized, compiled with fusion off and with fusion on.

    data ─ stem ─ block1 ─ block2 ─ pool ─ tail ─ flatten ─ fc

Convolutions of the blocks and of the tail are quantized. Operators that quantization adds have the names of AMCT
(`conv_quant_layer`, `conv_dequant_layer`) and compute what AMCT's layers do: in the fake-quantized model all values are
floats, which the steps of 8 bits were rounded to. The compiled models were made from the quantized one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.caffe_files import CaffeLayer, layer_of
from opdiff.sample.device import rounded
from opdiff.sample.graph import Const, DeviceOp, GoldenOp, Output, Port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import Kernel

IMAGE = "data"

_SEED = 11
_CLASSES = 10
_SIDE = 16
_INT8_STEPS = 127
_FUSION_PASSES = {"Conv2D": "TbeConvDequantReluFusionPass", "Add": "TbeEltwiseFusionPass"}
_FEATURES = Output(dtypes.FLOAT16, "NC1HWC0")
_MATRIX = Output(dtypes.FLOAT16, "ND")
_INT8, _INT32 = Output(dtypes.INT8, "NC1HWC0"), Output(dtypes.INT32, "NC1HWC0")


class QuantOp(NamedTuple):
    """An operator of the quantized model, as the quantization file lists it."""

    layer: CaffeLayer
    originals: tuple[str, ...]
    origin: Port | None = None


@dataclass(frozen=True, slots=True)
class _Wire:
    """A tensor between layers in all forms; original and quantized model have it under the same name."""

    original: Port
    fusion_off: Port
    fusion_on: Port
    width: int


@dataclass(slots=True)
class ChainForms:
    """The four forms of the network, and the quantization file that connects the first two.

    Attributes:
        image: the input.
        original: operators of the original model.
        quantized: operators of the fake-quantized model.
        quant_rules: the quantization file.
        fusion_off: operators on the device with fusion off.
        fusion_on: operators on the device with fusion on.
    """

    image: AnyArray
    original: list[GoldenOp] = field(default_factory=list)
    quantized: list[GoldenOp] = field(default_factory=list)
    quant_rules: list[QuantOp] = field(default_factory=list)
    fusion_off: list[DeviceOp] = field(default_factory=list)
    fusion_on: list[DeviceOp] = field(default_factory=list)


def build_chain(scale_factors: Mapping[str, float] | None = None) -> ChainForms:
    """Return all forms of the network; the calibrated scales of these layers are multiplied by the factors."""
    builder = _Builder(ops.wave_image(_SEED, _SIDE, (0, 0.5, -0.4)), scale_factors or {})
    x = builder.store(_Wire(Port(IMAGE), Port(IMAGE), Port(IMAGE), 3))
    x = builder.conv(x, "stem", 16)
    for block in ("block1", "block2"):
        inner = builder.quantized_conv(builder.quantized_conv(x, f"{block}/conv1"), f"{block}/conv2")
        x = builder.add(inner, x, f"{block}/add")
    x = builder.pool(x, "pool")
    x = builder.quantized_conv(x, "tail")
    x = builder.flatten(x, "flatten")
    builder.dense(x, "fc", _CLASSES)
    return builder.forms


class _Builder:
    """All forms under construction, with the values of the original model, by which scales are calibrated."""

    def __init__(self, image: AnyArray, scale_factors: Mapping[str, float]) -> None:
        self.forms = ChainForms(image)
        self._scale_factors = scale_factors
        self._random = np.random.default_rng(_SEED)
        self._values: dict[Port, AnyArray] = {Port(IMAGE): image.astype(np.float64)}

    def store(self, x: _Wire) -> _Wire:
        """Convert the input for the device by operators that the compiler inserts."""
        for name, op_type, layout in (("trans_Cast_0", "Cast", "NCHW"), ("trans_TransData_1", "TransData", "NC1HWC0")):
            op = DeviceOp(name, op_type, (x.fusion_off,), ops.identity, (Output(dtypes.FLOAT16, layout),))
            self.forms.fusion_off.append(op)
            self.forms.fusion_on.append(op)
            x = _Wire(x.original, Port(name), Port(name), x.width)
        return x

    def conv(self, x: _Wire, name: str, channels: int) -> _Wire:
        """Add a convolution in float16 with its activation."""
        weight, bias = self._conv_weights(x.width, channels)
        self._add_unchanged(GoldenOp(name, (x.original,), partial(ops.conv, weight=weight, bias=bias)))
        consts = (_const(f"{name}_weight", weight, "FRACTAL_Z"), _const(f"{name}_bias", bias, "ND"))
        return self._add_relu(_device_op((name,), "Conv2D", (x.fusion_off,), ops.conv, consts=consts), (x,), channels)

    def quantized_conv(self, x: _Wire, name: str) -> _Wire:
        """Add an 8-bit convolution with its activation; fusion joins convolution, dequantization and activation."""
        weight, bias = self._conv_weights(x.width, x.width)
        relu, quant, dequant = f"{name}_relu", f"{name}_quant_layer", f"{name}_dequant_layer"
        self._add_original(GoldenOp(name, (x.original,), partial(ops.conv, weight=weight, bias=bias)))
        self._add_original(GoldenOp(relu, (Port(name),), ops.relu))
        largest = float(np.abs(self._values[x.original]).max()) * self._scale_factors.get(name, 1.0)
        scale = np.float32(_INT8_STEPS / largest)
        step = 1 / float(scale)
        steps = np.abs(weight).max(axis=(1, 2, 3)) / _INT8_STEPS
        whole: AnyArray = np.rint(weight / steps.reshape(-1, 1, 1, 1))
        to_int8 = partial(ops.quantize, scale=step)
        to_float = partial(ops.dequantize, scale=step * steps, bias=bias)
        fake: AnyArray = _single(whole * steps.reshape(-1, 1, 1, 1))
        layer = CaffeLayer(quant, "Quant", (x.original,), f'quant_param {{ scale: {scale} offset: "\\000" }}')
        self._add_quantized(QuantOp(layer, (name,)), partial(ops.fake_quantize, scale=step))
        conv = GoldenOp(name, (Port(quant),), partial(ops.conv, weight=fake, bias=bias))
        self._add_quantized(QuantOp(layer_of(conv), (name,)), conv.kernel)
        zeros = np.zeros_like(steps)
        blobs = (step * steps, zeros, zeros)  # nothing is shifted, so that the layer copies
        layer = CaffeLayer(dequant, "DeQuant", (Port(name),), "dequant_param { channel_wise: true }", blobs)
        self._add_quantized(QuantOp(layer, (name,), Port(name)), ops.identity)
        self._add_quantized(QuantOp(CaffeLayer(relu, "ReLU", (Port(dequant),)), (relu,), Port(relu)), ops.relu)
        consts = (Const(f"{name}_weight", whole.astype(np.int8), dtypes.INT8, "FRACTAL_Z"),)
        self.forms.fusion_off += [
            _device_op((quant,), "AscendQuant", (x.fusion_off,), to_int8, _INT8),
            _device_op((name,), "Conv2D", (Port(quant),), ops.conv, _INT32, consts),
            _device_op((dequant,), "AscendDequant", (Port(name),), to_float),
            _device_op((relu,), "Relu", (Port(dequant),), ops.relu),
        ]
        kernel = partial(_conv_dequant_relu, to_float)
        fused = _device_op((name, dequant, relu), "Conv2D", (Port(quant),), kernel, consts=consts)
        self.forms.fusion_on += [_device_op((quant,), "AscendQuant", (x.fusion_on,), to_int8, _INT8), fused]
        return _Wire(Port(relu), Port(relu), Port(fused.name), x.width)

    def add(self, x: _Wire, y: _Wire, name: str) -> _Wire:
        """Add a sum with its activation."""
        self._add_unchanged(GoldenOp(name, (x.original, y.original), ops.add))
        return self._add_relu(_device_op((name,), "Add", (x.fusion_off, y.fusion_off), ops.add), (x, y), x.width)

    def pool(self, x: _Wire, name: str) -> _Wire:
        """Add a pooling."""
        self._add_unchanged(GoldenOp(name, (x.original,), ops.max_pool))
        return self._add_alone(_device_op((name,), "MaxPoolV3", (x.fusion_off,), ops.max_pool), x, x.width)

    def flatten(self, x: _Wire, name: str) -> _Wire:
        """Add one row for each image."""
        self._add_unchanged(GoldenOp(name, (x.original,), ops.flatten))
        op = _device_op((name,), "Flatten", (x.fusion_off,), ops.flatten, _MATRIX)
        return self._add_alone(op, x, x.width * _SIDE * _SIDE)

    def dense(self, x: _Wire, name: str, columns: int) -> _Wire:
        """Add a fully connected layer in float16."""
        weight = _single(self._random.normal(0, sqrt(2 / x.width), (x.width, columns)))
        bias = _single(self._random.normal(0, 0.1, columns))
        self._add_unchanged(GoldenOp(name, (x.original,), partial(ops.dense, weight=weight, bias=bias)))
        consts = (_const(f"{name}_weight", weight, "ND"), _const(f"{name}_bias", bias, "ND"))
        op = _device_op((name,), "MatMulV2", (x.fusion_off,), ops.dense, _MATRIX, consts)
        return self._add_alone(op, x, columns)

    def _add_alone(self, op: DeviceOp, x: _Wire, width: int) -> _Wire:
        """Add an operator of the device that fusion does not change."""
        self.forms.fusion_off.append(op)
        self.forms.fusion_on.append(replace(op, inputs=(x.fusion_on,)))
        return _Wire(Port(op.name), Port(op.name), Port(op.name), width)

    def _add_relu(self, op: DeviceOp, inputs: tuple[_Wire, ...], width: int) -> _Wire:
        """Add an operator of the device with its activation, which fusion joins."""
        relu = f"{op.name}_relu"
        self._add_unchanged(GoldenOp(relu, (Port(op.name),), ops.relu))
        self.forms.fusion_off += [op, _device_op((relu,), "Relu", (Port(op.name),), ops.relu)]
        kernel, ports = partial(op.kernel, activation=ops.relu), tuple(wire.fusion_on for wire in inputs)
        fused = _device_op((op.name, relu), op.type, ports, kernel, consts=op.consts)
        self.forms.fusion_on.append(fused)
        return _Wire(Port(relu), Port(relu), Port(fused.name), width)

    def _add_unchanged(self, op: GoldenOp) -> None:
        """Add an operator that quantization does not change."""
        self._add_original(op)
        self._add_quantized(QuantOp(layer_of(op), (op.name,), Port(op.name)), op.kernel)

    def _add_original(self, op: GoldenOp) -> None:
        self.forms.original.append(op)
        self._values[Port(op.name)] = op.kernel(*(self._values[port] for port in op.inputs))

    def _add_quantized(self, op: QuantOp, kernel: Kernel) -> None:
        self.forms.quant_rules.append(op)
        self.forms.quantized.append(GoldenOp(op.layer.name, op.layer.inputs, kernel))

    def _conv_weights(self, width: int, channels: int) -> tuple[AnyArray, AnyArray]:
        weight = self._random.normal(0, sqrt(2 / (width * 9)), (channels, width, 3, 3))
        return _single(weight), _single(self._random.normal(0, 0.1, channels))


def _single(array: AnyArray) -> AnyArray:
    """Return the nearest numbers in single precision, which files have; as float64 for the kernels."""
    return array.astype(np.float32).astype(np.float64)


def _device_op(
    originals: tuple[str, ...],
    op_type: str,
    inputs: tuple[Port, ...],
    kernel: Kernel,
    stored: Output = _FEATURES,
    consts: tuple[Const, ...] = (),
) -> DeviceOp:
    """Return the operator of the device that computes an original operator, or several that are fused."""
    outputs = (replace(stored, origin=Port(originals[-1])),)
    fusion_pass = _FUSION_PASSES[op_type] if len(originals) > 1 else ""
    return DeviceOp("".join(originals), op_type, inputs, kernel, outputs, consts, originals, buffer_pass=fusion_pass)


def _conv_dequant_relu(to_float: Kernel, x: AnyArray, weight: AnyArray) -> AnyArray:
    return ops.relu(to_float(ops.conv(x, weight)))


def _const(name: str, array: AnyArray, layout: str) -> Const:
    return Const(name, rounded(array, dtypes.FLOAT16), dtypes.FLOAT16, layout)

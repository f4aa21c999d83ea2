"""Networks for fault injection: convolutional, transformer and quantized, of any seed and element type."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from fault_injection import kernels
from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.golden import run_golden
from opdiff.sample.graph import Const, DeviceOp, Output, Port, SampleNetwork
from opdiff.sample.network_builder import Conv, Layer, NetworkBuilder, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

INPUT = "images"

TOKENS, COLUMNS, _VOCABULARY, _HEADS = 12, 32, 50, 2


def residual(seed: int, dtype: DType) -> SampleNetwork:
    """Convolutions with residual sums, a concatenated branch, and a classifier."""
    net = NetworkBuilder(seed, dtype)
    image = image_of(seed)
    x = image_wire(net, dtype)
    x = net.conv(x, "stem", Conv(16, stride=2, activation="relu"))
    for number in range(3):
        inner = net.conv(x, f"block{number}/conv1", Conv(16, activation="relu"))
        inner = net.conv(inner, f"block{number}/conv2", Conv(16))
        x = net.add(inner, x, f"block{number}/add", "relu")
    left = net.conv(x, "left/conv", Conv(16, size=1, activation="relu"))
    (right,) = net.apply(Layer("right/pool", "MaxPoolV3", ops.max_pool), x)
    (x,) = net.apply(Layer("concat", "ConcatD", ops.concat, (32,)), left, right)
    x = net.conv(x, "merge", Conv(32, activation="relu"))
    x = flat_means(net, x)
    x = net.dense(x, "fc1", 64, "relu")
    x = net.dense(x, "fc2", 20)
    (x,) = net.apply(Layer("softmax", "SoftmaxV2", ops.softmax), x)
    return network_of(net, image, x)


def transformer(seed: int, dtype: DType) -> SampleNetwork:
    """An embedding and two pre-norm layers of attention and feed-forward parts."""
    net = NetworkBuilder(seed, dtype)
    random = np.random.default_rng(seed + 1)
    ids: AnyArray = random.integers(0, _VOCABULARY, (1, TOKENS)).astype(np.float32)
    table = random.normal(0, 1, (_VOCABULARY, COLUMNS))
    start = Wire(Port(INPUT), Port(INPUT), COLUMNS, dtypes.FLOAT32, "ND")
    look_up = Layer("embed", "GatherV2", partial(kernels.look_up, table=table), (COLUMNS,), (dtype,), "ND")
    (x,) = net.apply(look_up, start)
    for number in range(2):
        x = attention(net, x, _normed(net, x, f"layer{number}/ln1", random), f"layer{number}")
        inner = _normed(net, x, f"layer{number}/ln2", random)
        inner = net.dense(inner, f"layer{number}/up", 4 * COLUMNS, "gelu")
        inner = net.dense(inner, f"layer{number}/down", COLUMNS)
        x = net.add(inner, x, f"layer{number}/add2")
    x = net.dense(_normed(net, x, "ln", random), "head", _VOCABULARY)
    return network_of(net, ids, x)


def attention(net: NetworkBuilder, x: Wire, normed: Wire, name: str) -> Wire:
    """Add self-attention to the normalized rows, and the residual sum with `x`."""
    parts = []
    for part in ("q", "k", "v"):
        made = net.dense(normed, f"{name}/{part}", COLUMNS)
        cut = Layer(f"{name}/{part}_heads", "TransposeD", partial(kernels.heads, number=_HEADS))
        parts.append(net.apply(cut, made)[0])
    (weights,) = net.apply(Layer(f"{name}/scores", "BatchMatMul", kernels.scores), parts[0], parts[1])
    (weights,) = net.apply(Layer(f"{name}/softmax", "SoftmaxV2", kernels.attend), weights)
    (mixed,) = net.apply(Layer(f"{name}/mix", "BatchMatMul", np.matmul), weights, parts[2])
    (mixed,) = net.apply(Layer(f"{name}/join", "TransposeD", kernels.join_heads), mixed)
    return net.add(net.dense(mixed, f"{name}/out", COLUMNS), x, f"{name}/add1")


def _normed(net: NetworkBuilder, x: Wire, name: str, random: np.random.Generator) -> Wire:
    factor, offset = random.uniform(0.8, 1.2, COLUMNS), random.normal(0, 0.1, COLUMNS)
    return net.apply(Layer(name, "LayerNorm", partial(kernels.layer_norm, factor=factor, offset=offset)), x)[0]


def quantized(seed: int, dtype: DType) -> SampleNetwork:
    """8-bit convolutions between quantizing and dequantizing operators, with residual sums."""
    net = NetworkBuilder(seed, dtype)
    image = image_of(seed)
    x = image_wire(net, dtype)
    x = net.conv(x, "stem", Conv(16, stride=2, activation="relu"))
    for number in range(3):
        inner = _quantized_conv(net, image, x, f"block{number}/conv1")
        inner = _quantized_conv(net, image, inner, f"block{number}/conv2")
        x = net.add(inner, x, f"block{number}/add", "relu")
    x = flat_means(net, x)
    x = net.dense(x, "fc", 20)
    return network_of(net, image, x)


def _quantized_conv(net: NetworkBuilder, image: AnyArray, x: Wire, name: str) -> Wire:
    """On the device: quantize, convolve integers, dequantize; the scale is calibrated on golden data."""
    random = np.random.default_rng(len(net.golden) + 7)
    weight = random.normal(0, sqrt(2 / (x.width * 9)), (x.width, x.width, 3, 3))
    bias = random.normal(0, 0.1, x.width)
    before = SampleNetwork(image, INPUT, tuple(net.golden), (), ())
    scale = float(np.abs(run_golden(before)[x.golden]).max()) / 127
    steps = np.abs(weight).max(axis=(1, 2, 3)) / 127
    whole = np.clip(np.rint(weight / steps.reshape(-1, 1, 1, 1)), -127, 127)
    wire = net.apply(Layer(name, "Conv2D", partial(ops.conv, weight=weight, bias=bias)), x)[0]
    net.device.pop()
    quant = DeviceOp(
        f"{name}_quant", "AscendQuant", (x.device,), partial(kernels.quantize, scale=scale),
        (Output(dtypes.INT8, "NC1HWC0"),),
    )  # fmt: skip
    const = Const(f"{name}_weight", whole.astype(np.int8), dtypes.INT8, "FRACTAL_Z")
    inner = DeviceOp(name, "Conv2D", quant.ports, ops.conv, (Output(dtypes.INT32, "NC1HWC0"),), (const,), (name,))
    back = partial(_dequantize, scale=scale * steps, bias=bias)
    outer = DeviceOp(
        f"{name}_dequant", "AscendDequant", inner.ports, back, (Output(net.dtype, "NC1HWC0", Port(name)),), (),
        (name,),
    )  # fmt: skip
    net.device += [quant, inner, outer]
    return Wire(wire.golden, outer.ports[0], x.width, net.dtype)


def _dequantize(x: AnyArray, scale: AnyArray, bias: AnyArray) -> AnyArray:
    return x * scale.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def cancelling(seed: int, dtype: DType) -> SampleNetwork:
    """Two branches whose sum nearly vanishes, so that rounding errors are a large part of it."""
    net = NetworkBuilder(seed, dtype)
    random = np.random.default_rng(seed)
    x = image_wire(net, dtype)
    x = net.conv(x, "stem", Conv(16, activation="relu"))
    weight = random.normal(0, 0.1, (16, 16, 3, 3))
    near = -weight + random.normal(0, 3e-4, weight.shape)
    (left,) = net.apply(Layer("left", "Conv2D", partial(ops.conv, weight=weight)), x)
    (right,) = net.apply(Layer("right", "Conv2D", partial(ops.conv, weight=near)), x)
    x = net.add(left, right, "difference")
    x = net.conv(x, "head", Conv(16, activation="relu"))
    (x,) = net.apply(Layer("gap", "GlobalAveragePool", ops.average_all), x)
    return network_of(net, image_of(seed), x)


def image_wire(net: NetworkBuilder, dtype: DType) -> Wire:
    """Return the image input on the device: in the type of the network and in its layout."""
    return net.store_as(net.cast(Wire(Port(INPUT), Port(INPUT), 3, dtypes.FLOAT32, "NCHW"), dtype), "NC1HWC0")


def flat_means(net: NetworkBuilder, x: Wire) -> Wire:
    """Add the mean of each channel of an image, as a row."""
    (x,) = net.apply(Layer("gap", "GlobalAveragePool", ops.average_all), x)
    return net.apply(Layer("flatten", "Flatten", ops.flatten, layout="ND"), net.store_as(x, "NCHW"))[0]


def network_of(net: NetworkBuilder, given: AnyArray, *outputs: Wire) -> SampleNetwork:
    """Return the network that was built, with its input and outputs."""
    results = tuple(output.device for output in outputs)
    return SampleNetwork(given, INPUT, tuple(net.golden), tuple(net.device), results)


def image_of(seed: int) -> AnyArray:
    """Return an image of waves and noise."""
    random = np.random.default_rng(seed + 2)
    y, x = np.indices((24, 24)) / 24
    waves = np.stack([np.sin(7 * x + 3 * y), 0.5 + np.cos(5 * y - 9 * x), np.sin(11 * x * y) - 0.4])
    image: AnyArray = (random.normal(0, 0.2, (1, 3, 24, 24)) + waves).astype(np.float32)
    return image


NETWORKS: dict[str, Callable[[int, DType], SampleNetwork]] = {
    "residual": residual,
    "transformer": transformer,
    "quantized": quantized,
}

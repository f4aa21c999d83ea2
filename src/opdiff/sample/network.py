"""The sample network: a small image classifier with the constructs that make comparisons hard.

    image ─ stem ─ layer1 ─ layer2 ─ layer3 ─ se ─┬─ split ─┬─ local ────────────────────┬─ merge ─ head ─ top k
            residual blocks    depthwise   weigh  │         └─ context (pool, groups,    │
                                                  │            shuffled channels)        │
                                                  └─ gate (large numbers, then clipped) ─┘

On the device normalizations and activations are fused, layouts and element types are converted by inserted operators,
one operator is split in two and one is renamed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.graph import DeviceOp, Port, SampleNetwork
from opdiff.sample.network_builder import Conv, Layer, NetworkBuilder, Wire

if TYPE_CHECKING:
    from opdiff.sample.graph import Kernel

IMAGE = "images"

_SEED = 20
_CLASSES = 20
_SHUFFLED_GROUPS = 4
_GATE_LIMIT = 2.0**15
_SIDE_STREAM = 5


def build() -> SampleNetwork:
    """Return the network with all weights, without faults."""
    net = NetworkBuilder(_SEED)
    image = Wire(Port(IMAGE), Port(IMAGE), 3, dtypes.FLOAT32, "NCHW")
    x = net.store_as(net.cast(image, dtypes.FLOAT16), "NC1HWC0")
    x = net.conv(x, "stem/conv", Conv(16, stride=2, activation="relu"))
    for number, channels in enumerate((16, 16, 32, 32)):
        x = _residual(net, x, f"layer{1 + number // 2}/{number % 2}", channels)
    for number in range(3):
        x = _inverted(net, x, f"layer3/{number}")
    x = _squeeze_excite(net, x)
    local, context = net.apply(Layer("split", "SplitD", partial(ops.split, parts=2), (16, 16)), x)
    parts = (_local(net, local), _context(net, context), _gate(net, x))
    (x,) = net.apply(Layer("concat", "ConcatD", ops.concat, (sum(part.width for part in parts),)), *parts)
    x = net.hard_swish(net.conv(x, "merge/conv", Conv(64, size=1)), "merge/hswish")
    results = _head(net, x)
    return SampleNetwork(
        ops.wave_image(_SEED, 32), IMAGE, tuple(net.golden), tuple(map(_with_stream, net.device)), results
    )


def _residual(net: NetworkBuilder, x: Wire, name: str, channels: int) -> Wire:
    stride = 1 if channels == x.width else 2
    inner = net.conv(x, f"{name}/conv1", Conv(channels, stride=stride, activation="relu"))
    inner = net.conv(inner, f"{name}/conv2", Conv(channels))
    if stride > 1:
        x = net.conv(x, f"{name}/downsample", Conv(channels, size=1, stride=stride))
    return net.add(inner, x, f"{name}/add", "relu")


def _inverted(net: NetworkBuilder, x: Wire, name: str) -> Wire:
    inner = net.conv(x, f"{name}/expand", Conv(2 * x.width, size=1, activation="clip"))
    inner = net.conv(inner, f"{name}/depthwise", Conv(inner.width, groups=inner.width, activation="clip"))
    inner = net.conv(inner, f"{name}/project", Conv(x.width, size=1))
    return net.add(inner, x, f"{name}/add")


def _squeeze_excite(net: NetworkBuilder, x: Wire) -> Wire:
    """Squeeze and excitation: every channel times a weight that depends on all channels."""
    (means,) = net.apply(Layer("se/gap", "GlobalAveragePool", ops.average_all), x)
    inner = net.conv(means, "se/reduce", Conv(16, size=1, norm=False, activation="relu"))
    inner = net.conv(inner, "se/expand", Conv(x.width, size=1, norm=False))
    (weight,) = net.apply(Layer("se/sigmoid", "Sigmoid", ops.sigmoid), inner)
    return net.apply(Layer("se/mul", "Mul", ops.multiply), x, weight)[0]


def _local(net: NetworkBuilder, x: Wire) -> Wire:
    x = net.conv(x, "local/conv1", Conv(16, activation="relu"))
    return net.conv(x, "local/conv2", Conv(16, activation="relu"))


def _context(net: NetworkBuilder, x: Wire) -> Wire:
    (x,) = net.apply(Layer("context/pool", "MaxPoolV3", ops.max_pool), x)
    x = net.conv(x, "context/conv1", Conv(16, size=1, activation="relu"))
    x = net.conv(x, "context/conv2", Conv(16, groups=_SHUFFLED_GROUPS, activation="relu"))
    steps: dict[str, Kernel] = {
        "context/to_groups": partial(ops.to_groups, groups=_SHUFFLED_GROUPS),
        "context/transpose": ops.swap_groups,
        "context/from_groups": ops.from_groups,
    }
    shuffle = partial(ops.shuffle_channels, groups=_SHUFFLED_GROUPS)
    x = net.fuse(net.store_as(x, "NCHW"), steps, "ShuffleChannel", shuffle)
    return net.store_as(x, "NC1HWC0")


def _gate(net: NetworkBuilder, x: Wire) -> Wire:
    """Values temporarily out of the range of float16, stored as float32 until they are clipped."""
    x = net.conv(x, "gate/conv", Conv(16, norm=False, gain=12000, dtype=dtypes.FLOAT32))
    limits = partial(ops.clip, low=-_GATE_LIMIT, high=_GATE_LIMIT)
    (x,) = net.apply(Layer("gate/clip", "ClipByValue", limits, types=(dtypes.FLOAT16,)), x)
    return net.apply(Layer("gate/scale", "Muls", partial(ops.scale, factor=1 / _GATE_LIMIT)), x)[0]


def _head(net: NetworkBuilder, x: Wire) -> tuple[Port, ...]:
    (x,) = net.apply(Layer("head/gap", "ReduceMeanD", ops.average_all, alias="head/gap_mean"), x)
    (x,) = net.apply(Layer("head/flatten", "Flatten", ops.flatten, layout="ND"), net.store_as(x, "NCHW"))
    x = net.dense(net.store_as(x, "FRACTAL_NZ"), "head/fc1", 48, "relu")
    x = net.store_as(net.dense(x, "head/fc2", _CLASSES), "ND")
    (x,) = net.apply(Layer("head/softmax", "SoftmaxV2", ops.softmax), x)
    top_k = Layer("head/topk", "TopKV2", partial(ops.top_k, k=5), (5, 5), (x.dtype, dtypes.INT32))
    best, indices = net.apply(top_k, x)
    return net.cast(x, dtypes.FLOAT32).device, net.cast(best, dtypes.FLOAT32).device, indices.device


def _with_stream(op: DeviceOp) -> DeviceOp:
    """The gate is independent of its neighbours and runs in a stream of its own."""
    return replace(op, stream=_SIDE_STREAM) if op.name.startswith("gate/") else op

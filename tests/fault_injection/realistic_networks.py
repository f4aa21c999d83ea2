"""Networks in the style of real models: mobile, transformer with split normalization, recurrent, and detection."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fault_injection import kernels
from fault_injection.networks import (
    COLUMNS,
    INPUT,
    TOKENS,
    attention,
    cancelling,
    flat_means,
    image_of,
    image_wire,
    network_of,
)
from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.graph import Port
from opdiff.sample.network_builder import Conv, Layer, NetworkBuilder, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.graph import Attributes, SampleNetwork

_OF_ROWS: Attributes = {"axes": (-1,), "keep_dims": True}
_STEPS, _BATCH, _FEATURES, _STATES = 4, 8, 16, 32


def mobile(seed: int, dtype: DType) -> SampleNetwork:
    """Depthwise convolutions with squeeze-and-excite gates and residual sums."""
    net = NetworkBuilder(seed, dtype)
    x = net.conv(image_wire(net, dtype), "stem", Conv(16, stride=2, activation="relu"))
    for number in range(3):
        inner = net.conv(x, f"block{number}/expand", Conv(32, size=1, activation="clip"))
        inner = net.conv(inner, f"block{number}/depthwise", Conv(32, groups=32, activation="clip"))
        inner = _excited(net, inner, f"block{number}/se")
        inner = net.conv(inner, f"block{number}/project", Conv(16, size=1))
        x = net.add(inner, x, f"block{number}/add")
    x = net.conv(x, "last", Conv(32, size=1, activation="relu"))
    x = net.dense(flat_means(net, x), "fc", 20)
    return network_of(net, image_of(seed), x)


def _excited(net: NetworkBuilder, x: Wire, name: str) -> Wire:
    (gate,) = net.apply(Layer(f"{name}/pool", "GlobalAveragePool", ops.average_all), x)
    gate = net.conv(gate, f"{name}/reduce", Conv(8, size=1, norm=False, activation="relu"))
    gate = net.conv(gate, f"{name}/restore", Conv(x.width, size=1, norm=False))
    (gate,) = net.apply(Layer(f"{name}/gate", "HardSigmoid", ops.hard_sigmoid), gate)
    return net.apply(Layer(f"{name}/mul", "Mul", ops.multiply), x, gate)[0]


def split_norm(seed: int, dtype: DType) -> SampleNetwork:
    """A transformer whose normalizations are chains of elementary operators."""
    net = NetworkBuilder(seed, dtype)
    random = np.random.default_rng(seed + 1)
    rows: AnyArray = random.normal(0, 1, (1, TOKENS, COLUMNS)).astype(np.float32)
    x = net.cast(Wire(Port(INPUT), Port(INPUT), COLUMNS, dtypes.FLOAT32, "ND"), dtype)
    for number in range(2):
        x = attention(net, x, _split_norm(net, x, f"layer{number}/ln1", random), f"layer{number}")
        inner = _split_norm(net, x, f"layer{number}/ln2", random)
        inner = net.dense(inner, f"layer{number}/up", 2 * COLUMNS)
        (inner,) = net.apply(Layer(f"layer{number}/gelu", "Gelu", ops.gelu), inner)
        inner = net.dense(inner, f"layer{number}/down", COLUMNS)
        x = net.add(inner, x, f"layer{number}/add2")
    x = net.dense(_split_norm(net, x, "ln", random), "head", COLUMNS)
    return network_of(net, rows, x)


def _split_norm(net: NetworkBuilder, x: Wire, name: str, random: np.random.Generator) -> Wire:
    factor, offset = random.uniform(0.8, 1.2, COLUMNS), random.normal(0, 0.1, COLUMNS)
    (mean,) = net.apply(Layer(f"{name}/mean", "ReduceMeanD", kernels.mean_of_rows, attributes=_OF_ROWS), x)
    (centred,) = net.apply(Layer(f"{name}/sub", "Sub", np.subtract), x, mean)
    (square,) = net.apply(Layer(f"{name}/square", "Mul", ops.multiply), centred, centred)
    (variance,) = net.apply(Layer(f"{name}/var", "ReduceMeanD", kernels.mean_of_rows, attributes=_OF_ROWS), square)
    add = Layer(f"{name}/eps", "Adds", partial(kernels.shift, offset=1e-5), attributes={"value": 1e-5})
    (sure,) = net.apply(add, variance)
    (root,) = net.apply(Layer(f"{name}/sqrt", "Sqrt", np.sqrt), sure)
    (normal,) = net.apply(Layer(f"{name}/div", "RealDiv", kernels.divide), centred, root)
    (scaled,) = net.apply(Layer(f"{name}/gamma", "Mul", partial(kernels.scale_columns, factor=factor)), normal)
    return net.apply(Layer(f"{name}/beta", "Add", partial(kernels.shift, offset=offset)), scaled)[0]


def recurrent(seed: int, dtype: DType) -> SampleNetwork:
    """Steps of a gated recurrent unit over slices of a sequence."""
    net = NetworkBuilder(seed, dtype)
    random = np.random.default_rng(seed + 3)
    sequence: AnyArray = random.normal(0, 1, (_BATCH, _STEPS * _FEATURES)).astype(np.float32)
    whole = net.cast(Wire(Port(INPUT), Port(INPUT), _STEPS * _FEATURES, dtypes.FLOAT32, "ND"), dtype)
    parts = net.apply(Layer("split", "SplitD", partial(ops.split, parts=_STEPS), (_FEATURES,) * _STEPS), whole)
    state = net.dense(parts[0], "start", _STATES)
    for number, part in enumerate(parts):
        state = _gated_step(net, part, state, f"step{number}")
    x = net.dense(state, "head", 20)
    (x,) = net.apply(Layer("softmax", "SoftmaxV2", ops.softmax), x)
    return network_of(net, sequence, x)


def _gated_step(net: NetworkBuilder, x: Wire, state: Wire, name: str) -> Wire:
    (both,) = net.apply(Layer(f"{name}/concat", "ConcatD", ops.concat, (x.width + state.width,)), x, state)
    (update,) = net.apply(Layer(f"{name}/update", "Sigmoid", ops.sigmoid), net.dense(both, f"{name}/z", _STATES))
    (new,) = net.apply(Layer(f"{name}/new", "Tanh", np.tanh), net.dense(both, f"{name}/n", _STATES))
    (change,) = net.apply(Layer(f"{name}/sub", "Sub", np.subtract), new, state)
    (part,) = net.apply(Layer(f"{name}/mul", "Mul", ops.multiply), update, change)
    return net.add(part, state, f"{name}/add")


def detection(seed: int, dtype: DType) -> SampleNetwork:
    """Two scales that are joined, heads for scores and boxes, and the best candidates."""
    net = NetworkBuilder(seed, dtype)
    fine = net.conv(image_wire(net, dtype), "stem", Conv(16, stride=2, activation="relu"))
    coarse = net.conv(fine, "down", Conv(16, stride=2, activation="relu"))
    coarse = net.conv(coarse, "middle", Conv(16, activation="relu"))
    (raised,) = net.apply(Layer("up", "ResizeBilinearV2", kernels.enlarge), coarse)
    (x,) = net.apply(Layer("concat", "ConcatD", ops.concat, (32,)), fine, raised)
    x = net.conv(x, "neck", Conv(16, activation="relu"))
    scores = net.conv(x, "score", Conv(4, size=1, norm=False))
    (scores,) = net.apply(Layer("score_sigmoid", "Sigmoid", ops.sigmoid), scores)
    boxes = net.conv(x, "box", Conv(4, size=1, norm=False))
    (ratio,) = net.apply(Layer("box_exp", "Exp", np.exp), boxes)
    (rows,) = net.apply(Layer("score_rows", "Flatten", ops.flatten, layout="ND"), net.store_as(scores, "NCHW"))
    best = Layer("top", "TopKD", partial(ops.top_k, k=10), (10, 10), (dtype, dtypes.INT32), "ND")
    values, _ = net.apply(best, rows)
    return network_of(net, image_of(seed), ratio, values)


REALISTIC_NETWORKS: dict[str, Callable[[int, DType], SampleNetwork]] = {
    "mobile": mobile,
    "split-norm": split_norm,
    "recurrent": recurrent,
    "detection": detection,
    "cancelling": cancelling,
}

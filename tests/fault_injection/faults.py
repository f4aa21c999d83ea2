"""Faults of every kind that can be injected at any operator of a network: in its result, or in its computation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fault_injection import kernels
from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.device import device_values, rounded
from opdiff.sample.faults import corrupt_output
from opdiff.sample.graph import Port

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.faults import Corruption
    from opdiff.sample.graph import DeviceOp, Kernel, SampleNetwork


# Shorter sums hardly lose digits.
_MIN_SUM_LENGTH = 32
_MIN_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class FaultyNetwork:
    """A network with a fault, and the expected findings.

    Attributes:
        network: the network with the fault.
        operators: naming any of these is right.
        kinds: naming any of these kinds is right.
    """

    network: SampleNetwork
    operators: tuple[str, ...]
    kinds: tuple[str, ...]


def _scale(x: AnyArray) -> AnyArray:
    return x * 1.08


def _shift(x: AnyArray) -> AnyArray:
    shifted: AnyArray = x + 0.3 * x.std()
    return shifted


def _channel_axis(x: AnyArray) -> int:
    """Return the second axis of images with many channels, else the last axis with several indices."""
    if x.ndim == 4 and x.shape[1] >= 8:
        return 1
    return max(axis for axis, extent in enumerate(x.shape) if extent >= 4)


def _permute(x: AnyArray) -> AnyArray:
    if x.ndim == 4 and x.shape[2] == x.shape[3] > 1:
        return x.swapaxes(2, 3)
    return np.roll(x, 1, axis=_channel_axis(x))


def _corrupt_channel(x: AnyArray) -> AnyArray:
    result = x.copy()
    channel = np.moveaxis(result, _channel_axis(x), 0)[3:4]
    channel[...] = channel * -0.5 + x.std()
    return result


def _overflow(x: AnyArray) -> AnyArray:
    result = x.copy()
    result.reshape(-1)[:: max(x.size // 5, 1)] = np.inf
    return result


def _add_outliers(x: AnyArray) -> AnyArray:
    result = x.copy()
    result.reshape(-1)[[1, x.size // 2, x.size - 2]] = 6 * np.abs(x).max()
    return result


# Corruptions of an operator's output, and the kinds of which each is right.
CORRUPTIONS: dict[str, tuple[Corruption, tuple[str, ...]]] = {
    "scale": (_scale, ("scale",)),
    "offset": (_shift, ("offset",)),
    "permuted": (_permute, ("permuted",)),
    # A channel of a single row is a single element.
    "channel": (_corrupt_channel, ("channel", "outliers")),
    "overflow": (_overflow, ("overflow",)),
    "zero": (np.zeros_like, ("memory",)),
    "outliers": (_add_outliers, ("outliers",)),
}


def _channels(op: DeviceOp) -> int:
    """Return the number of output channels or columns of an operator with weights and bias; 0 for others."""
    return op.consts[1].array.size if len(op.consts) == 2 else 0


def _exchange(op: DeviceOp) -> DeviceOp | None:
    if op.type not in ("Sub", "RealDiv", "ConcatD") or len(op.inputs) != 2:
        return None
    return replace(op, kernel=lambda x, y: op.kernel(y, x))


def _drop_operand(op: DeviceOp) -> DeviceOp | None:
    if op.type != "Add" or len(op.inputs) != 2:
        return None
    return replace(op, kernel=lambda x, y: op.kernel(x, np.zeros_like(y)))


def _drop_bias(op: DeviceOp) -> DeviceOp | None:
    if op.type not in ("Conv2D", "DepthwiseConv2D", "MatMulV2") or len(op.consts) != 2:
        return None
    return replace(op, kernel=lambda x, weight, bias: op.kernel(x, weight, np.zeros_like(bias)))


def _drop_activation(op: DeviceOp) -> DeviceOp | None:
    if len(op.originals) < 2 or not op.buffer_pass:
        return None
    return replace(op, kernel=partial(op.kernel, activation=ops.identity))


def _swap_channels(op: DeviceOp) -> DeviceOp | None:
    if op.type not in ("Conv2D", "DepthwiseConv2D") or _channels(op) < _MIN_CHANNELS:
        return None
    order = np.arange(_channels(op))
    order[[2, 5]] = order[[5, 2]]
    return replace(op, kernel=lambda *inputs: op.kernel(*inputs)[:, order])


def _break_channels(op: DeviceOp) -> DeviceOp | None:
    if op.type not in ("Conv2D", "MatMulV2") or _channels(op) < _MIN_CHANNELS:
        return None

    def kernel(*inputs: AnyArray) -> AnyArray:
        result: AnyArray = op.kernel(*inputs).copy()
        axis = 1 if result.ndim == 4 else -1
        part = np.moveaxis(result, axis, 0)[[1, 4]]
        np.moveaxis(result, axis, 0)[[1, 4]] = part * -0.6 + result.std()
        return result

    return replace(op, kernel=kernel)


def _scale_channels(op: DeviceOp) -> DeviceOp | None:
    if op.type not in ("Conv2D", "DepthwiseConv2D") or _channels(op) < _MIN_CHANNELS:
        return None
    factor = np.random.default_rng(_channels(op)).uniform(0.8, 1.2, _channels(op))
    scale = factor.reshape(1, -1, 1, 1)
    return replace(op, kernel=lambda *inputs: op.kernel(*inputs) * scale)


def _pad_with_edges(op: DeviceOp) -> DeviceOp | None:
    """Repeat the edge of the image where zeros belong."""
    if op.type != "Conv2D" or not op.consts or op.consts[0].array.shape[2] == 1 or not isinstance(op.kernel, partial):
        return None
    keywords = op.kernel.keywords
    stride, activation = keywords["stride"], keywords["activation"]

    def kernel(x: AnyArray, weight: AnyArray, bias: AnyArray) -> AnyArray:
        pad = weight.shape[2] // 2
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="edge")
        windows = sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
        sums = np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        result: AnyArray = activation(sums + bias.reshape(1, -1, 1, 1))
        return result

    return replace(op, kernel=kernel)


_ROUGH: dict[str, Kernel] = {
    "SoftmaxV2": kernels.attend_roughly,
    "Sigmoid": kernels.sigmoid_roughly,
    "Tanh": kernels.tanh_roughly,
    "Exp": kernels.exp_roughly,
    "Gelu": kernels.gelu_roughly,
}


def _approximate(op: DeviceOp) -> DeviceOp | None:
    """Interpolate exponentials in a table, whose step is larger where the element type has fewer digits."""
    step = 0.5 if op.outputs[0].dtype is dtypes.FLOAT16 else 1.0
    return replace(op, kernel=partial(_ROUGH[op.type], step=step)) if op.type in _ROUGH else None


def _wrong_axis(op: DeviceOp) -> DeviceOp | None:
    if op.type == "SoftmaxV2":
        return replace(op, kernel=lambda x: np.swapaxes(kernels.attend(np.swapaxes(x, -1, -2)), -1, -2))
    return None


def _wrong_mode(op: DeviceOp) -> DeviceOp | None:
    return replace(op, kernel=kernels.enlarge_from_corner) if op.type == "ResizeBilinearV2" else None


# Functions that return a faulty operator, or `None` if the fault does not apply; the kinds of which each is right.
WRONG_COMPUTATIONS: dict[str, tuple[Callable[[DeviceOp], DeviceOp | None], tuple[str, ...]]] = {
    "exchanged operands": (_exchange, ("operand",)),
    "dropped operand": (_drop_operand, ("operand",)),
    "no bias": (_drop_bias, ("bias",)),
    "no activation": (_drop_activation, ("activation",)),
    # A channel of a single row is a single element.
    "swapped channels": (_swap_channels, ("permuted", "outliers")),
    "two bad channels": (_break_channels, ("channel", "outliers")),
    "scale per channel": (_scale_channels, ("scale",)),
    "other padding": (_pad_with_edges, ("padding",)),
    "rough function": (_approximate, ("function",)),
    # A softmax over an axis of one element is constant.
    "wrong axis": (_wrong_axis, ("axis", "memory")),
    "other resize mode": (_wrong_mode, ("function",)),
}
FAULTS = (
    *CORRUPTIONS, "foreign", "accumulation", "input-swap", "input-scale", "clipping", "zero-point", *WRONG_COMPUTATIONS,
)  # fmt: skip


def inject(network: SampleNetwork, fault: str, depth: float) -> FaultyNetwork | None:
    """Inject a fault at relative depth 0..1 of the network; return `None` if it has no suitable operator."""
    if fault in CORRUPTIONS:
        corruption, kinds = CORRUPTIONS[fault]
        op = _at_depth([op for op in network.device if _is_comparable(op) and len(op.outputs) == 1], depth)
        return _with_faulty(network, op, corrupt_output(op, corruption), kinds)
    if fault.startswith("input"):
        return _corrupt_input(network, fault)
    if fault in ("clipping", "zero-point"):
        return _corrupt_quantization(network, fault, depth)
    if fault in WRONG_COMPUTATIONS:
        return _compute_wrongly(network, fault, depth)
    return {"foreign": _foreign, "accumulation": _accumulation}[fault](network, depth)


def _is_comparable(op: DeviceOp) -> bool:
    """Whether the operator has a floating-point output with a counterpart in the original model."""
    return op.outputs[0].origin is not None and op.outputs[0].dtype.kind is dtypes.Kind.FLOAT


def _at_depth(candidates: list[DeviceOp], depth: float) -> DeviceOp:
    return candidates[min(int(depth * len(candidates)), len(candidates) - 1)]


def _with_faulty(network: SampleNetwork, op: DeviceOp, faulty: DeviceOp, kinds: tuple[str, ...]) -> FaultyNetwork:
    device = tuple(faulty if each is op else each for each in network.device)
    names = [op.name]
    if op.type in ("AscendQuant", "Conv2D", "AscendDequant"):
        stem = op.name.removesuffix("_quant").removesuffix("_dequant")
        names += [f"{stem}_quant", f"{stem}_dequant", stem]
    return FaultyNetwork(replace(network, device=device), tuple(dict.fromkeys(names)), _right_kinds(op, kinds))


def _right_kinds(op: DeviceOp, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Accept `quantization` for any fault downstream of quantized values."""
    return (*kinds, "quantization") if "quant" in op.type.lower() else kinds


def _foreign(network: SampleNetwork, depth: float) -> FaultyNetwork | None:
    """Replace the output by another tensor of the same shape."""
    values = device_values(network)
    comparable = [op for op in network.device if _is_comparable(op)]
    for op in [_at_depth(comparable, depth), *comparable]:
        own = values[op.ports[0]]
        # Memory holds what was written to it earlier.
        for port, other in list(values.items())[: list(values).index(op.ports[0])]:
            is_alike = other.shape == own.shape and other.dtype == own.dtype and port.op != op.name
            if is_alike and port.op not in {p.op for p in op.inputs} and not np.allclose(other, own, atol=0.05):
                faulty = replace(op, kernel=partial(_constant, other.astype(np.float64)))
                return _with_faulty(network, op, faulty, ("memory",))
    return None


def _constant(result: AnyArray, *_: AnyArray) -> AnyArray:
    return result


def _accumulation(network: SampleNetwork, depth: float) -> FaultyNetwork | None:
    """Accumulate in bfloat16, or in 8 bits in a bfloat16 network."""
    found = [op for op in network.device if _is_comparable(op) and op.consts and op.consts[0].array.ndim in (2, 4)]
    found = [op for op in found if op.consts[0].array.size // op.consts[1].array.size >= _MIN_SUM_LENGTH]
    if not found:
        return None
    op = _at_depth(found, depth)
    coarse = dtypes.BFLOAT16 if op.outputs[0].dtype is dtypes.FLOAT16 else dtypes.FLOAT8_E4M3FN
    kernel = partial(_accumulate_coarsely, op.kernel, coarse)
    return _with_faulty(network, op, replace(op, kernel=kernel), ("precision",))


def _accumulate_coarsely(kernel: Kernel, dtype: DType, x: AnyArray, weight: AnyArray, *others: AnyArray) -> AnyArray:
    """Sum over input channels or columns, rounding each partial sum."""
    keywords = dict(kernel.keywords) if isinstance(kernel, partial) else {}
    activation = keywords.pop("activation", ops.identity)
    plain = partial(kernel.func, **keywords) if isinstance(kernel, partial) else kernel
    bias = others[0] if others else np.zeros(1)
    total: AnyArray = np.zeros(1)
    is_image = weight.ndim == 4
    for k in range(weight.shape[1] if is_image else weight.shape[0]):
        part = plain(x[:, k : k + 1], weight[:, k : k + 1]) if is_image else x[..., k : k + 1] @ weight[k : k + 1]
        total = rounded(total + part, dtype).astype(np.float64)
    result: AnyArray = activation(total + (bias.reshape(1, -1, 1, 1) if is_image else bias))
    return result


def _compute_wrongly(network: SampleNetwork, fault: str, depth: float) -> FaultyNetwork | None:
    break_op, kinds = WRONG_COMPUTATIONS[fault]
    broken = {op.name: faulty for op in network.device if _is_comparable(op) and (faulty := break_op(op))}
    if not broken:
        return None
    op = _at_depth([op for op in network.device if op.name in broken], depth)
    return _with_faulty(network, op, broken[op.name], kinds)


def _corrupt_input(network: SampleNetwork, fault: str) -> FaultyNetwork | None:
    image = network.image
    if image.ndim != 4:
        return None
    corrupted = image[:, ::-1].copy() if fault == "input-swap" else (image * 0.9).astype(np.float32)
    first = next(op for op in network.device if Port(network.image_name) in op.inputs)
    return FaultyNetwork(replace(network, device_image=corrupted), (first.name,), ("input",))


def _corrupt_quantization(network: SampleNetwork, fault: str, depth: float) -> FaultyNetwork | None:
    found = [op for op in network.device if op.type == "AscendQuant"]
    if not found:
        return None
    op = _at_depth(found, depth)
    assert isinstance(op.kernel, partial)
    if fault == "zero-point":
        kernel = partial(op.kernel, zero=12)
    else:
        kernel = partial(kernels.quantize, scale=op.kernel.keywords["scale"], limit=32)
    return _with_faulty(network, op, replace(op, kernel=kernel), ("quantization",))

"""Faults of every kind that can be injected at any operator of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fault_injection import kernels
from fault_injection.wrong_computations import WRONG_COMPUTATIONS
from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.device import device_values, rounded
from opdiff.sample.faults import corrupt_output
from opdiff.sample.graph import Port

if TYPE_CHECKING:
    from fault_injection.wrong_computations import WrongComputation
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.faults import Corruption
    from opdiff.sample.graph import DeviceOp, Kernel, SampleNetwork


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
FAULTS = (
    *CORRUPTIONS, "foreign", "accumulation", "input-swap", "input-scale", "clipping", "zero-point", *WRONG_COMPUTATIONS,
)  # fmt: skip

# Shorter sums hardly lose digits.
_MIN_SUM_LENGTH = 32


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
        return _compute_wrongly(network, WRONG_COMPUTATIONS[fault], depth)
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


def _compute_wrongly(network: SampleNetwork, fault: WrongComputation, depth: float) -> FaultyNetwork | None:
    broken = {op.name: faulty for op in network.device if _is_comparable(op) and (faulty := fault.break_op(op))}
    if not broken:
        return None
    op = _at_depth([op for op in network.device if op.name in broken], depth)
    return _with_faulty(network, op, broken[op.name], fault.kinds)


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

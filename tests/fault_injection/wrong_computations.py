"""Faults of the computation itself, by operator type: exchanged operands, no bias, no activation, other padding, …"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fault_injection import kernels
from opdiff.core import dtypes
from opdiff.sample import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import DeviceOp, Kernel

_MIN_CHANNELS = 8
_MIN_IMAGE = 6


@dataclass(frozen=True, slots=True)
class WrongComputation:
    """A fault of some operators.

    Attributes:
        break_op: returns the faulty operator, or `None` if the fault does not apply to it.
        kinds: naming any of these kinds is right.
    """

    break_op: Callable[[DeviceOp], DeviceOp | None]
    kinds: tuple[str, ...]


def _channels(op: DeviceOp) -> int:
    """Return the number of output channels or columns of an operator with weights and bias; 0 for others."""
    return op.consts[1].array.size if len(op.consts) == 2 else 0


def _exchange(op: DeviceOp) -> DeviceOp | None:
    if op.type in ("Sub", "RealDiv"):
        return replace(op, kernel=lambda x, y: op.kernel(y, x))
    if op.type == "ConcatD" and len(op.inputs) == 2:
        return replace(op, kernel=lambda x, y: op.kernel(y, x))
    return None


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


WRONG_COMPUTATIONS: dict[str, WrongComputation] = {
    "exchanged operands": WrongComputation(_exchange, ("operand",)),
    "dropped operand": WrongComputation(_drop_operand, ("operand",)),
    "no bias": WrongComputation(_drop_bias, ("bias",)),
    "no activation": WrongComputation(_drop_activation, ("activation",)),
    # A channel of a single row is a single element.
    "swapped channels": WrongComputation(_swap_channels, ("permuted", "outliers")),
    "two bad channels": WrongComputation(_break_channels, ("channel", "outliers")),
    "scale per channel": WrongComputation(_scale_channels, ("scale",)),
    "other padding": WrongComputation(_pad_with_edges, ("padding",)),
    "rough function": WrongComputation(_approximate, ("function",)),
    # A softmax over an axis of one element is constant.
    "wrong axis": WrongComputation(_wrong_axis, ("axis", "memory")),
    "other resize mode": WrongComputation(_wrong_mode, ("function",)),
}

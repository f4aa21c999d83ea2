"""Kernels of the transformer and of the quantized network; see `opdiff.sample.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray


def layer_norm(x: AnyArray, factor: AnyArray, offset: AnyArray) -> AnyArray:
    """Layer normalization over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    normal: AnyArray = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return normal * factor + offset


def attend(x: AnyArray) -> AnyArray:
    """Softmax over the last axis."""
    return _shares(np.exp(x - x.max(axis=-1, keepdims=True)))


def attend_roughly(x: AnyArray, step: float) -> AnyArray:
    """Softmax of rough exponentials."""
    return _shares(exp_roughly(x - x.max(axis=-1, keepdims=True), step))


def _shares(powers: AnyArray) -> AnyArray:
    total: AnyArray = powers.sum(axis=-1, keepdims=True)
    return powers / total


def scores(x: AnyArray, y: AnyArray) -> AnyArray:
    """Scaled attention scores."""
    products: AnyArray = x @ np.swapaxes(y, -1, -2) / np.sqrt(x.shape[-1])
    return products


def heads(x: AnyArray, number: int) -> AnyArray:
    """Split the last axis into attention heads."""
    n, rows, columns = x.shape
    return x.reshape(n, rows, number, columns // number).swapaxes(1, 2)


def join_heads(x: AnyArray) -> AnyArray:
    """Join the attention heads; the inverse of `heads`."""
    n, number, rows, columns = x.shape
    return x.swapaxes(1, 2).reshape(n, rows, number * columns)


def look_up(x: AnyArray, table: AnyArray) -> AnyArray:
    """Rows of an embedding table."""
    rows: AnyArray = table[x.astype(np.int64)]
    return rows


def quantize(x: AnyArray, scale: float, zero: int = 0, limit: int = 128) -> AnyArray:
    """Return the nearest quantization steps from `-limit` to `limit - 1`."""
    steps: AnyArray = np.clip(np.rint(x / scale) + zero, -limit, limit - 1)
    return steps


def mean_of_rows(x: AnyArray) -> AnyArray:
    """Mean over the last axis, which is kept."""
    means: AnyArray = x.mean(axis=-1, keepdims=True)
    return means


def divide(x: AnyArray, y: AnyArray) -> AnyArray:
    """Quotient."""
    with np.errstate(divide="ignore"):
        result: AnyArray = x / y
    return result


def scale_columns(x: AnyArray, factor: AnyArray) -> AnyArray:
    """Product with a factor for each column."""
    return x * factor


def shift(x: AnyArray, offset: AnyArray | float) -> AnyArray:
    """Sum with an offset, or with one for each column."""
    return x + offset


def enlarge(x: AnyArray) -> AnyArray:
    """Twice the image size, interpolated between the centres of pixels."""
    return _interpolate(_interpolate(x, 2), 3)


def enlarge_from_corner(x: AnyArray) -> AnyArray:
    """Twice the image size, interpolated between the corners of pixels: another mode of `enlarge`."""
    return _interpolate(_interpolate(x, 2, centre=0.0), 3, centre=0.0)


def _interpolate(x: AnyArray, axis: int, centre: float = 0.25) -> AnyArray:
    extent = x.shape[axis]
    at = np.clip(np.arange(2 * extent) / 2 - centre, 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    part = (at - low).reshape([-1 if each == axis else 1 for each in range(x.ndim)])
    high = np.minimum(low + 1, extent - 1)
    result: AnyArray = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return result


def exp_roughly(x: AnyArray, step: float) -> AnyArray:
    """Exponential function, interpolated in a table."""
    low = np.floor(x / step)
    first, last = np.exp(low * step), np.exp((low + 1) * step)
    powers: AnyArray = first + (x / step - low) * (last - first)
    return powers


def sigmoid_roughly(x: AnyArray, step: float) -> AnyArray:
    """Logistic function of rough exponentials."""
    return 1 / (1 + exp_roughly(-x, step))


def tanh_roughly(x: AnyArray, step: float) -> AnyArray:
    """Hyperbolic tangent of rough exponentials."""
    return 2 * sigmoid_roughly(2 * x, step) - 1


def gelu_roughly(x: AnyArray, step: float) -> AnyArray:
    """Gaussian error linear unit, by the logistic function."""
    return x * sigmoid_roughly(1.702 * x, step)

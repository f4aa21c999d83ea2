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
    powers: AnyArray = np.exp(x - x.max(axis=-1, keepdims=True))
    total: AnyArray = powers.sum(axis=-1, keepdims=True)
    return powers / total


def attend_roughly(x: AnyArray) -> AnyArray:
    """Softmax whose exponentials are interpolated in a table with a step of 1/2."""
    shifted: AnyArray = 2 * (x - x.max(axis=-1, keepdims=True))
    low = np.floor(shifted)
    powers: AnyArray = np.exp(low / 2) + (shifted - low) * (np.exp((low + 1) / 2) - np.exp(low / 2))
    total: AnyArray = powers.sum(axis=-1, keepdims=True)
    return powers / total


def scores(x: AnyArray, y: AnyArray) -> AnyArray:
    """Scaled attention scores."""
    products: AnyArray = x @ np.swapaxes(y, -1, -2) / np.sqrt(x.shape[-1])
    return products


def product(x: AnyArray, y: AnyArray) -> AnyArray:
    """Matrix product."""
    result: AnyArray = x @ y
    return result


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

"""What the operators of the sample network compute: plain numpy in float64, batches of channels-first images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray


def identity(x: AnyArray) -> AnyArray:
    """The same numbers; layout and element type are the business of whoever stores them."""
    return x


def relu(x: AnyArray) -> AnyArray:
    """Negative numbers become 0."""
    return np.maximum(x, 0)


def clip(x: AnyArray, low: float, high: float) -> AnyArray:
    """Numbers outside of the limits become the limits, infinities too."""
    return np.clip(x, low, high)


def relu6(x: AnyArray) -> AnyArray:
    """Clipped to 0..6."""
    return clip(x, 0, 6)


def sigmoid(x: AnyArray) -> AnyArray:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x: AnyArray) -> AnyArray:
    """A straight line in place of the logistic function."""
    return clip(x / 6 + 0.5, 0, 1)


def hard_swish(x: AnyArray) -> AnyArray:
    """The input, weakened by its own hard sigmoid."""
    return x * hard_sigmoid(x)


def gelu(x: AnyArray) -> AnyArray:
    """The input, weakened by a smooth step (the form with tanh)."""
    step: AnyArray = 1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * step


def layer_norm(x: AnyArray, factor: AnyArray, offset: AnyArray) -> AnyArray:
    """Every row with mean 0 and deviation 1, then scaled and moved."""
    centred = x - x.mean(axis=-1, keepdims=True)
    normal: AnyArray = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return normal * factor + offset


def attend(x: AnyArray) -> AnyArray:
    """The last axis as probabilities."""
    powers: AnyArray = np.exp(x - x.max(axis=-1, keepdims=True))
    total: AnyArray = powers.sum(axis=-1, keepdims=True)
    return powers / total


def scores(x: AnyArray, y: AnyArray) -> AnyArray:
    """Products of all rows with all rows, as attention scales them."""
    products: AnyArray = x @ np.swapaxes(y, -1, -2) / np.sqrt(x.shape[-1])
    return products


def product(x: AnyArray, y: AnyArray) -> AnyArray:
    """The product of matrices."""
    result: AnyArray = x @ y
    return result


def heads(x: AnyArray, number: int) -> AnyArray:
    """The last axis in parts, each a matrix of its own."""
    n, rows, columns = x.shape
    return x.reshape(n, rows, number, columns // number).swapaxes(1, 2)


def joined(x: AnyArray) -> AnyArray:
    """What `heads` undid."""
    n, number, rows, columns = x.shape
    return x.swapaxes(1, 2).reshape(n, rows, number * columns)


def look_up(x: AnyArray, table: AnyArray) -> AnyArray:
    """The rows of a table by their numbers."""
    rows: AnyArray = table[x.astype(np.int64)]
    return rows


def quantize(x: AnyArray, scale: float, zero: int = 0) -> AnyArray:
    """The nearest steps of 8 bits."""
    steps: AnyArray = np.clip(np.rint(x / scale) + zero, -128, 127)
    return steps


def add(x: AnyArray, y: AnyArray, *, activation: Callable[[AnyArray], AnyArray] = identity) -> AnyArray:
    """The sum, activated."""
    return activation(x + y)


def multiply(x: AnyArray, y: AnyArray) -> AnyArray:
    """The product, element by element."""
    return x * y


def scale(x: AnyArray, factor: float) -> AnyArray:
    """All elements times one number."""
    return x * factor


def concat(*parts: AnyArray) -> AnyArray:
    """The parts side by side along the channels."""
    return np.concatenate(parts, axis=1)


def split(x: AnyArray, parts: int) -> tuple[AnyArray, ...]:
    """Equal parts along the channels."""
    return tuple(np.split(x, parts, axis=1))


def conv(
    x: AnyArray,
    weight: AnyArray,
    bias: AnyArray | float = 0.0,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: Callable[[AnyArray], AnyArray] = identity,
) -> AnyArray:
    """A convolution of odd kernel size that keeps the image size (but for the stride), activated.

    `weight` has the axes (output channels, input channels of one group, height, width).
    """
    pad = weight.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    # axes: image, channel, row, column, row and column of the kernel
    windows = sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    pairs = zip(np.split(windows, groups, axis=1), np.split(weight, groups), strict=True)
    # image, row, column, channel -> image, channel, row, column
    parts = [np.tensordot(window, part, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2) for window, part in pairs]
    return activation(np.concatenate(parts, axis=1) + np.reshape(bias, (1, -1, 1, 1)))


def batch_norm(x: AnyArray, factor: AnyArray, offset: AnyArray) -> AnyArray:
    """The normalization of inference, where mean and variance are part of one factor and offset per channel."""
    return x * factor.reshape(1, -1, 1, 1) + offset.reshape(1, -1, 1, 1)


def max_pool(x: AnyArray) -> AnyArray:
    """The largest of each 3 x 3 neighbourhood, edges included."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    largest: AnyArray = sliding_window_view(padded, (3, 3), axis=(2, 3)).max(axis=(4, 5))
    return largest


def average_all(x: AnyArray) -> AnyArray:
    """The mean of each channel, as an image of one element."""
    means: AnyArray = x.mean(axis=(2, 3), keepdims=True)
    return means


def to_groups(x: AnyArray, groups: int) -> AnyArray:
    """The channels in two axes: group, channel of the group."""
    n, c, height, width = x.shape
    return x.reshape(n, groups, c // groups, height, width)


def swap_groups(x: AnyArray) -> AnyArray:
    """The axes of `to_groups` exchanged."""
    return x.swapaxes(1, 2)


def from_groups(x: AnyArray) -> AnyArray:
    """The two channel axes as one again."""
    n, _, _, height, width = x.shape
    return x.reshape(n, -1, height, width)


def shuffle_channels(x: AnyArray, groups: int) -> AnyArray:
    """The first channels of all groups, then the second ones, and so on."""
    return from_groups(swap_groups(to_groups(x, groups)))


def flatten(x: AnyArray) -> AnyArray:
    """One row for each image."""
    return x.reshape(len(x), -1)


def dense(
    x: AnyArray, weight: AnyArray, bias: AnyArray, *, activation: Callable[[AnyArray], AnyArray] = identity
) -> AnyArray:
    """A fully connected layer, activated; `weight` has the axes (input, output)."""
    return activation(x @ weight + bias)


def softmax(x: AnyArray) -> AnyArray:
    """Each row as probabilities."""
    powers: AnyArray = np.exp(x - x.max(axis=1, keepdims=True))
    total: AnyArray = powers.sum(axis=1, keepdims=True)
    return powers / total


def top_k(x: AnyArray, k: int) -> tuple[AnyArray, AnyArray]:
    """The `k` largest of each row and where they are, the largest first."""
    places = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, places, axis=1), places

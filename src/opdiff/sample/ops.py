"""Kernels of the sample network: plain numpy in float64 on batches of channels-first images; and its image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray


def identity(x: AnyArray) -> AnyArray:
    """Return the input; layout and element type change when it is stored."""
    return x


def relu(x: AnyArray) -> AnyArray:
    """Rectified linear unit."""
    return np.maximum(x, 0)


def clip(x: AnyArray, low: float, high: float) -> AnyArray:
    """Clip to limits, infinities included."""
    return np.clip(x, low, high)


def relu6(x: AnyArray) -> AnyArray:
    """Clip to 0..6."""
    return clip(x, 0, 6)


def sigmoid(x: AnyArray) -> AnyArray:
    """Logistic function."""
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x: AnyArray) -> AnyArray:
    """Piecewise linear approximation of the logistic function."""
    return clip(x / 6 + 0.5, 0, 1)


def hard_swish(x: AnyArray) -> AnyArray:
    """The input times its hard sigmoid."""
    return x * hard_sigmoid(x)


def gelu(x: AnyArray) -> AnyArray:
    """Gaussian error linear unit, tanh form."""
    step: AnyArray = 1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * step


def add(x: AnyArray, y: AnyArray, *, activation: Callable[[AnyArray], AnyArray] = identity) -> AnyArray:
    """Sum with activation."""
    return activation(x + y)


def multiply(x: AnyArray, y: AnyArray) -> AnyArray:
    """Element-wise product."""
    return x * y


def scale(x: AnyArray, factor: float) -> AnyArray:
    """Product with a scalar."""
    return x * factor


def concat(*parts: AnyArray) -> AnyArray:
    """Concatenation along the channels."""
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
    """Convolution of odd kernel size that keeps the image size (apart from the stride), with activation.

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
    """Batch normalization of inference: one factor and offset per channel."""
    return x * factor.reshape(1, -1, 1, 1) + offset.reshape(1, -1, 1, 1)


def max_pool(x: AnyArray) -> AnyArray:
    """Maximum of each 3 x 3 neighbourhood, edges included."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    largest: AnyArray = sliding_window_view(padded, (3, 3), axis=(2, 3)).max(axis=(4, 5))
    return largest


def average_all(x: AnyArray) -> AnyArray:
    """Mean of each channel, as a 1 x 1 image."""
    means: AnyArray = x.mean(axis=(2, 3), keepdims=True)
    return means


def to_groups(x: AnyArray, groups: int) -> AnyArray:
    """Split the channels into two axes: group, channel of the group."""
    n, c, height, width = x.shape
    return x.reshape(n, groups, c // groups, height, width)


def swap_groups(x: AnyArray) -> AnyArray:
    """Swap the axes of `to_groups`."""
    return x.swapaxes(1, 2)


def from_groups(x: AnyArray) -> AnyArray:
    """Merge the two channel axes."""
    n, _, _, height, width = x.shape
    return x.reshape(n, -1, height, width)


def shuffle_channels(x: AnyArray, groups: int) -> AnyArray:
    """Channel shuffle: the first channels of all groups, then the second ones, and so on."""
    return from_groups(swap_groups(to_groups(x, groups)))


def flatten(x: AnyArray) -> AnyArray:
    """One row for each image."""
    return x.reshape(len(x), -1)


def dense(
    x: AnyArray, weight: AnyArray, bias: AnyArray, *, activation: Callable[[AnyArray], AnyArray] = identity
) -> AnyArray:
    """Fully connected layer with activation; `weight` has the axes (input, output)."""
    return activation(x @ weight + bias)


def softmax(x: AnyArray) -> AnyArray:
    """Softmax of each row."""
    powers: AnyArray = np.exp(x - x.max(axis=1, keepdims=True))
    total: AnyArray = powers.sum(axis=1, keepdims=True)
    return powers / total


def top_k(x: AnyArray, k: int) -> tuple[AnyArray, AnyArray]:
    """The `k` largest values of each row and their indices, largest first."""
    indices = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, indices, axis=1), indices


def quantize(x: AnyArray, scale: float) -> AnyArray:
    """The nearest of 256 quantization steps of this size."""
    steps: AnyArray = np.clip(np.rint(x / scale), -128, 127)
    return steps


def fake_quantize(x: AnyArray, scale: float) -> AnyArray:
    """The nearest of 256 multiples of the scale."""
    return quantize(x, scale) * scale


def dequantize(x: AnyArray, scale: AnyArray, bias: AnyArray) -> AnyArray:
    """Sums of quantization steps as numbers, with one scale and bias per channel."""
    return x * scale.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def wave_image(seed: int, side: int, offsets: tuple[float, float, float] = (0, 0, 0)) -> AnyArray:
    """Waves of different lengths and directions plus noise, in the range of normalized pixels; offsets by channel."""
    noise = np.random.default_rng(seed).normal(0, 0.2, (1, 3, side, side))
    y, x = np.indices((side, side)) / side
    waves = np.stack([np.sin(7 * x + 3 * y), np.cos(5 * y - 9 * x), np.sin(11 * x * y)])
    image: AnyArray = (noise + (waves + np.reshape(offsets, (3, 1, 1)))).astype(np.float32)
    return image

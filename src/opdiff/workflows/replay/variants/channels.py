"""Axes that may be the axis of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

_MAX_CHANNELS = 4096


def channel_axes(array: AnyArray) -> list[int]:
    """Return the axes that may be the axis of channels: the second and the last."""
    axes = dict.fromkeys(axis for axis in (1, array.ndim - 1) if 0 <= axis < array.ndim)
    return [axis for axis in axes if 1 < array.shape[axis] <= _MAX_CHANNELS]


def by_axis(array: AnyArray, axis: int) -> AnyArray:
    """Return the slices along an axis as rows."""
    moved: AnyArray = np.moveaxis(array, axis, 0)
    return moved.reshape(moved.shape[0], -1)

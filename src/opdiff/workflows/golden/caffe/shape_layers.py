"""Layers that move elements: concatenation, slices, other shapes and orders of axes."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from opdiff.workflows.golden.caffe.builder import Blob, UnsupportedLayerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.workflows.golden.caffe.builder import GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer, Parameters


def concat(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """Blobs one behind the other along an axis."""
    first = inputs[0]
    axis = _axis(first, layer.parameters("concat_param"), "concat_dim")
    extent = sum(blob.shape[axis] for blob in inputs)
    shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
    return graph.add("Concat", *inputs, shape=shape, axis=axis)


def slices(graph: GraphBuilder, layer: Layer, x: Blob) -> list[Blob]:
    """Parts along an axis, at given points or equal ones."""
    parameters = layer.parameters("slice_param")
    axis, count = _axis(x, parameters, "slice_dim"), len(layer.tops)
    points = parameters.integers("slice_point")
    if not points and x.shape[axis] % count:
        raise UnsupportedLayerError(f"{x.shape[axis]} elements in {count} equal parts")
    step = x.shape[axis] // count
    bounds = (0, *(points or range(step, x.shape[axis], step)), x.shape[axis])
    sizes = [end - start for start, end in pairwise(bounds)]
    if len(sizes) != count or min(sizes) <= 0:
        raise UnsupportedLayerError(f"slice points {list(points)} for {count} tops")
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    return graph.add_several("Split", x, graph.integers(*sizes), shapes=shapes, axis=axis)


def _axis(x: Blob, parameters: Parameters, old_name: str) -> int:
    """Return the axis of a layer; older nets call it otherwise."""
    return x.axis(parameters.integer(old_name if parameters.has(old_name) else "axis", 1))


def copies(graph: GraphBuilder, layer: Layer, x: Blob) -> list[Blob]:
    """The same elements under each top."""
    return [graph.add("Identity", x) for _ in layer.tops]


def flatten(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Several axes as one."""
    parameters = layer.parameters("flatten_param")
    first, last = x.axis(parameters.integer("axis", 1)), x.axis(parameters.integer("end_axis", -1))
    joined = prod(x.shape[first : last + 1])
    return graph.reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def reshape(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Another shape for all axes or some; 0 keeps an extent, -1 follows from the others."""
    parameters = layer.parameters("reshape_param")
    dims = parameters.below("shape").integers("dim")
    start = parameters.integer("axis", 0)
    start = start if start >= 0 else x.rank + 1 + start
    axes = parameters.integer("num_axes", -1)
    end = x.rank if axes == -1 else start + axes
    inner = [x.shape[start + number] if dim == 0 else dim for number, dim in enumerate(dims)]
    shape = [*x.shape[:start], *inner, *x.shape[end:]]
    if -1 in shape:
        known = prod(dim for dim in shape if dim != -1)
        shape[shape.index(-1)] = prod(x.shape) // known if known else 0
    if prod(shape) != prod(x.shape):
        raise UnsupportedLayerError(f"{list(x.shape)} as {shape}")
    return graph.reshape(x, tuple(shape))


def permute(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Another order of axes; axes that are not named follow in their order."""
    named = [x.axis(axis) for axis in layer.parameters("permute_param").integers("order")]
    order = (*named, *(axis for axis in range(x.rank) if axis not in named))
    return graph.add("Transpose", x, shape=tuple(x.shape[axis] for axis in order), perm=order)


def tile(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Repetition along an axis."""
    parameters = layer.parameters("tile_param")
    axis, tiles = x.axis(parameters.integer("axis", 1)), parameters.integer("tiles", 1)
    repeats = [tiles if number == axis else 1 for number in range(x.rank)]
    shape = tuple(extent * count for extent, count in zip(x.shape, repeats, strict=True))
    return graph.add("Tile", x, graph.integers(*repeats), shape=shape)


def crop(graph: GraphBuilder, layer: Layer, inputs: Sequence[Blob]) -> Blob:
    """A part with the extents of the second blob, from given offsets."""
    x, like = inputs
    parameters = layer.parameters("crop_param")
    axis = x.axis(parameters.integer("axis", 2))
    axes = range(axis, x.rank)
    given = parameters.integers("offset") or (0,)
    offsets = given if len(given) == len(axes) else given * len(axes)
    ends = [offset + like.shape[number] for offset, number in zip(offsets, axes, strict=True)]
    if any(end > x.shape[number] for end, number in zip(ends, axes, strict=True)):
        raise UnsupportedLayerError("offsets behind the end")
    names = [graph.integers(*offsets), graph.integers(*ends), graph.integers(*axes)]
    return graph.add("Slice", x, *names, shape=(*x.shape[:axis], *like.shape[axis:]))


def shuffle(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Channels of groups in turn."""
    group = layer.parameters("shuffle_channel_param").integer("group", 1)
    n, channels, *extents = x.shape
    grouped = graph.reshape(x, (n, group, channels // group, *extents))
    order = (0, 2, 1, *range(3, x.rank + 1))
    shape = (n, channels // group, group, *extents)
    turned = graph.add("Transpose", grouped, shape=shape, perm=order)
    return graph.reshape(turned, x.shape)

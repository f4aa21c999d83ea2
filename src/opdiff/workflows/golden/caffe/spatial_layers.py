"""Layers over the axes of an image: windows that move, sizes, slices, shapes and orders of axes."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, prod
from typing import TYPE_CHECKING

from opdiff.workflows.golden.caffe.arithmetic_layers import weights_of
from opdiff.workflows.golden.caffe.builder import Blob, UnsupportedLayerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.onnx_encoder import Attribute
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.caffe.builder import GraphBuilder
    from opdiff.workflows.golden.caffe.net import Layer, Parameters

Pair = tuple[int, int]
_MAX, _AVERAGE = ("MAX", "0"), ("AVE", "1")


def convolution(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Convolution over two axes."""
    return _convolve(graph, layer, x, layer.parameters("convolution_param").integer("group", 1))


def depthwise_convolution(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Convolution with a group for each channel."""
    return _convolve(graph, layer, x, _image(x)[1])


def _convolve(graph: GraphBuilder, layer: Layer, x: Blob, group: int) -> Blob:
    n, _, *extents = _image(x)
    window = _Window(layer.parameters("convolution_param"))
    kernel = weights_of(layer, 0).reshape((-1, x.shape[1] // group, *window.kernel))
    shape = (
        n,
        kernel.shape[0],
        *(
            (extent + 2 * pad - (dilation * (size - 1) + 1)) // stride + 1
            for extent, size, pad, stride, dilation in zip(extents, *window.axes, strict=True)
        ),
    )
    weights = (graph.constant(kernel), *_bias(graph, layer))
    return graph.add("Conv", x, *weights, shape=shape, **window.attributes(group))


def deconvolution(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Transposed convolution over two axes."""
    n, channels, *extents = _image(x)
    parameters = layer.parameters("convolution_param")
    group, window = parameters.integer("group", 1), _Window(parameters)
    kernel = weights_of(layer, 0).reshape((channels, -1, *window.kernel))
    shape = (
        n,
        kernel.shape[1] * group,
        *(
            stride * (extent - 1) + dilation * (size - 1) + 1 - 2 * pad
            for extent, size, pad, stride, dilation in zip(extents, *window.axes, strict=True)
        ),
    )
    weights = (graph.constant(kernel), *_bias(graph, layer))
    return graph.add("ConvTranspose", x, *weights, shape=shape, **window.attributes(group))


def _bias(graph: GraphBuilder, layer: Layer) -> list[str]:
    has_bias = layer.parameters("convolution_param").flag("bias_term", default=True)
    return [graph.constant(weights_of(layer, 1).reshape(-1))] if has_bias else []


class _Window:
    """Extents of a window: kernel, padding, strides and dilation by axis."""

    def __init__(self, parameters: Parameters) -> None:
        self.kernel = _pair(parameters, "kernel_size", "kernel", 0)
        self.pad = _pair(parameters, "pad", "pad", 0)
        self.stride = _pair(parameters, "stride", "stride", 1)
        self.dilation = _pair(parameters, "dilation", "dilation", 1)

    @property
    def axes(self) -> tuple[Pair, Pair, Pair, Pair]:
        """Kernel, padding, strides, dilation."""
        return self.kernel, self.pad, self.stride, self.dilation

    def attributes(self, group: int) -> dict[str, Attribute]:
        """Return the attributes of ONNX."""
        return {
            "kernel_shape": self.kernel, "pads": (*self.pad, *self.pad), "strides": self.stride,
            "dilations": self.dilation, "group": group,
        }  # fmt: skip


def _pair(parameters: Parameters, both: str, single: str, default: int) -> Pair:
    """Return the values of both axes: `_h` and `_w`, or one or two repeated numbers."""
    if parameters.has(f"{single}_h") or parameters.has(f"{single}_w"):
        return parameters.integer(f"{single}_h", default), parameters.integer(f"{single}_w", default)
    values = parameters.integers(both)
    if len(values) > 2:
        raise UnsupportedLayerError("windows of more than two axes")
    return (values[0], values[-1]) if values else (default, default)


def pooling(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Maximum or mean of a window; the last window may begin inside and end behind the image."""
    n, channels, *extents = _image(x)
    parameters = layer.parameters("pooling_param")
    kind = parameters.word("pool", "MAX")
    if kind not in (*_MAX, *_AVERAGE) or len(layer.tops) > 1:
        raise UnsupportedLayerError(f"pool: {kind}, or a mask of maxima")
    if parameters.flag("global_pooling", default=False):
        op_type = "GlobalMaxPool" if kind in _MAX else "GlobalAveragePool"
        return graph.add(op_type, x, shape=(n, channels, 1, 1))
    window = _Window(parameters)
    floors = parameters.word("round_mode", "CEIL") in ("FLOOR", "1") or not parameters.flag("ceil_mode", default=True)
    sizes = [
        _pooled_extent(extent, size, pad, stride, floors=floors)
        for extent, size, pad, stride in zip(extents, window.kernel, window.pad, window.stride, strict=True)
    ]
    attributes: dict[str, Attribute] = {
        "kernel_shape": window.kernel, "pads": (*window.pad, *window.pad), "strides": window.stride,
        "ceil_mode": int(not floors),
    }  # fmt: skip
    if kind in _MAX:
        return graph.add("MaxPool", x, shape=(n, channels, *sizes), **attributes)
    return graph.add("AveragePool", x, shape=(n, channels, *sizes), **attributes, count_include_pad=1)


def _pooled_extent(extent: int, size: int, pad: int, stride: int, *, floors: bool) -> int:
    steps = (extent + 2 * pad - size) / stride
    count = int(steps // 1 if floors else ceil(steps)) + 1
    return count - 1 if pad and (count - 1) * stride >= extent + pad else count


def lrn(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Local response normalization across channels, or within each."""
    parameters = layer.parameters("lrn_param")
    size, alpha = parameters.integer("local_size", 5), parameters.number("alpha", 1.0)
    beta = parameters.number("beta", 0.75)
    if parameters.word("norm_region", "ACROSS_CHANNELS") in ("ACROSS_CHANNELS", "0"):
        return graph.add("LRN", x, size=size, alpha=alpha, beta=beta, bias=parameters.number("k", 1.0))
    pad = (size - 1) // 2
    squares = graph.add("Mul", x, x)
    means = graph.add("AveragePool", squares, kernel_shape=(size, size), pads=(pad,) * 4, count_include_pad=1)
    scaled = graph.add("Mul", means, graph.scalar(alpha))
    shifted = graph.add("Add", scaled, graph.scalar(1.0))
    factors = graph.add("Pow", shifted, graph.scalar(-beta))
    return graph.add("Mul", x, factors)


def interpolation(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Bilinear change of size in which corners stay where they are."""
    parameters = layer.parameters("interp_param")
    if parameters.integer("pad_beg", 0) or parameters.integer("pad_end", 0):
        raise UnsupportedLayerError("padding")
    extents = _image(x)[2:]
    shrink, zoom = parameters.integer("shrink_factor", 1), parameters.integer("zoom_factor", 1)
    sizes = [(extent - 1) // shrink + 1 for extent in extents]
    sizes = [size + (size - 1) * (zoom - 1) for size in sizes]
    height, width = parameters.integer("height", 0), parameters.integer("width", 0)
    sizes = [height, width] if height and width else sizes
    shape = (*x.shape[:2], *sizes)
    return _resize(graph, x, shape, mode="linear", coordinate_transformation_mode="align_corners")


def upsample(graph: GraphBuilder, layer: Layer, x: Blob) -> Blob:
    """Repetition of each element in both directions."""
    scale = layer.parameters("upsample_param").integer("scale", 1)
    n, channels, height, width = _image(x)
    shape = (n, channels, height * scale, width * scale)
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resize(graph, x, shape, **mode)


def _resize(graph: GraphBuilder, x: Blob, shape: Shape, **attributes: Attribute) -> Blob:
    return graph.add("Resize", x, "", "", graph.integers(*shape), shape=shape, **attributes)


def _image(x: Blob) -> Shape:
    if x.rank != 4:
        raise UnsupportedLayerError(f"a blob of {x.rank} axes instead of 4")
    return x.shape


# Other shapes and orders of elements


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

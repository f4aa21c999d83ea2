"""Convolutions and matrix products, of floats and of 8-bit integers, and quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dtypes import INT32, UINT64, Kind
from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.onnx_encoder import Attribute
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder, Operand

_FLOAT, _INT8, _INT32 = 1, 3, 6
# Bit 46 of a packed scale, in its upper half: results are signed.
_IS_SIGNED = np.uint32(1 << 14)
_ROUNDING = {"Round": "Round", "": "Round", "Floor": "Floor", "Ceil": "Ceil"}


def _spatial(call: Call, name: str) -> tuple[int, int]:
    """Return height and width of a list with an entry for each axis, or for height and width only."""
    values = call.integers(name)
    if len(values) == 4:
        axes = call.get("data_format", "NCHW")
        axes = axes if axes in ("NCHW", "NHWC") else "NCHW"
        return values[axes.index("H")], values[axes.index("W")]
    return values[0], values[-1]


def _pads(call: Call) -> tuple[int, int, int, int]:
    """Return top, left, bottom, right; the graph engine has top, bottom, left, right."""
    pads = call.integers("pads")
    if len(pads) != 4 or min(pads) < 0:
        raise UnsupportedOperatorError(f"pads {list(pads)}")
    return pads[0], pads[2], pads[1], pads[3]


def _dilations(call: Call) -> tuple[int, int]:
    return _spatial(call, "dilations") if call.attributes.get("dilations") else (1, 1)


def _window(call: Call) -> dict[str, Attribute]:
    return {"strides": _spatial(call, "strides"), "dilations": _dilations(call), "pads": _pads(call)}


def guess_windows(call: Call) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield strides and pads that lead to the shape of the output: equal on both sides, or smaller at the start."""
    sizes = call.operand(0).shape[2:], call.operand(1).shape[2:], call.output_shapes[0][2:]
    if any(len(size) != 2 for size in sizes):
        return
    axes = list(zip(*sizes, strict=True))
    strides = tuple(max(round(size / max(result, 1)), 1) for size, _, result in axes)
    missing = [
        max((result - 1) * stride + kernel - size, 0)
        for (size, kernel, result), stride in zip(axes, strides, strict=True)
    ]
    equal = [(pad + 1) // 2 for pad in missing]
    yield {"strides": strides, "pads": (equal[0], equal[0], equal[1], equal[1])}
    yield {"strides": strides, "pads": tuple(side for pad in missing for side in (pad // 2, pad - pad // 2))}


def convolution(graph: OnnxBuilder, call: Call) -> str:
    """Build `Conv2D`."""
    data, weight = call.operand(0), call.operand(1)
    attributes = {**_window(call), "group": max(data.shape[1] // weight.shape[1], 1)}
    return _convolve(graph, call, weight.tensor, attributes)


def depthwise_convolution(graph: OnnxBuilder, call: Call) -> str:
    """Build `DepthwiseConv2D`, whose weights have one channel for each of the input, in either of two orders."""
    data, weight = call.operand(0), call.operand(1)
    shape = [weight.shape[0] * weight.shape[1], 1, *weight.shape[2:]]
    kernel = graph.reshape(weight.tensor, shape)
    return _convolve(graph, call, kernel, {**_window(call), "group": data.shape[1]})


def _convolve(graph: OnnxBuilder, call: Call, kernel: str, attributes: dict[str, Attribute]) -> str:
    data = call.operand(0)
    if data.dtype.kind is Kind.FLOAT:
        return graph.add("Conv", [data.tensor, kernel, *_bias(graph, call, 2)], attributes)
    result = graph.add("ConvInteger", [data.tensor, kernel], attributes)
    operands, scale = _without_scale(call)
    if len(operands) > 2:
        bias = graph.reshape(operands[2].tensor, [1, -1, 1, 1])
        result = graph.add("Add", [result, graph.add("Cast", [bias], {"to": _INT32})])
    return _dequantized(graph, call, result, scale)


def _without_scale(call: Call) -> tuple[tuple[Operand, ...], Operand | None]:
    """Return the inputs of a product of integers, and the packed scale of a dequantization that is fused into it."""
    last = call.operands[-1]
    return (call.operands[:-1], last) if last.dtype is UINT64 else (call.operands, None)


def _dequantized(graph: OnnxBuilder, call: Call, result: str, scale: Operand | None) -> str:
    """Add the dequantization of a result, if there is one."""
    if scale is None:
        return result
    sums = replace(call.operand(0), tensor=result, shape=call.output_shapes[0], dtype=INT32)
    return scaled(graph, sums, scale)


def _bias(graph: OnnxBuilder, call: Call, index: int) -> list[str]:
    if len(call.operands) <= index:
        return []
    return [graph.reshape(call.operand(index).tensor, [-1])]


class TransposedConvolution(Struct, frozen=True):
    """Builder of a transposed convolution; fields are the positions of its inputs."""

    data: int
    weight: int
    bias: int

    def __call__(self, graph: OnnxBuilder, call: Call) -> str:
        """Build it; what is added at the end follows from the shape of the output."""
        data, weight = call.operand(self.data), call.operand(self.weight)
        attributes = {**_window(call), "group": max(call.get("groups", 1), 1)}
        added = self._added(call, data, weight)
        if min(added) < 0:
            raise UnsupportedOperatorError(f"output shape {list(call.output_shapes[0])}")
        tensors = [data.tensor, weight.tensor, *_bias(graph, call, self.bias)]
        return graph.add("ConvTranspose", tensors, {**attributes, "output_padding": added})

    def _added(self, call: Call, data: Operand, weight: Operand) -> tuple[int, ...]:
        top, left, bottom, right = _pads(call)
        strides, dilations = _spatial(call, "strides"), _dilations(call)
        return tuple(
            call.output_shapes[0][axis + 2]
            - (data.shape[axis + 2] - 1) * strides[axis]
            - (weight.shape[axis + 2] - 1) * dilations[axis]
            - 1
            + pads
            for axis, pads in enumerate((top + bottom, left + right))
        )


def matrix_product(first: str, second: str) -> Builder:
    """Return the builder of a product whose attributes say which operands are transposed."""

    def build(graph: OnnxBuilder, call: Call) -> str:
        left, right = call.operand(0), call.operand(1)
        tensors = [
            _transposed(graph, left) if _flag(call, first) else left.tensor,
            _transposed(graph, right) if _flag(call, second) else right.tensor,
        ]
        is_float = left.dtype.kind is Kind.FLOAT
        operands, scale = _without_scale(call)
        result = graph.add("MatMul" if is_float else "MatMulInteger", tensors)
        result = graph.add("Add", [result, operands[2].tensor]) if len(operands) > 2 else result
        return _dequantized(graph, call, result, scale)

    return build


def _flag(call: Call, name: str) -> bool:
    return bool(call.attributes.get(name, False))


def _transposed(graph: OnnxBuilder, operand: Operand) -> str:
    order = (*range(operand.rank - 2), operand.rank - 1, operand.rank - 2)
    return graph.add("Transpose", [operand.tensor], {"perm": order})


def fully_connected(graph: OnnxBuilder, call: Call) -> str:
    """Build `FullyConnection`: all axes from `axis` on are one."""
    data, weight = call.operand(0), call.operand(1)
    axis = max(call.get("axis", 1), 1)
    matrix = graph.add("Flatten", [data.tensor], {"axis": axis})
    columns = weight.shape[0] if call.get("num_output", 0) == weight.shape[0] else weight.shape[-1]
    is_transposed = weight.shape[0] == columns and not call.get("transpose", default=False)
    rows = [columns, -1] if is_transposed else [-1, columns]
    kernel = graph.reshape(weight.tensor, rows)
    return graph.add("Gemm", [matrix, kernel, *_bias(graph, call, 2)], {"transB": int(is_transposed)})


def quantize(graph: OnnxBuilder, call: Call) -> str:
    """Build `AscendQuant`: scale, offset, rounding to 8 bits with saturation."""
    mode = call.get("round_mode", "Round")
    if mode not in _ROUNDING:
        raise UnsupportedOperatorError(f"round_mode {mode}")
    scaled = graph.add("Mul", [call.operand(0).tensor, graph.number(_scale(call))])
    shifted = graph.add(_ROUNDING[mode], [graph.add("Add", [scaled, graph.number(_known(call, "offset"))])])
    clipped = graph.add("Clip", [shifted, graph.number(-128.0), graph.number(127.0)])
    return graph.add("Cast", [clipped], {"to": _INT8})


def _known(call: Call, name: str) -> float:
    """Return a number that rules always have, unless they were written without attributes."""
    if name not in call.attributes:
        raise UnsupportedOperatorError(f"{name} is not known")
    return call.get(name, 0.0)


def _scale(call: Call) -> float:
    scale = _known(call, "scale")
    return scale * scale if call.get("sqrt_mode", default=False) else scale


def dequantize(graph: OnnxBuilder, call: Call) -> str:
    """Build `AscendDequant`: a scale for each channel, or for all."""
    result = scaled(graph, call.operand(0), call.operand(1), is_squared=call.get("sqrt_mode", default=False))
    return graph.add("Relu", [result]) if call.get("relu_flag", default=False) else result


def scaled(graph: OnnxBuilder, data: Operand, scale: Operand, *, is_squared: bool = False) -> str:
    """Add the product of integers with a scale for each channel, or for all."""
    factors = dequantization_scales(scale)
    if is_squared:
        factors = factors * factors
    if factors.size > 1 and factors.size not in data.shape[1:]:
        raise UnsupportedOperatorError(f"{factors.size} scales for a tensor of shape {list(data.shape)}")
    is_image = data.rank > 3 and factors.size > 1
    shape = [1, -1, *[1] * (data.rank - 2)] if is_image else [-1]
    wide = graph.reshape(graph.constant(factors), shape)
    return graph.add("Mul", [graph.add("Cast", [data.tensor], {"to": _FLOAT}), wide])


def dequantization_scales(scale: Operand) -> AnyArray:
    """Return scales as float32; in 64-bit integers they are the bits of the lower half.

    Raises:
        UnsupportedOperatorError: the upper half has a shift or an offset.
    """
    values = np.ravel(scale.load())
    if scale.dtype is UINT64:
        halves = values.astype("<u8").view("<u4")
        if (halves[1::2] & ~_IS_SIGNED).any():
            raise UnsupportedOperatorError("the scales have a shift or an offset in their upper bits")
        return halves[::2].copy().view("<f4")
    return values.astype(np.float32)


def restore(graph: OnnxBuilder, call: Call) -> str:
    """Build `AscendAntiQuant`: offset, then scale."""
    numbers = graph.add("Cast", [call.operand(0).tensor], {"to": _FLOAT})
    shifted = graph.add("Add", [numbers, graph.number(_known(call, "offset"))])
    return graph.add("Mul", [shifted, graph.number(_scale(call))])


LINEAR: dict[str, Builder] = {
    "AscendAntiQuant": restore,
    "AscendDequant": dequantize,
    "AscendQuant": quantize,
    "BatchMatMul": matrix_product("adj_x1", "adj_x2"),
    "BatchMatMulV2": matrix_product("adj_x1", "adj_x2"),
    "BatchMatMulV3": matrix_product("adj_x1", "adj_x2"),
    "Conv2D": convolution,
    "Conv2DBackpropInput": TransposedConvolution(2, 1, 3),
    "Conv2DBackpropInputD": TransposedConvolution(1, 0, 2),
    "Conv2DTranspose": TransposedConvolution(1, 2, 3),
    "Conv2DTransposeD": TransposedConvolution(0, 1, 2),
    "Deconvolution": TransposedConvolution(0, 1, 2),
    "DepthwiseConv2D": depthwise_convolution,
    "DepthwiseConv2dNative": depthwise_convolution,
    "FullyConnection": fully_connected,
    "MatMul": matrix_product("transpose_x1", "transpose_x2"),
    "MatMulV2": matrix_product("transpose_x1", "transpose_x2"),
    "MatMulV3": matrix_product("transpose_x1", "transpose_x2"),
}
"""Builders by type."""

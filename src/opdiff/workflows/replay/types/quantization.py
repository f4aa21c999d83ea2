"""Quantization and dequantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.dtypes import UINT64
from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder, Operand

_FLOAT, _INT8 = 1, 3
# Bit 46 of a packed scale, in its upper half: results are signed.
_IS_SIGNED = np.uint32(1 << 14)
_ROUNDING = {"Round": "Round", "": "Round", "Floor": "Floor", "Ceil": "Ceil"}


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
    wide = graph.add("Reshape", [graph.constant(factors), graph.integers(shape)])
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


QUANTIZATION: dict[str, Builder] = {
    "AscendAntiQuant": restore,
    "AscendDequant": dequantize,
    "AscendQuant": quantize,
}
"""Builders by type."""

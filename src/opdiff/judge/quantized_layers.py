"""Layers of the original model that quantization changed, by the names of compiled operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import GraphNode

# Names of operators that AMCT inserts for a layer: `conv1_quant_layer`, `conv1.dequant`, `conv1/AscendQuant`.
_INSERTED = re.compile(
    r"(.+?)(?:_(?:anti_|de)?quant_layer|\.(?:weight_|anti_|de)?quant(?:\..+)?|/(?:Ascend|Anti)(?:Weight|Anti)?(?:De)?[Qq]uant.*)"
)
# Names that TensorFlow and exporters of ONNX give to such layers: the type, and a number.
_NAMED_BY_TYPE = re.compile(r"(?:.*[/.])?(?:\w*Conv\w*?|depthwise|MatMul|Gemm|AveragePool|AvgPool)(?:_[0-9]+)?")
# Types of compiled operators whose layers AMCT quantizes; of `Pooling` only the average, which the type does not tell.
_QUANTIZABLE_TYPES = frozenset({
    "Conv2D", "Conv3D", "DepthwiseConv2D", "Conv2DTranspose", "Conv2DTransposeD", "Deconvolution", "MatMul", "MatMulV2",
    "MatMulV3", "BatchMatMul", "BatchMatMulV2", "FullyConnection", "Gemm", "AvgPool", "AvgPoolV2",
})  # fmt: skip


def quantized_layer(node: GraphNode) -> str:
    """Return the quantized layer that an operator was compiled from; empty if none is known."""
    inserted = (match[1] for name in (*node.originals, node.name) if (match := _INSERTED.fullmatch(name)))
    layer = next(inserted, "")
    if layer or node.op_type not in _QUANTIZABLE_TYPES:
        return layer
    # Layers of other frameworks have free names; there the operator that others were fused into comes first.
    by_type = (name for name in node.originals if _NAMED_BY_TYPE.fullmatch(name))
    return next(by_type, node.originals[0] if node.originals else "")


def end_layers(nodes: Iterable[GraphNode]) -> tuple[str, ...]:
    """Return the first and the last layer in the order of execution that can be quantized."""
    layers = [layer for node in nodes if (layer := quantized_layer(node))]
    return tuple(dict.fromkeys((*layers[:1], *layers[-1:])))

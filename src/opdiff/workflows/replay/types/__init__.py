"""One-operator ONNX models made from the types and attributes of compiled operators, one file for each family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.elementwise import ELEMENTWISE
from opdiff.workflows.replay.types.linear import LINEAR
from opdiff.workflows.replay.types.movement import MOVEMENT
from opdiff.workflows.replay.types.normalizations import NORMALIZATIONS
from opdiff.workflows.replay.types.reductions import REDUCTIONS

if TYPE_CHECKING:
    from opdiff.workflows.replay.types.call import Builder

BUILDERS: dict[str, Builder] = {
    **ELEMENTWISE,
    **LINEAR,
    **MOVEMENT,
    **NORMALIZATIONS,
    **REDUCTIONS,
}
"""Builders of all types that can be computed without the original model."""

IMAGE_TYPES = frozenset({
    "AscendDequant", "AvgPool", "AvgPoolV2", "BNInfer", "BNInferenceD", "BNTrainingReduce", "BNTrainingUpdate",
    "BatchNorm", "BiasAdd", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DTranspose",
    "Conv2DTransposeD", "Deconvolution", "DepthwiseConv2D", "DepthwiseConv2dNative", "GlobalAveragePool", "GroupNorm",
    "InstanceNorm", "MaxPool", "MaxPoolV3", "PRelu", "Pooling", "Resize", "ResizeBilinearV2", "ResizeBilinearV2D",
    "ResizeNearestNeighborV2", "ResizeNearestNeighborV2D", "SyncResizeBilinearV2",
})  # fmt: skip
"""Types whose operands are images, computed in the order NCHW."""

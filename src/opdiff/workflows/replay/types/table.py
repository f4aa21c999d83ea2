"""Builders of all types that can be computed without the original model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.elementwise import ELEMENTWISE
from opdiff.workflows.replay.types.linear import LINEAR
from opdiff.workflows.replay.types.movement import MOVEMENT
from opdiff.workflows.replay.types.normalizations import NORMALIZATIONS
from opdiff.workflows.replay.types.quantization import QUANTIZATION
from opdiff.workflows.replay.types.reductions import REDUCTIONS
from opdiff.workflows.replay.types.resizing import RESIZING
from opdiff.workflows.replay.types.selection import SELECTIONS

if TYPE_CHECKING:
    from opdiff.workflows.replay.types.call import Builder

BUILDERS: dict[str, Builder] = {
    **ELEMENTWISE,
    **LINEAR,
    **MOVEMENT,
    **NORMALIZATIONS,
    **QUANTIZATION,
    **REDUCTIONS,
    **RESIZING,
    **SELECTIONS,
}
"""Builders by type."""

IMAGE_TYPES = frozenset({
    "AscendDequant", "AvgPool", "AvgPoolV2", "BNInfer", "BNInferenceD", "BNTrainingReduce", "BNTrainingUpdate",
    "BatchNorm", "BiasAdd", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DTranspose",
    "Conv2DTransposeD", "Deconvolution", "DepthwiseConv2D", "DepthwiseConv2dNative", "GlobalAveragePool", "GroupNorm",
    "InstanceNorm", "MaxPool", "MaxPoolV3", "PRelu", "Pooling", "Resize", "ResizeBilinearV2", "ResizeBilinearV2D",
    "ResizeNearestNeighborV2", "ResizeNearestNeighborV2D", "SyncResizeBilinearV2",
})  # fmt: skip
"""Types whose operands are images, computed in the order NCHW."""

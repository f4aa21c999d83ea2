"""Types of the operators that convert numbers to quantized values and back."""

from __future__ import annotations

QUANTIZING_TYPES = frozenset({"AscendQuant", "AscendQuantV2", "AscendWeightQuant"})
DEQUANTIZING_TYPES = frozenset({"AscendDequant", "AscendDequantS16", "AscendAntiQuant", "AscendAntiQuantV2"})
REQUANTIZING_TYPES = frozenset({"AscendRequant", "AscendRequantS16"})
"""Types with quantized inputs and outputs."""

QUANTIZATION_TYPES = QUANTIZING_TYPES | DEQUANTIZING_TYPES | REQUANTIZING_TYPES

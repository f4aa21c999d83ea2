"""Second names of tensors in fake-quantized ONNX models of AMCT.

The fake-quantized model computes each inserted operator of the deployed model by standard operators:

    L.quant       L.quant.fakequant.mul, …round, …add, …clip, …sub
    L.dequant     L.fakedequant.mul, or L.dequant.fakedequant.…; a cast may follow
    L.anti_quant  L.anti_quant.fake_antiquant.mul

Rules of the offline model have the names on the left. The result of a fused layer `L` is dequantized there, so that `L`
itself stands for the result of the dequantization, not for the bare convolution.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.workflows.golden.original import Alias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.workflows.golden.original import Operator

_QUANTIZED = re.compile(r"(.+\.quant)\.fakequant\.[^.]+")
_DEQUANTIZED = re.compile(r"(.+?)(?:\.dequant)?\.fakedequant(?:\.[^.]+)+")
_ANTI_QUANTIZED = re.compile(r"(.+\.anti_quant)\.fake_antiquant\.[^.]+")


def find_aliases(operators: Iterable[Operator]) -> tuple[Alias, ...]:
    """Return the names of the deployed model for the results of fake-quantizing operators."""
    found: dict[str, Alias] = {}
    for operator in operators:
        if operator.outputs and operator.outputs[0]:
            # The last operator of a group has its result.
            found |= {alias.name: alias for alias in _aliases(operator.name, operator.outputs[0])}
    return tuple(found.values())


def _aliases(name: str, tensor: str) -> Iterator[Alias]:
    inserted = _QUANTIZED.fullmatch(name) or _ANTI_QUANTIZED.fullmatch(name)
    if inserted:
        yield Alias(inserted[1], tensor)
    layer = _DEQUANTIZED.fullmatch(name)
    if layer:
        yield Alias(f"{layer[1]}.dequant", tensor)
        yield Alias(layer[1], tensor, replaces=True)

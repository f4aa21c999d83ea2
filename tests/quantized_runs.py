"""Runs of a quantized model on the device in which every operator has a small error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opdiff.sample import stages
from opdiff.sample.faults import corrupt_output
from opdiff.sample.quantized_network import ChainForms, build_chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import DeviceOp
    from opdiff.sample.stages import StageSample

# Relative errors of outputs; one layer has more than all others.
_USUAL, _LARGEST = 0.01, 0.04
WORST_LAYER = "block2/conv1"


def write_noisy_sample(directory: str, patch: pytest.MonkeyPatch) -> StageSample:
    """Write the sample of all stages; with fusion off, all outputs have errors of both signs on all elements."""

    def build(factors: Mapping[str, float] | None = None) -> ChainForms:
        forms = build_chain(factors)
        forms.fusion_off = [_noisy(op) for op in forms.fusion_off]
        return forms

    patch.setattr(stages, "build_chain", build)
    return stages.write_stage_sample(directory, [])


def _noisy(op: DeviceOp) -> DeviceOp:
    """Return an operator with errors; quantized values are left alone."""
    level = _LARGEST if op.name == f"{WORST_LAYER}_dequant_layer" else _USUAL
    random = np.random.default_rng(len(op.name))

    def disturb(level: float, x: AnyArray) -> AnyArray:
        disturbed: AnyArray = x * (1 + level * random.standard_normal(x.shape))
        return disturbed

    is_integer = op.type == "AscendQuant" or not op.originals
    return op if is_integer else corrupt_output(op, partial(disturb, level))

"""Presets as jobs: what is measured once two dumps are described and paired."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench import dumps
from opdiff.core.pairing import Pairing
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import pair_only

if TYPE_CHECKING:
    from bench.presets import Preset


def write_preset(preset: Preset, root: str) -> CompareOptions:
    """Write the dumps of a preset, and return the options that compare them."""
    folder = os.path.join(root, preset.name)
    dumps.write(preset, folder)
    target, golden, rules = (os.path.join(folder, name) for name in ("target", "golden", "rules.json"))
    return CompareOptions(target=target, golden=golden, fusion_rules=rules)


def read_pairs(options: CompareOptions) -> list[Pairing]:
    """Describe and pair two dumps."""
    (pairs,) = pair_only(options, every_operator=False)
    if isinstance(pairs, ComparisonProblem):
        raise SystemExit(f"{pairs.path}: {pairs.reason}")
    return [pair for pair in pairs if isinstance(pair, Pairing)]

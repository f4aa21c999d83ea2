"""Files that apply the advice about a chain of stages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.core.stages import Change
from opdiff.judge.remedies import FUSION_OFF_FILE, FUSION_OFF_SWITCHES
from opdiff.workflows.compare.follow_up import write_remedies

if TYPE_CHECKING:
    from opdiff.core.stages import Chain


def write_fusion_switches(chain: Chain, folder: str) -> list[str]:
    """Write the switches for a conversion without fusion if fusion may have lost the accuracy; return the paths."""
    culprit = chain.verdict.culprit
    if culprit is None or Change.FUSION not in chain.verdict.steps[culprit].changes:
        return []
    path = os.path.join(folder, FUSION_OFF_FILE)
    with open_atomic(path) as file:
        file.write(FUSION_OFF_SWITCHES.encode() + b"\n")
    return [path]


def write_stage_remedies(chain: Chain, folder: str) -> list[str]:
    """Write the files that apply the remedies for the step that lost most; return their paths."""
    culprit = chain.verdict.culprit
    if culprit is None:
        return []
    shown_by = chain.verdict.steps[culprit].shown_by
    comparison = (chain.steps[culprit] if shown_by is None else chain.total(shown_by)).comparison
    return write_remedies(comparison, folder) if comparison else []

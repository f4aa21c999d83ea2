"""Search for the step that causes the errors of a comparison, by a third run with fusion off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.errors import UsageError
from opdiff.core.reasons import because
from opdiff.workflows.stages.options import StageName, StagesOptions
from opdiff.workflows.stages.pipeline import compare_stages

if TYPE_CHECKING:
    from opdiff.core.stages import Chain
    from opdiff.workflows.compare.options import CompareOptions


def find_step(options: CompareOptions, third: str, third_rules: str) -> Chain:
    """Return the chain from the golden run over the run with fusion off to the target; nothing is written.

    Raises:
        UsageError: these runs and rules cannot be combined.
        InputError: a side or a rule file cannot be used.
    """
    if not third_rules or not options.fusion_rules:
        raise UsageError(because("stages.third_rules"))
    if filesystem.isdir(options.fusion_rules):
        raise UsageError(because("stages.third_single"))
    plain = replace(
        options, number_range="", selected="", pairs="", fusion_rules="", fusion_off_rules="", quant_rules=""
    )
    stages = StagesOptions(
        (options.golden, third, options.target),
        (None, StageName.FUSION_OFF, StageName.OFFLINE),
        options.fusion_rules,
        third_rules,
        options.quant_rules,
        compare=plain,
    )
    return compare_stages(stages, lambda _done, _total: None).chain

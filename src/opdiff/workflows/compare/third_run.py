"""Search for the step that causes the errors (conversion, quantization or fusion), by a third run with fusion off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.errors import UsageError
from opdiff.judge.steps import step_of
from opdiff.workflows.compare.inputs import NotCompared
from opdiff.workflows.compare.pipeline import compare

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason
    from opdiff.workflows.compare.options import CompareOptions


def find_step(options: CompareOptions, third: str, third_rules: str) -> Reason:
    """Compare the third run with the golden one, and the target with the third run; return the faulty step.

    Raises:
        UsageError: these runs and rules cannot be combined.
        InputError: a side or a rule file cannot be used.
    """
    if not third_rules or not options.fusion_rules:
        raise UsageError("--third needs the rules of both runs: -fr with fusion on, -cfr with fusion off")
    plain = replace(options, number_range="", selected="", pairs="")
    conversion = _compare_once(replace(plain, target=third, fusion_rules=third_rules, fusion_off_rules=""))
    fusion = _compare_once(replace(plain, golden=third, fusion_off_rules=third_rules, quant_rules=""))
    is_quantized = conversion.target.quantized and not conversion.golden.quantized
    return step_of(conversion.judgement, fusion.judgement, is_quantized=is_quantized)[1]


def _compare_once(options: CompareOptions) -> Comparison:
    (result,) = compare(options, lambda _done, _total: None)
    if isinstance(result, NotCompared):
        raise UsageError("--third is for a single comparison, not for a training run")
    return result.comparison

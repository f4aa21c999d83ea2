"""The step that broke a model: its conversion, the fusion of its operators or its quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.judge.advice import kind_name

if TYPE_CHECKING:
    from opdiff.core.judgement import Judgement
    from opdiff.core.reasons import Reason


def step_of(conversion: Judgement, fusion: Judgement, *, is_quantized: bool) -> tuple[str, Reason]:
    """Return the step (empty for none) and the sentence about it, from two comparisons.

    `conversion` compares the run with fusion off with the golden one, `fusion` the runs with fusion on and off.
    """
    if conversion.findings:
        fault = conversion.findings[0]
        quantized = is_quantized or fault.kind is ErrorKind.QUANTIZATION
        step = because("judge.step_quantization" if quantized else "judge.step_conversion")
        kind = kind_name(fault.kind)
        reason = because("judge.broken_without_fusion", step=step, operator=fault.operator, kind=kind)
        return "quantization" if quantized else "conversion", reason
    if fusion.findings:
        fault = fusion.findings[0]
        return "fusion", because("judge.broken_by_fusion", operator=fault.operator, kind=kind_name(fault.kind))
    return "", because("judge.steps_within_noise")

"""Which step broke a model: its conversion, the fusion of its operators or its quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdiff.core.comparison import Judgement


def step_of(conversion: Judgement, fusion: Judgement, *, is_quantized: bool) -> tuple[str, str]:
    """The step and the sentence that says so, from two comparisons.

    `conversion` is of the run with fusion off and the golden one, `fusion` of the runs with fusion on and off.
    """
    first, second = _fault(conversion), _fault(fusion)
    if first:
        step = "quantization" if is_quantized or _is_quantization(conversion) else "conversion"
        return step, f"With fusion off the model is wrong already: {step} broke it, at {first}."
    if second:
        return "fusion", f"With fusion off the model is right, with fusion on it is not: fusion broke it, at {second}."
    return "", "Neither conversion nor fusion broke it: both steps stay within noise."


def _fault(judgement: Judgement) -> str:
    findings = judgement.findings
    return f"{findings[0].operator} ({findings[0].kind})" if findings else ""


def _is_quantization(judgement: Judgement) -> bool:
    return judgement.findings[0].kind == "quantization"

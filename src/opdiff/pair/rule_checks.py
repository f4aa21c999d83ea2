"""Checks of rule files: a model without fusion that has fused operators, files of two models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Reason
    from opdiff.pair import Rules

# Some passes cannot be switched off. Models compiled alike have the same fused operators.
MIN_SHARE_OF_FUSED_ALIKE = 0.9
MIN_SHARE_OF_SAME_ORIGINALS = 0.5
_FUSION_SWITCH = "--fusion_switch_file"


def rule_notes(rules: Rules) -> tuple[Reason, ...]:
    """Return why the rule files of a comparison may be wrong, and the notes of their readers."""
    files = [file for file in (rules.fusion, rules.fusion_off, rules.quant) if file is not None]
    suspicions: Iterable[Reason] = ()
    first, second = rules.fusion, rules.fusion_off
    # One file given twice is refused or warned about before.
    if first and second and not first.equals(second):
        suspicions = _suspicions(first, second)
    notes = (because("core.in_file", path=file.path, problem=note) for file in files for note in file.notes)
    return (*suspicions, *notes)


def _suspicions(fusion: RuleFile, fusion_off: RuleFile) -> Iterator[Reason]:
    """Yield that the files are of two models; otherwise, that the second was compiled with fusion."""
    originals = _originals(fusion), _originals(fusion_off)
    smaller = min(map(len, originals))
    common = len(originals[0] & originals[1])
    if smaller and common < MIN_SHARE_OF_SAME_ORIGINALS * smaller:
        names = (_model_name(file) for file in (fusion, fusion_off))
        yield because("pair.different_models", common=common, count=smaller, first=next(names), second=next(names))
        return
    ours, theirs = _fused(fusion), _fused(fusion_off)
    alike = len(ours & theirs)
    if theirs and fusion_off.origin.command_line and not fusion_off.origin.option(_FUSION_SWITCH):
        yield because("pair.no_fusion_switch", path=os.path.basename(fusion_off.path), count=len(theirs))
    elif alike and alike >= MIN_SHARE_OF_FUSED_ALIKE * len(ours):
        yield because("pair.fused_alike", path=os.path.basename(fusion_off.path), alike=alike, count=len(ours))


def _originals(rules: RuleFile) -> set[str]:
    return {name for op in rules.operators() for name in op.originals if name}


def _fused(rules: RuleFile) -> set[frozenset[str]]:
    """Return the originals of each operator that was compiled from several."""
    originals = (frozenset(op.originals) - {""} for op in rules.operators())
    return {names for names in originals if len(names) > 1}


def _model_name(rules: RuleFile) -> str:
    """Return the file of the original model, otherwise the name of the model or of the rule file."""
    return rules.origin.option("--model") or rules.origin.name or os.path.basename(rules.path)

"""Scenario of a comparison, by the kinds of the two dumps and the given rule files, and checks of these files.

target            golden            rule files
NPU               npy               fusion                                    ORIGINAL
NPU quantized     npy               fusion, or quant, or both                 QUANT_BY_FUSION, _BY_QUANT, _BY_BOTH
NPU quantized     npy quantized     fusion                                    QUANT_TO_QUANT
npy quantized     npy               quant                                     QUANT_ORIGINAL
NPU               NPU, both alike   none                                      PLAIN
NPU               NPU, both alike   fusion and fusion_off                     FUSION_ON_OFF

Against npy, fusion_off alone is taken as fusion: the file of the model on the NPU, which was compiled without fusion.
Every other combination is refused; the message names the kinds of both dumps and the accepted rule files.
"""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING

from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import Reason, any_of, because, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.pair import Rules

_OPTIONS = {"fusion": "-fr", "quant": "-qfr", "fusion_off": "-cfr"}
# Some passes cannot be switched off. Models compiled alike have the same fused operators.
_MIN_SHARE_OF_FUSED_ALIKE = 0.9
_MIN_SHARE_OF_SAME_ORIGINALS = 0.5
_FUSION_SWITCH = "--fusion_switch_file"


class Scenario(StrEnum):
    """Supported comparisons; the values are codes of the catalogue."""

    ORIGINAL = "pair.scenario_original"
    QUANT_BY_FUSION = "pair.scenario_quant_by_fusion"
    QUANT_BY_QUANT = "pair.scenario_quant_by_quant"
    QUANT_BY_BOTH = "pair.scenario_quant_by_both"
    QUANT_TO_QUANT = "pair.scenario_quant_to_quant"
    QUANT_ORIGINAL = "pair.scenario_quant_original"
    PLAIN = "pair.scenario_plain"
    FUSION_ON_OFF = "pair.scenario_fusion_on_off"

    @property
    def reason(self) -> Reason:
        """The scenario as a reason, to be rendered in either language."""
        return Reason(str(self))


_Table = dict[frozenset[str], Scenario]
_NPU_NPU: _Table = {frozenset(): Scenario.PLAIN, frozenset({"fusion", "fusion_off"}): Scenario.FUSION_ON_OFF}
_RULES: dict[tuple[DumpKind, bool, DumpKind, bool], _Table] = {
    (DumpKind.NPU, False, DumpKind.ARRAYS, False): {frozenset({"fusion"}): Scenario.ORIGINAL},
    (DumpKind.NPU, True, DumpKind.ARRAYS, False): {
        frozenset({"fusion"}): Scenario.QUANT_BY_FUSION,
        frozenset({"quant"}): Scenario.QUANT_BY_QUANT,
        frozenset({"fusion", "quant"}): Scenario.QUANT_BY_BOTH,
    },
    (DumpKind.NPU, True, DumpKind.ARRAYS, True): {frozenset({"fusion"}): Scenario.QUANT_TO_QUANT},
    (DumpKind.ARRAYS, True, DumpKind.ARRAYS, False): {frozenset({"quant"}): Scenario.QUANT_ORIGINAL},
    (DumpKind.NPU, False, DumpKind.NPU, False): _NPU_NPU,
    (DumpKind.NPU, True, DumpKind.NPU, True): _NPU_NPU,
}


def choose(target: Dump, golden: Dump, given: frozenset[str]) -> Scenario:
    """Return the scenario of two dumps and the given rule files: `fusion`, `fusion_off`, `quant`.

    Raises:
        InputError: these two kinds of dumps cannot be compared.
        UsageError: they need other rule files.
    """
    # The names of a fake-quantized model need not show the quantization; a quantization file shows it.
    quantized = target.quantized or (target.kind is DumpKind.ARRAYS and "quant" in given)
    table = _RULES.get((target.kind, quantized, golden.kind, golden.quantized))
    if table is None:
        raise InputError(target.path, _explain(target, golden, _explain_refusal(target, golden)))
    roles = {name: _role(name, given, golden.kind) for name in given}
    scenario = table.get(frozenset(roles.values()))
    if scenario is None:
        if given:
            raise UsageError(_explain(target, golden, _explain_rules(table, roles)))
        takes_fusion = any("fusion" in names for names in table)
        source = because("pair.rules_source") if takes_fusion else None
        problem = because("pair.rule_file_needed", accepted=any_of(map(_options, table)), source=source)
        words = ["opdiff", "compare", target.path, golden.path, "-fr", "MODEL.om"]
        raise UsageError(_explain(target, golden, problem, shlex.join(words) if takes_fusion else None))
    return scenario


def _role(name: str, given: frozenset[str], golden: DumpKind) -> str:
    """Return which file a rule file is: against arrays, the file without fusion may be that of the target."""
    stands_in = name == "fusion_off" and golden is DumpKind.ARRAYS and "fusion" not in given
    return "fusion" if stands_in else name


def _explain(target: Dump, golden: Dump, problem: Reason, command: str | None = None) -> Reason:
    """Return a problem with the kinds of both sides; `command` is what to try next."""
    sides = {"target_kind": _describe(target), "golden_kind": _describe(golden)}
    return because("pair.sides", target=target.path, golden=golden.path, **sides, problem=problem, next=command)


def _describe(dump: Dump) -> Reason:
    quantized = because("pair.quantized" if dump.quantized else "pair.not_quantized")
    return because("pair.npu_dumps" if dump.kind is DumpKind.NPU else "pair.original_arrays", quantized=quantized)


def _explain_refusal(target: Dump, golden: Dump) -> Reason:
    if target.kind is DumpKind.ARRAYS:
        if golden.kind is DumpKind.NPU:
            return because("pair.npu_is_target")
        return because("pair.original_as_golden") if golden.quantized else because("pair.arrays_as_target")
    return because("pair.both_quantized") if golden.kind is DumpKind.NPU else because("pair.golden_quantized")


def _explain_rules(table: _Table, roles: Mapping[str, str]) -> Reason:
    """Return which files are missing and superfluous; `roles` has the given files."""
    accepted = any_of(map(_options, table))
    missing = frozenset.intersection(*table) - frozenset(roles.values())
    superfluous = frozenset(name for name, role in roles.items() if role not in frozenset.union(*table))
    changes = [because("pair.rules_missing", options=_options(missing))] if missing else []
    changes += [because("pair.rules_superfluous", options=_options(superfluous))] if superfluous else []
    details = because("pair.rules_details", changes=tuple(changes)) if changes else None
    runs = because("pair.rules_of_two_runs") if table is _NPU_NPU else None
    return because("pair.rules_taken", accepted=accepted, given=_options(roles), details=details, runs=runs)


def _options(names: Collection[str]) -> Reason:
    options = [quoted(option) for name, option in _OPTIONS.items() if name in names]
    if not options:
        return because("pair.no_rule_file")
    return reduce(lambda first, second: because("pair.rules_together", first=first, second=second), options)


# Checks of rule files: a model without fusion that has fused operators, files of two models


def rule_notes(rules: Rules) -> tuple[Reason, ...]:
    """Return why the rule files of a comparison may be wrong, and the notes of their readers."""
    suspicions: Iterable[Reason] = ()
    first, second = rules.fusion, rules.fusion_off
    # One file given twice is refused or warned about before.
    if first and second and not first.equals(second):
        suspicions = _suspicions(first, second)
    notes = (
        because("core.in_file", path=file.path, problem=note) for file in rules.files if file for note in file.notes
    )
    return (*suspicions, *notes)


def _suspicions(fusion: RuleFile, fusion_off: RuleFile) -> Iterator[Reason]:
    """Yield that the files are of two models; otherwise, that the second was compiled with fusion."""
    originals = _originals(fusion), _originals(fusion_off)
    smaller = min(map(len, originals))
    common = len(originals[0] & originals[1])
    if smaller and common < _MIN_SHARE_OF_SAME_ORIGINALS * smaller:
        names = (_model_name(file) for file in (fusion, fusion_off))
        yield because("pair.different_models", common=common, count=smaller, first=next(names), second=next(names))
        return
    ours, theirs = _fused(fusion), _fused(fusion_off)
    alike = len(ours & theirs)
    if theirs and fusion_off.origin.command_line and not fusion_off.origin.option(_FUSION_SWITCH):
        yield because("pair.no_fusion_switch", path=os.path.basename(fusion_off.path), count=len(theirs))
    elif alike and alike >= _MIN_SHARE_OF_FUSED_ALIKE * len(ours):
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

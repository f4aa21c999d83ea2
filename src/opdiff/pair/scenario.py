"""Scenario of a comparison, by the kinds of the two dumps and the given rule files.

target            golden            rule files
NPU               npy               fusion                                    ORIGINAL
NPU quantized     npy               fusion, or quant, or both                 QUANT_BY_FUSION, _BY_QUANT, _BY_BOTH
NPU quantized     npy quantized     fusion                                    QUANT_TO_QUANT
npy quantized     npy               quant                                     QUANT_ORIGINAL
NPU               NPU, both alike   none                                      PLAIN
NPU               NPU, both alike   fusion and fusion_off                     FUSION_ON_OFF

Every other combination is refused; the message names the kinds of both dumps and the accepted rule files.
"""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING

from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import Reason, any_of, because, quoted

if TYPE_CHECKING:
    from opdiff.core.dump import Dump

_OPTIONS = {"fusion": "-fr", "quant": "-qfr", "fusion_off": "-cfr"}


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
    scenario = table.get(given)
    if scenario is None:
        raise UsageError(_explain(target, golden, _explain_rules(table, given)))
    return scenario


def _explain(target: Dump, golden: Dump, problem: Reason) -> Reason:
    sides = {"target_kind": _describe(target), "golden_kind": _describe(golden)}
    return because("pair.sides", target=target.path, golden=golden.path, **sides, problem=problem)


def _describe(dump: Dump) -> Reason:
    if dump.kind is DumpKind.NPU:
        return because("pair.npu_dumps", quantized=_quantized(dump))
    return because("pair.original_arrays", quantized=_quantized(dump))


def _quantized(dump: Dump) -> Reason:
    return because("pair.quantized") if dump.quantized else because("pair.not_quantized")


def _explain_refusal(target: Dump, golden: Dump) -> Reason:
    if target.kind is DumpKind.ARRAYS:
        if golden.kind is DumpKind.NPU:
            return because("pair.npu_is_target")
        return because("pair.original_as_golden") if golden.quantized else because("pair.arrays_as_target")
    return because("pair.both_quantized") if golden.kind is DumpKind.NPU else because("pair.golden_quantized")


def _explain_rules(table: _Table, given: frozenset[str]) -> Reason:
    accepted = any_of(map(_options, table))
    missing = frozenset.intersection(*table) - given
    superfluous = given - frozenset.union(*table)
    changes = [because("pair.rules_missing", options=_options(missing))] if missing else []
    changes += [because("pair.rules_superfluous", options=_options(superfluous))] if superfluous else []
    details = because("pair.rules_details", changes=tuple(changes)) if changes else None
    return because("pair.rules_taken", accepted=accepted, given=_options(given), details=details)


def _options(names: frozenset[str]) -> Reason:
    options = [quoted(option) for name, option in _OPTIONS.items() if name in names]
    return reduce(_together, options) if options else because("pair.no_rule_file")


def _together(first: Reason, second: Reason) -> Reason:
    return because("pair.rules_together", first=first, second=second)

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
from typing import TYPE_CHECKING

from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import Reason

if TYPE_CHECKING:
    from opdiff.core.dump import Dump

_OPTIONS = {"fusion": "-fr", "quant": "-qfr", "fusion_off": "-cfr"}
_QUANT_NAMES = "it has names such as `…_quant_layer`, or operators of types such as `AscendDequant`"


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
    # The names of a fake-quantized model need not show that it is one; a quantization file does.
    quantized = target.quantized or (target.kind is DumpKind.ARRAYS and "quant" in given)
    table = _RULES.get((target.kind, quantized, golden.kind, golden.quantized))
    if table is None:
        raise InputError(target.path, f"{_describe_sides(target, golden)} {_explain_refusal(target, golden)}")
    scenario = table.get(given)
    if scenario is None:
        raise UsageError(f"{_describe_sides(target, golden)} {_explain_rules(table, given)}")
    return scenario


def _describe_sides(target: Dump, golden: Dump) -> str:
    return (
        f"The target {target.path} contains {_describe(target)}; the golden {golden.path} contains {_describe(golden)}."
    )


def _describe(dump: Dump) -> str:
    written = "dumps of a model run on an NPU" if dump.kind is DumpKind.NPU else "arrays (.npy) of an original model"
    quantized = f"quantized: {_QUANT_NAMES}" if dump.quantized else "not quantized"
    return f"{written} ({quantized})"


def _explain_refusal(target: Dump, golden: Dump) -> str:
    if target.kind is DumpKind.ARRAYS:
        if golden.kind is DumpKind.NPU:
            return "The NPU dump must be the target: exchange -tp and -gp."
        if golden.quantized:
            return "A quantized original model as target needs the original model as golden."
        return "Arrays can be the target only if they come from a quantized model; give -qfr for that."
    if golden.kind is DumpKind.NPU:
        return "Two NPU dumps can be compared only if both are quantized or neither is."
    return "A target that is not quantized cannot be compared with a quantized golden model."


def _explain_rules(table: _Table, given: frozenset[str]) -> str:
    accepted = " or ".join(_options(names) for names in table)
    missing = frozenset.intersection(*table) - given
    superfluous = given - frozenset.union(*table)
    changes = [f"{_options(missing)} is missing"] if missing else []
    changes += [f"{_options(superfluous)} does not apply"] if superfluous else []
    details = f": {'; '.join(changes)}" if changes else ""
    return f"This comparison takes {accepted}, but {_options(given)} was given{details}."


def _options(names: frozenset[str]) -> str:
    return " with ".join(option for name, option in _OPTIONS.items() if name in names) or "no rule file"

"""Dumps and rules to pairings: which target tensor should equal which golden tensor, and why.

No tensor is loaded. A tensor or operator that cannot be paired is listed too, with its reason.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import DumpKind
from opdiff.core.errors import UsageError
from opdiff.core.reasons import because
from opdiff.pair.by_rules import PairingContext, iter_pairs, iter_unknown_pairs
from opdiff.pair.dump_index import DumpIndex, find_output
from opdiff.pair.groups import group_operators
from opdiff.pair.quantization import find_quantized, merge_quantization
from opdiff.pair.scenario import Scenario, choose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile, RuleOp
    from opdiff.core.pairing import ManualPair, PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.pair.by_rules import FindGolden, OriginalTensor
    from opdiff.pair.dump_index import Found
    from opdiff.pair.joined_names import NamedModel
    from opdiff.pair.selection import Selection


__all__ = ["PairOptions", "Rules", "Scenario", "pair", "resolve"]


class Rules(Struct, frozen=True):
    """Rule files of a comparison.

    Attributes:
        fusion: of the target.
        fusion_off: of the golden side, the same model without fusion.
        quant: of the quantization of the model.
        named: operators of the target as `quant` and their names tell, if `quant` is the only file.
    """

    fusion: RuleFile | None = None
    fusion_off: RuleFile | None = None
    quant: RuleFile | None = None
    named: NamedModel | None = None

    @property
    def given(self) -> frozenset[str]:
        """Names of the files that are given."""
        files = zip(("fusion", "fusion_off", "quant"), self.files, strict=True)
        return frozenset(name for name, file in files if file is not None)

    def target_operators(self) -> Iterator[RuleOp] | None:
        """Return the operators of the target; `None` without rule files."""
        if self.named is not None:
            return self.named.model.operators()
        file = self.fusion or self.quant
        return file.operators() if file is not None else None

    @property
    def files(self) -> tuple[RuleFile | None, RuleFile | None, RuleFile | None]:
        """The files in the order of the fields."""
        return self.fusion, self.fusion_off, self.quant


class PairOptions(Struct, frozen=True):
    """Options of pairing.

    Attributes:
        selection: operators to pair; `None` for all.
        manual: pairings declared by the user.
        every_operator: whether operators without meaning for the accuracy (inner parts of split operators, operators
            on quantized values, all tiles of L1 fusion) get rows too, as in the mapping table.
    """

    selection: Selection | None = None
    manual: tuple[ManualPair, ...] = ()
    every_operator: bool = False


def resolve(target: Dump, golden: Dump, rules: Rules) -> tuple[Scenario, Rules]:
    """Return the scenario of two dumps and the given files, and what each file is in this scenario.

    Raises:
        InputError: these two dumps cannot be compared.
        UsageError: they need other rules.
    """
    scenario = choose(target, golden, rules.given)
    if golden.kind is DumpKind.ARRAYS and rules.fusion is None:
        # Only the target was compiled.
        rules = Rules(rules.fusion_off, None, rules.quant)
    if scenario is Scenario.QUANT_BY_QUANT and rules.quant is not None:
        from opdiff.pair.joined_names import name_operators

        rules = replace(rules, named=name_operators(group_operators(rules.quant), target, golden))
    return scenario, rules


def pair(target: Dump, golden: Dump, rules: Rules, options: PairOptions | None = None) -> tuple[PairingResult, ...]:
    """Return the pairs in the order of the report: by group and operator, inputs before outputs; others last.

    The rules are those of `resolve`.

    Raises:
        UsageError: an option needs rules, or names something that does not exist.
    """
    options = options or PairOptions()
    target_index, golden_index = DumpIndex(target), DumpIndex(golden)
    pairs: Iterable[PairingResult]
    if not rules.given:
        if options.selection is not None:
            raise UsageError(because("pair.selection_without_rules"))
        from opdiff.pair.by_names import iter_plain_pairs

        pairs = iter_plain_pairs(target, golden)
    else:
        context = _prepare(rules, options, target_index, golden_index)
        pairs = iter_pairs(context)
        if options.selection is None:
            pairs = chain(pairs, iter_unknown_pairs(context))
    if not options.manual:
        return tuple(pairs)
    from opdiff.pair.manual import override

    return override(pairs, options.manual, target_index, golden_index)


def _prepare(rules: Rules, options: PairOptions, target: DumpIndex, golden: DumpIndex) -> PairingContext:
    """Group the target's operators and extend their originals to the models of the golden side."""
    first = rules.fusion or rules.quant
    if first is None:
        raise UsageError(because("pair.rules_needed"))
    model = group_operators(first)
    quantized = find_quantized(model)
    model = rules.named.model if rules.named else model
    find_golden: FindGolden = partial(_find_by_name, golden)
    if rules.fusion and rules.quant:
        model = merge_quantization(model, group_operators(rules.quant))
    if rules.fusion_off:
        from opdiff.pair.fusion_off import FusionOffGolden, relabel

        fusion_off = group_operators(rules.fusion_off)
        model, find_golden = relabel(model, fusion_off), FusionOffGolden(golden, fusion_off).find
    if options.selection is not None:
        from opdiff.pair.selection import select

        model = select(model, options.selection)
    has_moved_strides = any(operator.op_type == "ReadSelect" for operator in model.by_name.values())
    return PairingContext(
        target=target,
        find_golden=find_golden,
        golden_kind=golden.dump.kind,
        model=model,
        quantized=quantized,
        every_operator=options.every_operator,
        has_moved_strides=has_moved_strides,
        # The file of the quantization tool describes the model before it was compiled.
        states_target=rules.fusion is not None and target.dump.kind is DumpKind.NPU,
        problems=rules.named.problems if rules.named else None,
    )


def _find_by_name(golden: DumpIndex, origin: OriginalTensor) -> Found | Reason:
    """Return the output of the golden operator with the name of the original one, or why there is no such output."""
    return find_output(golden, origin.name, origin.index)

"""Dumps and rules to pairings: which tensor of the target is to equal which golden one, and why.

Nothing is loaded here, and what cannot be paired is a row too, with its reason. What only some comparisons need is
imported by those.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import UsageError
from opdiff.pair.fusion import build_network
from opdiff.pair.golden import NamedGolden
from opdiff.pair.names import DumpIndex
from opdiff.pair.quantization import find_quantized, merge_quant
from opdiff.pair.rows import Sides, iter_rows, iter_unknown_rows
from opdiff.pair.scenario import GivenRules, Scenario, choose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Pairing, Unpaired
    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.core.manual_pair import ManualPair
    from opdiff.pair.golden import GoldenSide
    from opdiff.pair.selection import Selection

    Row = Pairing | Unpaired

__all__ = ["GivenRules", "PairOptions", "Rules", "Scenario", "choose", "pair"]


class Rules(NamedTuple):
    """The rule files of a comparison: of the target, of the same model without fusion, of its quantization."""

    fusion: RuleFile | None = None
    close: RuleFile | None = None
    quant: RuleFile | None = None

    @property
    def given(self) -> GivenRules:
        """Which of them there are."""
        return GivenRules(self.fusion is not None, self.close is not None, self.quant is not None)


class PairOptions(NamedTuple):
    """What the user wants otherwise.

    Attributes:
        selection: a part of the network.
        manual: pairings of their own.
        every_operator: rows also for operators that say nothing about the accuracy (inner parts of split operators,
            those that work on quantized numbers, all tiles of L1 fusion), as a table of the mapping wants them.
    """

    selection: Selection | None = None
    manual: tuple[ManualPair, ...] = ()
    every_operator: bool = False


def pair(target: Dump, golden: Dump, rules: Rules, options: PairOptions | None = None) -> tuple[Row, ...]:
    """The rows of the report: by group, operators in their order, inputs before outputs; then what no rule knows.

    Raises:
        InputError: these two dumps cannot be compared.
        UsageError: they need other rules, or the options ask for what is not there.
    """
    options = options or PairOptions()
    scenario = choose(target, golden, rules.given)
    sides = DumpIndex(target), DumpIndex(golden)
    rows: Iterable[Row]
    if scenario is Scenario.PLAIN:
        if options.selection is not None:
            raise UsageError("operators are selected by their numbers in a rule file, and none was given")
        from opdiff.pair.plain import iter_plain_rows

        rows = iter_plain_rows(target, golden)
    else:
        made = _sides(rules, options, *sides)
        # Who selects operators wants those and no others.
        rows = iter_rows(made) if options.selection else chain(iter_rows(made), iter_unknown_rows(made))
    if not options.manual:
        return tuple(rows)
    from opdiff.pair.manual import override

    return override(rows, options.manual, *sides)


def _sides(rules: Rules, options: PairOptions, target: DumpIndex, golden: DumpIndex) -> Sides:
    """The rules made ready: those of the target, carried on to what the golden side is called there."""
    first = rules.fusion or rules.quant
    if first is None:
        raise UsageError("a comparison with rules needs a rule file")
    network = build_network(first)
    quantized = find_quantized(network)
    golden_side: GoldenSide = NamedGolden(golden)
    if rules.fusion and rules.quant:
        network = merge_quant(network, build_network(rules.quant))
    if rules.close:
        from opdiff.pair.fusion_off import FusionOffGolden, relabel

        close = build_network(rules.close)
        network, golden_side = relabel(network, close), FusionOffGolden(golden, close)
    if options.selection is not None:
        from opdiff.pair.selection import select

        network = select(network, options.selection)
    return Sides(target, golden_side, golden.dump.kind, network, quantized, options.every_operator)

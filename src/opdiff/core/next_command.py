"""The command that shows more about an operator at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.comparison import Mode

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, ExtraInputs
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import Finding


def next_command(comparison: Comparison, finding: Finding) -> str:
    """Return the shell command that shows the details of a finding."""
    import shlex

    words = ["opdiff", "op", finding.tensor, comparison.target.path, comparison.golden.path]
    if comparison.mode is Mode.GRAPH:
        words += ["--mode", "torchair", *(_unit_options(finding.units[0]) if finding.units else ())]
    return shlex.join([*words, *_input_options(comparison.extra_inputs)])


def _unit_options(unit: Unit) -> list[str]:
    numbers = (("--rank", unit.rank), ("--token", unit.token), ("--graph", unit.graph))
    return [word for option, number in numbers if number is not None for word in (option, str(number))]


def _input_options(given: ExtraInputs) -> list[str]:
    options = zip(("--rules", "-cfr", "-qfr", "--pairs", "-c"), structs.astuple(given), strict=True)
    return [word for option, path in options if path for word in (option, path)]

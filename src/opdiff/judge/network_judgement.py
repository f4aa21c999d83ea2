"""Judgement of one network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Judgement
from opdiff.judge.coverage import coverage_of, model_outputs
from opdiff.judge.locate import locate
from opdiff.judge.ranking import first_in_order, rank
from opdiff.judge.run_noise import MAX_RUN_NOISE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Finding
    from opdiff.judge.limits import Limits
    from opdiff.judge.network import Network
    from opdiff.judge.origins import Located
    from opdiff.judge.ranking import Ranked


def judge_network(rows: Sequence[Row], network: Network, limits: Limits, facts: Sequence[ErrorFacts] = ()) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault; without advice."""
    located, ranked = _locate(rows, network, limits)
    if located.run_noise >= MAX_RUN_NOISE:
        # All operators add to the error of the outputs, and how much each does is not known.
        ranked = tuple(replace(found, share=None) for found in ranked)
    defects = list(located.defects)
    findings: tuple[Finding, ...] = ()
    if ranked:
        from opdiff.judge.cases import cause_context
        from opdiff.judge.findings import findings_of

        findings = findings_of(ranked, cause_context(rows, network, located.verdicts, facts), defects)
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_in_order(ranked, network) if ranked else "",
        findings[0].operator if findings else "",
        noise=located.run_noise,
        defects=tuple(defects),
        coverage=coverage_of(rows, network),
        outputs=model_outputs(rows, located.verdicts, network, located.run_noise),
        candidates=() if network.has_edges else _bad_operators(network, located),
    )


def _locate(
    rows: Sequence[Row], network: Network, limits: Limits, faulty_readers: frozenset[str] = frozenset()
) -> tuple[Located, tuple[Ranked, ...]]:
    """Return the verdicts and the created errors by their rank.

    If readers refute the golden tensor of an error, all other errors are located without this golden tensor. A reader
    that is then at fault itself refutes nothing: the error was real, and the reader passed a part of the error on,
    because its bias makes relative errors smaller.
    """
    located = locate(rows, network, limits)
    ranked = rank(network, located, faulty_readers)
    refuted = [found for found in ranked if found.created.refuted_by]
    if not refuted:
        return located, ranked
    again = _without_goldens(refuted, located, rows, network, limits)
    others = [found for found in rank(network, again) if not found.created.refuted_by]
    faulty = {found.created.refuted_by for found in refuted} & {found.created.operator.name for found in others}
    if faulty:
        return _locate(rows, network, limits, faulty_readers | faulty)
    return again, (*others, *refuted)


def _without_goldens(
    refuted: list[Ranked], located: Located, rows: Sequence[Row], network: Network, limits: Limits
) -> Located:
    """Locate again without the refuted golden tensors; rows with these golden tensors keep their verdicts."""
    goldens = {rows[found.created.row_index].golden_key for found in refuted} - {None}
    hidden = {found.created.row_index for found in refuted}
    hidden |= {n for n, row in enumerate(rows) if row.golden_key in goldens and located.verdicts[n].level.is_bad}
    again = locate([replace(row, metrics=None) if n in hidden else row for n, row in enumerate(rows)], network, limits)
    verdicts = [
        located.verdicts[row_index] if row_index in hidden else again.verdicts[row_index]
        for row_index in range(len(rows))
    ]
    return replace(again, verdicts=tuple(verdicts))


def _bad_operators(network: Network, located: Located) -> tuple[str, ...]:
    """Return the operators with bad outputs in the order of execution."""
    return tuple(
        name
        for name, operator in network.operators.items()
        if any(located.verdicts[row_index].level.is_bad for row_index in operator.outputs.values())
    )

"""Judgement of one network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Finding, Judgement
from opdiff.judge.advice import advice_of, remedies_of
from opdiff.judge.locate import locate
from opdiff.judge.ranking import first_in_order, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.causes import Cause, Scene
    from opdiff.judge.limits import Limits
    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.ranking import Ranked


def judge_network(rows: Sequence[Row], network: Network, limits: Limits) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault."""
    located = locate(rows, network, limits)
    ranked = rank(network, located)
    findings = _findings(rows, network, located, ranked) if ranked else ()
    first_bad = first_in_order(ranked, network) if ranked else ""
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_bad,
        findings[0].operator if findings else "",
        advice_of(findings, located.verdicts, first_bad),
        located.noise,
    )


def _findings(rows: Sequence[Row], network: Network, located: Located, ranked: Sequence[Ranked]) -> tuple[Finding, ...]:
    from opdiff.judge.causes import cause_of, scene_of

    scene = scene_of(rows, network, located.verdicts)
    return tuple(_finding(found, cause_of(found.born, scene), scene, located) for found in ranked)


def _finding(found: Ranked, cause: Cause, scene: Scene, located: Located) -> Finding:
    born = found.born
    node, row, verdict = born.operator.node, scene.rows[born.row], located.verdicts[born.row]
    before = tuple(dict.fromkeys(name for state in born.states for name in state.through))
    return Finding(
        operator=node.name,
        op_type=node.op_type,
        tensor=str(row.key),
        level=verdict.level,
        kind=cause.kind,
        evidence=cause.evidence,
        remedies=remedies_of(cause.kind, node.passes, node.buffer_passes),
        share=found.share,
        path=found.path,
        excess=verdict.excess,
        before=before,
        passes=node.passes,
        buffer_passes=node.buffer_passes,
    )

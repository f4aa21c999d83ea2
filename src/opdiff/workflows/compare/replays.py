"""Replay of suspects of a comparison: operators are computed again from their dumped inputs, to prove a fault."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from opdiff.core.comparison import Mode

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.lazy_pairs import LazyPairs
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.replay.proof import ReplayProgress


def replay_suspects(
    comparison: Comparison,
    pairs: LazyPairs,
    options: CompareOptions,
    cluster: Cluster | None,
    on_progress: ReplayProgress | None,
) -> Comparison:
    """Compute suspects again: by the model, if one is given, else by types and attributes; in graph mode by unit."""
    if options.replay == 0 or comparison.judgement.misfit is not None:
        return comparison
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.proof import ProofOptions, prove

    prove_all = prove
    if comparison.mode is Mode.GRAPH:
        from opdiff.workflows.replay.graph_proof import prove_units as prove_all
    replay_options = ReplayOptions(
        comparison.target.path,
        options.fusion_rules,
        options.model,
        options.model_weights,
        options.model_shapes,
        limits=options.limits,
        threads=options.workers,
    )
    golden = GoldenValues(pairs) if pairs.pairs and not options.model else None
    seconds = inf if options.replay is None else options.replay_seconds
    proof_options = ProofOptions(replay_options, golden, options.replay, seconds, cluster)
    return prove_all(comparison, proof_options, on_progress or (lambda _done, _total, _left: None))

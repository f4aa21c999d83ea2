"""Judgement of measured rows, with facts, profiles and pictures of the worst tensors, and its proof by replay."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import Comparison, Mode, TableView
from opdiff.core.dump import DumpKind
from opdiff.core.reasons import because
from opdiff.judge.comparison_judgement import judge
from opdiff.workflows.compare.environments import dtype_differences, environment_note
from opdiff.workflows.compare.examined_tensors import find_error_facts
from opdiff.workflows.compare.optional_steps import OptionalSteps
from opdiff.workflows.compare.outputs import find_environment, row_mapper
from opdiff.workflows.compare.pictures import find_pictures
from opdiff.workflows.compare.profiles import find_profiles
from opdiff.workflows.compare.rejudging import with_input_advice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.reasons import Reason
    from opdiff.judge.limits import Limits
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.inputs import Inputs
    from opdiff.workflows.compare.kept_pairs import LazyPairs
    from opdiff.workflows.compare.measuring import MeasuredInputs
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.pictures import PictureBounds
    from opdiff.workflows.replay.proof import ReplayProgress


def judge_inputs(
    inputs: Inputs, measured: MeasuredInputs, limits: Limits, options: CompareOptions, bounds: PictureBounds
) -> Comparison:
    """Judge the rows, and examine the elements of the worst tensors.

    The rows are judged twice. The first judgement finds the tensors at fault by their metrics. Only the elements of
    these tensors are then examined, because examining all tensors would take too long. The second judgement uses the
    facts that were found to tell the kinds of error apart.
    """
    rows, pairs, steps = measured.rows, measured.pairs, OptionalSteps()
    assess = partial(
        judge,
        rows,
        measured.graphs,
        limits,
        files_left_out=inputs.files_left_out,
        misfit=None if options.force else inputs.misfit,
        check_same_model=not options.force,
        map_jobs=row_mapper(rows, options),
    )
    judgement = assess()
    facts = steps.attempt(because("compare.step_elements"), partial(find_error_facts, rows, judgement, pairs), ())
    if facts:
        with_facts = assess(facts=facts)
        is_worse = len(with_facts.defects) > len(judgement.defects)
        judgement = replace(judgement, defects=with_facts.defects) if is_worse else with_facts
    differences = steps.attempt(because("compare.step_environment"), partial(_differences, inputs, rows), ())
    environment = steps.attempt(because("compare.step_environment"), partial(environment_note, differences), ())
    profiles = steps.attempt(because("compare.step_profiles"), partial(find_profiles, rows, judgement, pairs), ())
    pictures = steps.attempt(
        because("compare.step_pictures"), partial(find_pictures, rows, judgement, pairs, bounds), ()
    )
    comparison = Comparison(
        mode=inputs.mode,
        target=inputs.target,
        golden=inputs.golden,
        scenario=inputs.scenario,
        rows=rows,
        judgement=judgement,
        view=TableView(options.metrics, options.is_selected, options.overflow),
        graphs=measured.graphs,
        environment=find_environment(),
        profiles=profiles,
        notes=(*measured.notes, *environment),
        extra_inputs=inputs.extra_inputs,
        warnings=inputs.warnings,
        error_facts=facts,
        pictures=pictures,
        differences=differences,
    )
    advised = steps.attempt(because("compare.step_advice"), partial(with_input_advice, comparison), comparison)
    return steps.noted(advised)


def _differences(inputs: Inputs, rows: Sequence[Row]) -> tuple[Reason, ...]:
    """Return each difference between the environments once."""
    dtypes = dtype_differences(rows) if inputs.golden.kind is DumpKind.NPU else ()
    return tuple(dict.fromkeys((*inputs.differences, *dtypes)))


def replay_suspects(
    comparison: Comparison,
    pairs: LazyPairs,
    options: CompareOptions,
    cluster: Cluster | None,
    on_progress: ReplayProgress | None,
) -> Comparison:
    """Compute suspects again: by the model, if one is given, else by types and attributes; in graph mode by unit.

    Checksums show no suspects.
    """
    by_checksums = comparison.judgement.coverage.checksums > 0
    if options.replay == 0 or by_checksums or comparison.judgement.misfit is not None:
        return comparison
    if cluster is None and find_spec("onnxruntime") is None:
        notes = (because("replay.not_installed"),) if comparison.judgement.findings else ()
        return replace(comparison, notes=(*comparison.notes, *notes))
    steps = OptionalSteps()
    prove = partial(_prove, comparison, pairs, options, cluster, on_progress)
    return steps.noted(steps.attempt(because("compare.step_replay"), prove, comparison))


def _prove(
    comparison: Comparison,
    pairs: LazyPairs,
    options: CompareOptions,
    cluster: Cluster | None,
    on_progress: ReplayProgress | None,
) -> Comparison:
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.proof import ProofOptions, prove

    prove_all = prove
    if comparison.mode is Mode.GRAPH:
        from opdiff.workflows.replay.graph_proof import prove_units as prove_all
    replay_options = ReplayOptions(
        comparison.target.path,
        comparison.extra_inputs.fusion_rules,
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

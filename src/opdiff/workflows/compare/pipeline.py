"""A comparison from the dumps to its reports, for both modes: read → pair → align → measure → judge → report.

options ──read_inputs──► Inputs ──paired_batches──► Pairs ──align_and_measure──► Rows ──judge──► Comparison ──► files
"""

from __future__ import annotations

import os
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.comparison import Comparison, Mode, TableView
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.row_store import RowStore
from opdiff.judge import judge
from opdiff.workflows.cluster import find_cluster, path_for_workers
from opdiff.workflows.compare.environments import dtype_differences, environment_note
from opdiff.workflows.compare.error_facts import KeptLimit, find_error_facts
from opdiff.workflows.compare.inputs import NotCompared, read_inputs
from opdiff.workflows.compare.judging import find_limits, with_input_facts
from opdiff.workflows.compare.loaded_pairs import LoadedPairs
from opdiff.workflows.compare.measuring import Measuring, align_and_measure
from opdiff.workflows.compare.outputs import find_environment, map_rows, write_outputs
from opdiff.workflows.compare.pictures import PictureBounds, find_pictures
from opdiff.workflows.compare.profiles import find_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opdiff.core.comparison import ModelGraph, Pair
    from opdiff.judge.limits import Limits
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.input_reader import InputReader
    from opdiff.workflows.compare.inputs import Inputs
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.outputs import Written

    Progress = Callable[[int, int], None]
    OnWorkers = Callable[[int], None]
    ReplayReport = Callable[[int, int, float], None]


class Compared(Struct, frozen=True):
    """A judged comparison.

    Attributes:
        comparison: all data that reports show.
        name: name of the result file; empty in graph mode, where every table has its own.
        metrics: names of the metrics that are not built in.
        defects: tracebacks of unexpected errors.
    """

    comparison: Comparison
    name: str = ""
    metrics: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()


def compare(
    options: CompareOptions,
    progress: Progress,
    on_workers: OnWorkers = lambda _count: None,
    report_replay: ReplayReport | None = None,
    reader: InputReader | None = None,
) -> Iterator[Compared | NotCompared]:
    """Compare two dumps, or every step of a training run; nothing is written.

    Args:
        options: the comparison.
        progress: called with the bytes that are done, and all bytes.
        on_workers: called with the number of workers of a cluster, about once a second.
        report_replay: called with the number of operators that were computed again, their total, and the seconds that
            are left for it.
        reader: shared by comparisons of the same dumps.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side, a rule file or the cluster cannot be used.
    """
    options = _for_workers(options) if options.cluster else options
    inputs_given = (options.target, options.golden, *options.rule_paths, options.pairs)
    filesystem.start_run(inputs_given, options.cache, options.memory)
    limits = find_limits(options.limits)
    with find_cluster(options.cluster, options.cluster_config, on_workers) as cluster:
        measuring = Measuring.of(options, cluster)
        replayed = partial(_with_replays, options=options, cluster=cluster, report=report_replay)
        compare_one = partial(_compare, limits=limits, options=options, measuring=measuring, progress=progress)
        if cluster is not None:
            from opdiff.workflows.compare.input_reader import ClusterReader

            reader = ClusterReader(cluster)
        all_inputs = read_inputs(options, reader=reader, measuring=measuring)
        results = _compare_all(all_inputs, lambda inputs: replayed(*compare_one(inputs)))
        yield from _with_resume(results, options.output) if options.resume else results


def _compare_all(
    all_inputs: Iterable[Inputs | NotCompared], compare_one: Callable[[Inputs], Compared]
) -> Iterator[Compared | NotCompared]:
    for inputs in all_inputs:
        if isinstance(inputs, NotCompared):
            yield inputs
            continue
        try:
            yield compare_one(inputs)
        except (InputError, UsageError) as error:
            if not inputs.is_step:
                raise
            yield NotCompared(inputs.target.path, error.reason)


def _with_resume(results: Iterator[Compared | NotCompared], folder: str) -> Iterator[Compared | NotCompared]:
    """Yield the results. After the last one, which the caller has written then, remove the saved units.

    They are kept if a further run may measure rows that this one could not.
    """
    from opdiff.workflows.compare.finished_units import is_transient, remove_units

    is_complete = True
    for result in results:
        yield result
        rows = () if isinstance(result, NotCompared) else result.comparison.rows
        is_complete = is_complete and not any(map(is_transient, rows))
    if is_complete:
        remove_units(folder)


def _for_workers(options: CompareOptions) -> CompareOptions:
    """Return the options with absolute paths: workers have other current folders.

    Raises:
        UsageError: a URL had a password, which workers do not get.
    """
    target, golden = map(path_for_workers, (options.target, options.golden))
    return replace(options, target=target, golden=golden, custom=options.custom and os.path.abspath(options.custom))


def _compare(
    inputs: Inputs, limits: Limits, options: CompareOptions, measuring: Measuring, progress: Progress
) -> tuple[Compared, LoadedPairs]:
    """Return a comparison without replays, and the pairs of its rows."""
    bounds = PictureBounds.of(options.pictures)
    pairs: list[Pair | None] = []
    kept = KeptLimit()
    store = RowStore(options.output)
    graphs: list[ModelGraph] = []
    notes, defects = list(inputs.notes), list[str]()
    for batch in inputs.paired_batches:
        measured = batch.measured or align_and_measure(batch.pairs, measuring, progress)
        if batch.measured is not None:
            progress(*batch.progress)
        store.add(measured.rows)
        defects += measured.defects
        graphs += batch.graphs
        notes += batch.notes
        pairs += kept.apply(measured.pairs)
    rows = store.finish()
    assess = partial(
        judge,
        rows,
        graphs,
        limits,
        left_out=inputs.left_out,
        check_fit=not options.force,
        map_jobs=map_rows(rows, options),
    )
    judgement = assess()
    loaded = LoadedPairs(pairs, measuring.options.conversions)
    facts = find_error_facts(rows, judgement, loaded) if pairs else ()
    judgement = assess(facts=facts) if facts else judgement
    is_of_npus = inputs.golden.kind is DumpKind.NPU
    notes += environment_note((*inputs.differences, *(dtype_differences(rows) if is_of_npus else ())))
    judgement = with_input_facts(judgement, inputs.warnings, notes)
    comparison = Comparison(
        mode=inputs.mode,
        target=inputs.target,
        golden=inputs.golden,
        scenario=inputs.scenario,
        rows=rows,
        judgement=judgement,
        view=TableView(options.metrics, options.is_selected, options.overflow),
        graphs=tuple(graphs),
        environment=find_environment(),
        profiles=find_profiles(rows, judgement, pairs, measuring.options.conversions) if pairs else (),
        notes=tuple(notes),
        extra_inputs=inputs.extra_inputs,
        warnings=inputs.warnings,
        error_facts=facts,
        pictures=find_pictures(rows, judgement, loaded, bounds) if pairs else (),
    )
    return Compared(comparison, inputs.name, measuring.metric_names, (*defects, *judgement.defects)), loaded


def _with_replays(
    compared: Compared,
    pairs: LoadedPairs,
    options: CompareOptions,
    cluster: Cluster | None,
    report: ReplayReport | None,
) -> Compared:
    """Compute suspects again: by the model if there is one, else by types and attributes; in graph mode by unit."""
    if options.replay == 0 or compared.comparison.judgement.misfit is not None:
        return compared
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.options import ReplayOptions
    from opdiff.workflows.replay.proof import ProofOptions, prove

    prove_all = prove
    if compared.comparison.mode is Mode.GRAPH:
        from opdiff.workflows.replay.graph_proof import prove_units as prove_all
    wanted = ReplayOptions(
        compared.comparison.target.path,
        options.fusion_rules,
        options.model,
        options.model_weights,
        options.model_shapes,
        limits=options.limits,
        threads=options.workers,
    )
    golden = GoldenValues(compared.comparison.rows, pairs) if pairs.pairs and not options.model else None
    seconds = inf if options.replay is None else options.replay_seconds
    proved = prove_all(
        compared.comparison,
        ProofOptions(wanted, golden, options.replay, seconds, cluster),
        report or (lambda _done, _total, _left: None),
    )
    return replace(compared, comparison=proved)


def compare_and_write(
    options: CompareOptions,
    progress: Progress,
    on_workers: OnWorkers = lambda _count: None,
    report_replay: ReplayReport | None = None,
) -> Iterator[tuple[Compared, Written] | NotCompared]:
    """Compare as `compare` does, and write tables, the saved form and the reports of each comparison."""
    for result in compare(options, progress, on_workers, report_replay):
        yield result if isinstance(result, NotCompared) else (result, write_outputs(result, options))


def map_pairs(options: CompareOptions, *, every_operator: bool = True) -> Iterator[tuple[Pair, ...] | NotCompared]:
    """Pair as `compare` does, without reading tensors; `every_operator` includes operators that it skips."""
    for inputs in read_inputs(options, every_operator=every_operator):
        if isinstance(inputs, NotCompared):
            yield inputs
        else:
            yield tuple(pair for batch in inputs.paired_batches for pair in batch.pairs)

"""A comparison from the dumps to its reports, for both modes: read → pair → align → measure → judge → report.

options ──read_inputs──► Inputs ──paired_batches──► pairs ──align_and_measure──► rows
rows ──judge_inputs──► Comparison ──replay_suspects──► Comparison ──write_outputs──► files
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.errors import InputError, UsageError
from opdiff.core.row_store import RowStore
from opdiff.workflows.cluster import find_cluster, path_for_workers
from opdiff.workflows.compare.inputs import ComparisonProblem, read_inputs
from opdiff.workflows.compare.kept_pairs import KeptPairsLimit, LazyPairs
from opdiff.workflows.compare.measuring import MeasuredInputs, Measuring, align_and_measure
from opdiff.workflows.compare.pictures import PictureBounds
from opdiff.workflows.limits_file import find_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.comparison import Comparison, ModelGraph
    from opdiff.core.pairing import PairingResult
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.input_reader import InputReader
    from opdiff.workflows.compare.inputs import Inputs
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.outputs import OutputFiles
    from opdiff.workflows.replay.proof import ReplayProgress

    Progress = Callable[[int, int], None]
    OnWorkers = Callable[[int], None]


class ComparisonResult(Struct, frozen=True):
    """A judged comparison, and what is needed to write its files.

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
    on_replay_progress: ReplayProgress | None = None,
    reader: InputReader | None = None,
) -> Iterator[ComparisonResult | ComparisonProblem]:
    """Compare two dumps, or every step of a training run; no result file is written.

    Args:
        options: the comparison.
        progress: called with the bytes that are done, and all bytes.
        on_workers: called with the number of workers of a cluster, about once a second.
        on_replay_progress: called with the number of replayed operators, the number of operators to replay, and the
            seconds that are left for the replay.
        reader: shared by comparisons of the same dumps.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side, a rule file or the cluster cannot be used.
    """
    options = _for_workers(options) if options.cluster else options
    inputs_given = (options.target, options.golden, *options.rule_paths, options.pairs)
    filesystem.start_run(inputs_given, options.cache, options.memory)
    limits, bounds = find_limits(options.limits), PictureBounds.of(options.pictures)
    with find_cluster(options.cluster, options.cluster_config, on_workers) as cluster:
        measuring = Measuring.of(options, cluster)
        for inputs in read_inputs(options, reader=_cluster_reader(cluster) or reader, measuring=measuring):
            if isinstance(inputs, ComparisonProblem):
                yield inputs
                continue
            try:
                measured = _pair_and_measure(inputs, options, measuring, progress)
                # Imported by now, see `batch`, unless the comparison is long.
                from opdiff.workflows.compare.judging import judge_inputs, replay_suspects

                comparison = judge_inputs(inputs, measured, limits, options, bounds)
                comparison = replay_suspects(comparison, measured.pairs, options, cluster, on_replay_progress)
                defects = (*measured.defects, *comparison.judgement.defects)
                # Pairs take no memory while the reports are written, and rows none while the next step is measured.
                del measured
                yield ComparisonResult(comparison, inputs.name, measuring.metric_names, defects)
                del comparison
            except (InputError, UsageError) as error:
                if not inputs.is_step:
                    raise
                yield ComparisonProblem(inputs.target.path, error.reason)


def compare_and_write(
    options: CompareOptions,
    progress: Progress,
    on_workers: OnWorkers = lambda _count: None,
    on_replay_progress: ReplayProgress | None = None,
) -> Iterator[tuple[ComparisonResult, OutputFiles] | ComparisonProblem]:
    """Compare as `compare` does, and write tables, the saved form and the reports of each comparison.

    Chunks of results that were saved for a resumed run are removed at the end, unless a further run may measure rows
    that this run could not measure.
    """
    is_complete = True
    for result in compare(options, progress, on_workers, on_replay_progress):
        if isinstance(result, ComparisonProblem):
            yield result
            continue
        from opdiff.workflows.compare.outputs import write_outputs

        yield result, write_outputs(result, options)
        if options.resume:
            from opdiff.workflows.compare.finished_chunks import is_transient

            is_complete = is_complete and not any(map(is_transient, result.comparison.rows))
    if options.resume and is_complete:
        from opdiff.workflows.compare.finished_chunks import remove_chunks

        remove_chunks(options.output)


def _for_workers(options: CompareOptions) -> CompareOptions:
    """Return the options with absolute paths: workers have other current folders.

    Raises:
        UsageError: a URL had a password, which workers do not get.
    """
    target, golden = map(path_for_workers, (options.target, options.golden))
    return replace(options, target=target, golden=golden, custom=options.custom and os.path.abspath(options.custom))


def _cluster_reader(cluster: Cluster | None) -> InputReader | None:
    if cluster is None:
        return None
    from opdiff.workflows.compare.input_reader import ClusterReader

    return ClusterReader(cluster)


def _pair_and_measure(
    inputs: Inputs, options: CompareOptions, measuring: Measuring, progress: Progress
) -> MeasuredInputs:
    """Pair, align and measure all tensors, batch by batch: graph mode has a batch for each token."""
    store, limit = RowStore(options.output), KeptPairsLimit()
    pairs: list[PairingResult | None] = []
    graphs: list[ModelGraph] = []
    notes, defects = list(inputs.notes), list[str]()
    for batch in inputs.paired_batches:
        measured = batch.measured or align_and_measure(batch.pairs, measuring, progress)
        if batch.measured is not None:
            progress(*batch.progress)
        store.add(measured.rows)
        pairs += limit.drop_excess(measured.pairs)
        graphs += batch.graphs
        notes += batch.notes
        defects += measured.defects
    lazy_pairs = LazyPairs(pairs, measuring.options.conversions)
    return MeasuredInputs(store.finish(), lazy_pairs, tuple(graphs), tuple(notes), tuple(defects))


def pair_only(
    options: CompareOptions, *, every_operator: bool = True
) -> Iterator[tuple[PairingResult, ...] | ComparisonProblem]:
    """Pair as `compare` does, without reading tensors; `every_operator` includes operators that `compare` skips."""
    for inputs in read_inputs(options, every_operator=every_operator):
        if isinstance(inputs, ComparisonProblem):
            yield inputs
        else:
            yield tuple(pair for batch in inputs.paired_batches for pair in batch.pairs)

"""Measurement of a batch of pairs: by one call of the kernel if the kernel supports the pairs, otherwise job by job."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode, unpaired_row
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import because
from opdiff.run import Work, limit_workers, run, usable_cores
from opdiff.workflows.agreement import with_doubts
from opdiff.workflows.cluster import is_unread
from opdiff.workflows.compare.batch import is_remote_pair, measure_batch
from opdiff.workflows.compare.job import Job, JobOutcome, MeasureOptions, data_mode, died, failed, measure_job
from opdiff.workflows.compare.kept_pairs import kept_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.core.row_store import EncodedRows
    from opdiff.measure.custom import Metric
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.kept_pairs import LazyPairs
    from opdiff.workflows.compare.options import CompareOptions

    Progress = Callable[[int, int], None]

# Fewer small tensors are measured in less time than processes take to start.
_MIN_JOBS_FOR_PROCESSES = 800


class Measuring(Struct, frozen=True):
    """How pairs are measured.

    Attributes:
        options: measurements besides the default ones.
        data_mode: how tensors are compared.
        workers: maximum number of workers; 0 for all cores.
        memory: bytes that workers may use; 0 for no limit.
        in_process: use threads only.
        cluster: workers that measure instead of this process.
        resume_folder: output folder with the chunks of an interrupted run, and for those of this run; empty for none.
    """

    options: MeasureOptions = MeasureOptions()
    data_mode: DataMode = DataMode.AUTO
    workers: int = 0
    memory: int = 0
    in_process: bool = False
    cluster: Cluster | None = None
    resume_folder: str = ""

    @classmethod
    def of(cls, options: CompareOptions, cluster: Cluster | None = None) -> Measuring:
        """Return the measurements that the options require.

        Raises:
            UsageError: there is no such metric.
        """
        from opdiff.measure.documented import select_metrics

        custom = _custom_metrics(options)
        selected = select_metrics(options.metrics, [metric.name for metric in custom])
        measure_options = MeasureOptions(any(metric.needs_kl for metric in selected), conversions(options), custom)
        return cls(
            measure_options,
            options.data_mode,
            options.workers,
            options.memory,
            options.in_process,
            cluster,
            os.path.abspath(options.output) if options.resume else "",
        )

    @property
    def fits_workers(self) -> bool:
        """Whether tokens of graph mode may be measured where they are read: nothing but their files is needed."""
        options = self.options
        is_plain = not options.metrics and options.conversions is None
        return is_plain and self.cluster is None and not self.in_process

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are not built in."""
        return tuple(metric.name for metric in self.options.metrics)


class MeasuredRows(Struct, frozen=True):
    """Rows in the order of the pairs.

    Attributes:
        rows: the rows.
        defects: tracebacks of unexpected errors.
        pairs: the pair of each row, as far as its tensors may have to be read again; see `kept_pairs`.
    """

    rows: tuple[Row, ...]
    defects: tuple[str, ...]
    pairs: Sequence[PairingResult | None]


class MeasuredBlocks(Struct, frozen=True):
    """Rows of a worker, encoded; otherwise as `MeasuredRows`."""

    rows: EncodedRows
    defects: tuple[str, ...]
    pairs: Sequence[PairingResult | None]


class MeasuredInputs(Struct, frozen=True):
    """The measured rows of a comparison, with the pairs, networks and remarks of all batches.

    Attributes:
        rows: the rows.
        pairs: the pair of each row whose tensors may have to be read again.
        graphs: networks of the target.
        notes: remarks about the inputs.
        defects: tracebacks of unexpected errors.
    """

    rows: Sequence[Row]
    pairs: LazyPairs
    graphs: tuple[ModelGraph, ...]
    notes: tuple[Reason, ...]
    defects: tuple[str, ...]


def align_and_measure(pairs: Sequence[PairingResult], measuring: Measuring, progress: Progress) -> MeasuredRows:
    """Measure all pairings. Rows are in the order of the pairs; a row without a counterpart has the reason."""
    rows, defects = _rows_of(pairs, measuring, progress)
    return MeasuredRows(rows, defects, kept_pairs(rows, pairs))


def _rows_of(
    pairs: Sequence[PairingResult], measuring: Measuring, progress: Progress
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    rows: dict[int, Row] = {}
    jobs: list[Job] = []
    for number, pair in enumerate(pairs):
        mode = data_mode(pair, measuring.data_mode)
        if isinstance(pair, Pairing):
            jobs.append(Job(number, pair, mode, measuring.options))
        else:
            rows[number] = unpaired_row(pair, mode)
    outcomes = {job.number: outcome for job, outcome in _measure(jobs, measuring, progress)}
    rows |= {number: outcome.row for number, outcome in outcomes.items()}
    defects = {number: outcome.defect for number, outcome in outcomes.items() if outcome.defect}
    in_order = tuple([_with_pairing_note(with_doubts(rows[number], pair)) for number, pair in enumerate(pairs)])
    return in_order, tuple(defects[number] for number in sorted(defects))


def _measure(jobs: Sequence[Job], measuring: Measuring, progress: Progress) -> Iterator[tuple[Job, JobOutcome]]:
    total = _weight(jobs)
    if not measuring.resume_folder:
        yield from _measure_now(jobs, total, measuring, _after(0, total, progress))
        return
    from opdiff.workflows.compare.finished_chunks import FinishedChunks

    chunks = FinishedChunks(measuring.resume_folder, jobs)
    yield from chunks.known
    # A cluster gets all missing chunks at once and has its own batches.
    parts = chunks.missing if measuring.cluster is None else [tuple(chain.from_iterable(chunks.missing))]
    before = _weight(job for job, _ in chunks.known)
    for part in parts:
        weight = _weight(part)
        for job, outcome in _measure_now(part, weight, measuring, _after(before, total, progress)):
            chunks.add(job, outcome)
            yield job, outcome
        before += weight


def _weight(jobs: Iterable[Job]) -> int:
    return sum([job.weight for job in jobs])


def _after(before: int, total: int, progress: Progress) -> Callable[[int], None]:
    """Return the progress of a part of the work."""
    return lambda done: progress(before + done, total)


def _measure_now(
    jobs: Sequence[Job], weight: int, measuring: Measuring, progress: Callable[[int], None]
) -> Iterator[tuple[Job, JobOutcome]]:
    if measuring.cluster is None:
        batch = measure_batch(jobs, measuring.workers or usable_cores(), progress)
        yield from batch.done
        left = batch.left
        workers = limit_workers(measuring.workers, measuring.memory, (job.nbytes for job in left))
        is_remote = any(map(is_remote_pair, (job.pairing for job in left)))
        results = run(_work(measuring, in_process=is_remote), left, workers)
    else:
        from opdiff.run.cluster import BatchWork

        left = list(jobs)
        work = BatchWork(
            measure_jobs,
            _failed_outcome,
            lambda job: job.weight,
            is_unread=lambda outcome: is_unread(outcome.row.reason),
        )
        results = measuring.cluster.run(work, left)
    done = weight - _weight(left)
    progress(done)
    for job, outcome in results:
        yield job, outcome
        done += job.weight
        progress(done)


def measure_jobs(jobs: Sequence[Job]) -> list[JobOutcome]:
    """Return the outcomes of jobs, in order, measured in this thread of a worker."""
    from opdiff.run.worker_task import uncancelled

    batch = measure_batch(jobs, 1, lambda _done: None)
    outcomes = {job.number: outcome for job, outcome in batch.done}
    outcomes |= {job.number: measure_job(job) for job in uncancelled(batch.left)}
    return [outcomes[job.number] for job in jobs]


def _failed_outcome(job: Job, reason: Reason) -> JobOutcome:
    return JobOutcome(failed(job, reason))


def _with_pairing_note(row: Row) -> Row:
    """Add a note to a row of graph mode with uncertain pairing; users rarely read the confidence column."""
    if row.unit is None or row.evidence is None or row.confidence is None or row.confidence >= 1:
        return row
    return replace(
        row, notes=(*row.notes, because("compare.guessed", confidence=row.confidence, evidence=row.evidence))
    )


def _work(measuring: Measuring, *, in_process: bool) -> Work[Job, JobOutcome]:
    return Work(
        measure_job,
        died,
        lambda job: job.nbytes,
        bool(measuring.options.metrics or measuring.options.conversions),
        # Only this process has the passwords and connections.
        measuring.in_process or in_process,
        _MIN_JOBS_FOR_PROCESSES,
        releases_gil=False,
    )


def conversions(options: CompareOptions) -> Conversions | None:
    """Load the user's layout conversions; `None` if there are none."""
    if not options.custom or not os.path.isdir(os.path.join(options.custom, "format_convert")):
        return None
    from opdiff.align.custom import load_conversions

    return load_conversions(options.custom)


def _custom_metrics(options: CompareOptions) -> tuple[Metric, ...]:
    """Load the selected metrics that are not built in: from the user's directory, and installed metrics by name."""
    from opdiff.measure.documented import parse_selection, unknown_names

    has_scripts = options.custom and os.path.isdir(os.path.join(options.custom, "algorithm"))
    if not has_scripts and not options.functions and not unknown_names(options.metrics):
        return ()
    from opdiff.measure.custom import METRICS, function_metrics, load_metrics

    found: dict[str, Metric] = {metric.name: metric for metric in function_metrics(options.functions)}
    found |= {metric.name: metric for metric in (load_metrics(options.custom) if has_scripts else ())}
    if wanted := {name.lower() for name in unknown_names(options.metrics, found)}:
        installed = (metric for name in METRICS.names() if name.lower() in wanted and (metric := METRICS.find(name)))
        found |= {metric.name: metric for metric in installed}
    return tuple(found[name] for name in parse_selection(options.metrics, found) if name in found)

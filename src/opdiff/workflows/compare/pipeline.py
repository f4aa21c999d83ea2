"""The whole way of a comparison, on one page: read → pair → align → measure → judge → report."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from opdiff import __version__
from opdiff.core.comparison import Comparison, Pairing
from opdiff.core.errors import InputError, UsageError
from opdiff.core.registry import may_have_plugins
from opdiff.judge import judge
from opdiff.judge.limits import DEFAULT_FILE, Limits, read_limits
from opdiff.pair import PairOptions, choose, pair
from opdiff.pair.target_graph import target_graph
from opdiff.report.columns import MetricColumn
from opdiff.report.csv_table import ReportColumns, write_csv
from opdiff.report.file_names import mapping_file_name, with_drafts, write_new
from opdiff.report.rows import saved
from opdiff.report.saved_json import save
from opdiff.run import Work, fitting_workers, run, usable_cores
from opdiff.workflows.compare.batch import is_possible, measure_batch
from opdiff.workflows.compare.inputs import NotCompared, iter_sides
from opdiff.workflows.compare.job import Extras, MeasureJob, died, measure_pairing
from opdiff.workflows.compare.outputs import environment, name_reports, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opdiff.align.custom import Custom
    from opdiff.core.comparison import Row, Unpaired
    from opdiff.core.manual_pair import ManualPair
    from opdiff.core.reasons import Reason
    from opdiff.measure.custom import Metric
    from opdiff.pair.selection import Selection
    from opdiff.report.rows import SavedComparison
    from opdiff.workflows.compare.inputs import CompareOptions, Sides

    Done = TypeVar("Done")
    Progress = Callable[[int, int], None]
    Pairs = tuple[Pairing | Unpaired, ...]

# Fewer small tensors are measured by the time that other processes have started.
_WORTH_JOBS = 800


class Compared(NamedTuple):
    """One comparison, not yet written down.

    Attributes:
        name: what its result file is to be called.
        comparison: what was found.
        notes: what is to be known about it.
        defects: tracebacks of errors that should not have happened.
        custom: the metrics that are not built in, by name.
    """

    name: str
    comparison: Comparison
    notes: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    custom: tuple[str, ...] = ()


def compare(options: CompareOptions, progress: Progress) -> Iterator[Compared | NotCompared]:
    """Compare two dumps, or every step of a training run.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side or a rule file cannot be used.
    """
    return _each(options, lambda sides: _compare_sides(sides, options, progress))


def _compare_sides(sides: Sides, options: CompareOptions, progress: Progress) -> Compared:
    scenario = choose(sides.target, sides.golden, sides.rules.given)
    custom = _custom_metrics(options)
    rows, defects = _measured(_paired(sides, options), custom, options, progress)
    view = (options.metrics, options.is_selected, options.overflow)
    graph = target_graph(sides.target, sides.rules.fusion or sides.rules.quant)
    comparison = Comparison(sides.target, sides.golden, scenario.reason, rows, *view, graph)
    return Compared(sides.name, comparison, sides.notes, defects, tuple(metric.name for metric in custom))


def judged(comparison: Comparison | SavedComparison, limits: Limits) -> SavedComparison:
    """What is kept of a comparison, and what is thought of it."""
    kept = saved(comparison)
    return kept._replace(judgement=judge(kept.rows, kept.graph, limits))


def find_step(options: CompareOptions, third: str, third_rules: str) -> Reason:
    """Which step broke the model: compare a run with fusion off with the golden one, and that with fusion on with it.

    Raises:
        UsageError: these runs and rules do not go together.
        InputError: a side or a rule file cannot be used.
    """
    from opdiff.judge.steps import step_of

    if not third_rules or not options.fusion_rules:
        raise UsageError("--third needs the rules of both runs: -fr with fusion on, -cfr with fusion off")
    limits = find_limits(options.limits)
    plain = options._replace(number_range="", selected="", pairs="")
    conversion = plain._replace(target=third, fusion_rules=third_rules, fusion_off_rules="")
    fusion = plain._replace(golden=third, fusion_off_rules=third_rules, quant_rules="")
    (first,), (second,) = (tuple(compare(each, lambda _done, _all: None)) for each in (conversion, fusion))
    if isinstance(first, NotCompared) or isinstance(second, NotCompared):
        raise UsageError("--third is for a single comparison, not for a training run")
    is_quantized = first.comparison.target.quantized and not first.comparison.golden.quantized
    judgements = (judged(each.comparison, limits).judgement for each in (first, second))
    made = [judgement for judgement in judgements if judgement is not None]
    return step_of(made[0], made[1], is_quantized=is_quantized)[1]


def find_limits(path: str) -> Limits:
    """The limits of this file; without one those of the current folder, or else the defaults.

    Raises:
        InputError: the file cannot be used.
    """
    if not path and not os.path.isfile(DEFAULT_FILE):
        return Limits()
    return read_limits(path or DEFAULT_FILE)


def map_pairs(options: CompareOptions, *, every_operator: bool = True) -> Iterator[Pairs | NotCompared]:
    """What `compare` would compare with what, without reading tensors; also the operators that it skips, if wanted."""
    return _each(options, lambda sides: _paired(sides, options, every_operator=every_operator))


def _each(options: CompareOptions, work: Callable[[Sides], Done]) -> Iterator[Done | NotCompared]:
    """What is made of each pair of dumps; in a batch one that cannot be used does not cost the others."""
    for sides in iter_sides(options):
        if isinstance(sides, NotCompared):
            yield sides
            continue
        try:
            yield work(sides)
        except (InputError, UsageError) as error:
            if not sides.in_batch:
                raise
            yield NotCompared(sides.target.path, str(error.problem))


def write_compared(compared: Compared, kept: SavedComparison, options: CompareOptions) -> tuple[str, ...]:
    """Write what is kept of a comparison: the result file, the same as JSON, and the reports that are wanted.

    Returns the paths of the result file and of the reports.
    """
    columns = report_columns(kept, compared.custom)
    kinds = options.reports.kinds
    kept = kept._replace(environment=environment())

    def write_all(drafts: tuple[str, ...]) -> tuple[str, ...]:
        """What is beside the table goes to files that have no names yet: they are called after the table."""
        early, reports = drafts[0], tuple(zip(kinds, drafts[1:], strict=True))
        save(kept, early, made_by=f"opdiff {__version__}")
        for kind, draft in reports:
            write_report(kind, kept, draft)
        path = write_new(options.output, compared.name, lambda draft: write_csv(kept, draft, columns))
        stem = os.path.splitext(os.path.basename(path))[0]
        write_new(options.output, f"{stem}.json", lambda draft: os.replace(early, draft))
        return path, *name_reports(options.output, stem, reports)

    return with_drafts(options.output, 1 + len(kinds), write_all)


def report_columns(kept: SavedComparison, custom: Iterable[str] = ()) -> ReportColumns:
    """The columns that the user wanted when the dumps were compared; `custom` names metrics that no row may have."""
    from opdiff.measure.documented import select_metrics

    names = dict.fromkeys((*custom, *(name for row in kept.rows for name, _, _ in row.custom)))
    metrics = tuple(MetricColumn(metric.name, metric.value) for metric in select_metrics(kept.metrics, names))
    return ReportColumns(metrics, tuple(names), kept.sequence, kept.overflow)


def write_pairs(pairs: Pairs, options: CompareOptions) -> str:
    """Write the table of what belongs together; returns its path."""
    from opdiff.report.mapping_csv import write_mapping

    name = mapping_file_name(time.localtime())
    return write_new(options.output, name, lambda draft: write_mapping(pairs, draft, sequence=options.is_selected))


def _paired(sides: Sides, options: CompareOptions, *, every_operator: bool = False) -> Pairs:
    wanted = PairOptions(_selection(options), _manual_pairs(options), every_operator)
    return pair(sides.target, sides.golden, sides.rules, wanted)


def _manual_pairs(options: CompareOptions) -> tuple[ManualPair, ...]:
    if not options.pairs:
        return ()
    from opdiff.read.rules.manual_pairs import read_pairs

    return read_pairs(options.pairs)


def _selection(options: CompareOptions) -> Selection | None:
    if not options.is_selected:
        return None
    from opdiff.pair.selection import parse_range, parse_select

    return parse_range(options.number_range) if options.number_range else parse_select(options.selected)


def _measured(
    paired: Pairs, custom: tuple[Metric, ...], options: CompareOptions, progress: Progress
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """The rows with their numbers, in the order of the pairs, whatever the order of the work was."""
    from opdiff.measure.documented import select_metrics

    wanted = select_metrics(options.metrics, [metric.name for metric in custom])
    extras = Extras(any(metric.needs_kl for metric in wanted), conversions(options), custom)
    jobs = [MeasureJob(number, row, extras) for number, row in enumerate(paired) if isinstance(row, Pairing)]
    rows: dict[int, Row] = {number: row for number, row in enumerate(paired) if not isinstance(row, Pairing)}
    defects: list[str] = []
    total = sum(job.nbytes for job in jobs)
    if is_possible(jobs):
        batch = measure_batch(jobs, options.workers or usable_cores(), lambda done: progress(done, total))
        rows |= {job.number: measured for job, measured in batch.done}
        jobs = batch.left
    work = Work(
        measure_pairing,
        died,
        lambda job: job.nbytes,
        bool(options.custom),
        options.in_process,
        _WORTH_JOBS,
        frees_interpreter=False,
    )
    done = total - sum(job.nbytes for job in jobs)
    progress(done, total)
    workers = fitting_workers(options.workers, options.memory, (job.nbytes for job in jobs))
    for job, (measured, defect) in run(work, jobs, workers):
        rows[job.number] = measured
        defects += [defect] if defect else []
        done += job.nbytes
        progress(done, total)
    return tuple(rows[number] for number in sorted(rows)), tuple(defects)


def conversions(options: CompareOptions) -> Custom | None:
    """The user's own layout conversions, if there are any."""
    if not options.custom or not os.path.isdir(os.path.join(options.custom, "format_convert")):
        return None
    from opdiff.align.custom import load_custom

    return load_custom(options.custom)


def _custom_metrics(options: CompareOptions) -> tuple[Metric, ...]:
    """The metrics that are not built in and were chosen: installed ones, and those of the user's directory."""
    has_own = options.custom and os.path.isdir(os.path.join(options.custom, "algorithm"))
    if not has_own and not may_have_plugins("metric"):
        return ()
    from opdiff.measure.custom import METRICS, load_metrics
    from opdiff.measure.documented import parse_selection

    found: dict[str, Metric] = {name: metric for name in METRICS.names() if (metric := METRICS.find(name))}
    found |= {metric.name: metric for metric in (load_metrics(options.custom) if has_own else ())}
    return tuple(found[name] for name in parse_selection(options.metrics, found) if name in found)

"""The whole way of a comparison, on one page: read → pair → align → measure → judge → report."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from opdiff import __version__
from opdiff.batching import is_possible, measure_batch
from opdiff.comparison import Comparison, Pairing
from opdiff.errors import InputError, UsageError
from opdiff.judge import judge
from opdiff.judge.limits import DEFAULT_FILE, Limits, read_limits
from opdiff.measuring import Extras, MeasureJob, died, measure_pairing
from opdiff.pair import PairOptions, Rules, choose, pair
from opdiff.pair.ge_json import read_rule_directory, read_rules
from opdiff.pair.nodes import graph_of
from opdiff.read.directory import scan
from opdiff.read.dump import read_dump, read_folder_dump
from opdiff.registry import may_have_plugins
from opdiff.report.as_csv import ReportColumns, write_csv
from opdiff.report.as_json import save
from opdiff.report.columns import MetricColumn
from opdiff.report.names import batch_file_name, mapping_file_name, result_file_name, with_drafts, write_new
from opdiff.report.rows import saved
from opdiff.reporting import Reports, environment, name_reports, write_report
from opdiff.run import Work, run, usable_cores
from opdiff.run.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.align.custom import Custom
    from opdiff.comparison import Dump, Row, Unpaired
    from opdiff.measure.custom import Metric
    from opdiff.pair.batch import BatchJob, ModelFolder
    from opdiff.pair.manual import ManualPair
    from opdiff.pair.selection import Selection
    from opdiff.read.directory import Folder
    from opdiff.report.rows import SavedComparison

    Done = TypeVar("Done")
    Progress = Callable[[int, int], None]
    Pairs = tuple[Pairing | Unpaired, ...]

# From here on another core writes the JSON while this one writes the table and the reports.
_MANY_ROWS = 500

# Working copies of a tensor that exist while it is measured: stored, aligned, and a block of numbers.
_COPIES = 3


class CompareOptions(NamedTuple):
    """What to compare, with which rules, and what to write; texts are as the user wrote them."""

    target: str = ""
    golden: str = ""
    fusion_rules: str = ""
    close_rules: str = ""
    quant_rules: str = ""
    output: str = "."
    metrics: str = "all"
    custom: str = ""
    number_range: str = ""
    selected: str = ""
    pairs: str = ""
    overflow: bool = False
    workers: int = 0
    memory: int = 0
    in_process: bool = False
    limits: str = ""
    reports: Reports = Reports()

    @property
    def is_selected(self) -> bool:
        """Whether only some operators are wanted."""
        return bool(self.number_range or self.selected)


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


class NotCompared(NamedTuple):
    """A folder of a batch that could not be compared, and why."""

    path: str
    reason: str


class _Sides(NamedTuple):
    """Two dumps, the rules between them, and the name of their result; whether they are one step of many."""

    name: str
    target: Dump
    golden: Dump
    rules: Rules
    notes: tuple[str, ...] = ()
    in_batch: bool = False


def compare(options: CompareOptions, progress: Progress) -> Iterator[Compared | NotCompared]:
    """Compare two dumps, or every step of a training run.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side or a rule file cannot be used.
    """
    return _each(options, lambda sides: _compare_sides(sides, options, progress))


def _compare_sides(sides: _Sides, options: CompareOptions, progress: Progress) -> Compared:
    scenario = choose(sides.target, sides.golden, sides.rules.given)
    custom = _custom_metrics(options)
    rows, defects = _measured(_paired(sides, options), custom, options, progress)
    view = (options.metrics, options.is_selected, options.overflow)
    graph = graph_of(sides.target, sides.rules.fusion or sides.rules.quant)
    comparison = Comparison(sides.target, sides.golden, str(scenario), rows, *view, graph)
    return Compared(sides.name, comparison, sides.notes, defects, tuple(metric.name for metric in custom))


def judged(comparison: Comparison | SavedComparison, limits: Limits) -> SavedComparison:
    """What is kept of a comparison, and what is thought of it."""
    kept = saved(comparison)
    return kept._replace(judgement=judge(kept.rows, kept.graph, limits))


def find_step(options: CompareOptions, third: str, third_rules: str) -> str:
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
    conversion = plain._replace(target=third, fusion_rules=third_rules, close_rules="")
    fusion = plain._replace(golden=third, close_rules=third_rules, quant_rules="")
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


def _each(options: CompareOptions, work: Callable[[_Sides], Done]) -> Iterator[Done | NotCompared]:
    """What is made of each pair of dumps; in a batch one that cannot be used does not cost the others."""
    for sides in _iter_sides(options):
        if isinstance(sides, NotCompared):
            yield sides
            continue
        try:
            yield work(sides)
        except (InputError, UsageError) as error:
            if not sides.in_batch:
                raise
            yield NotCompared(sides.target.path, error.problem)


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

        def write_json() -> None:
            save(kept, early, made_by=f"opdiff {__version__}")

        # The JSON takes longer than the table and the page together.
        with Beside(write_json, worth_it=len(kept.rows) >= _MANY_ROWS) as beside:
            path = write_new(options.output, compared.name, lambda draft: write_csv(kept, draft, columns))
            for kind, draft in reports:
                write_report(kind, kept, draft)
            beside.wait()
        stem = os.path.splitext(os.path.basename(path))[0]
        write_new(options.output, f"{stem}.json", lambda draft: os.replace(early, draft))
        return path, *name_reports(options.output, stem, reports)

    return with_drafts(options.output, 1 + len(kinds), write_all)


def report_columns(kept: SavedComparison, custom: Iterable[str] = ()) -> ReportColumns:
    """The columns that the user wanted when the dumps were compared; `custom` names metrics that no row may have."""
    from opdiff.measure.documented import number_text, select_metrics

    names = dict.fromkeys((*custom, *(name for row in kept.rows for name, _, _ in row.custom)))
    metrics = tuple(MetricColumn(metric.name, metric.text) for metric in select_metrics(kept.metrics, names))
    return ReportColumns(metrics, number_text, tuple(names), kept.sequence, kept.overflow)


def write_pairs(pairs: Pairs, options: CompareOptions) -> str:
    """Write the table of what belongs together; returns its path."""
    from opdiff.measure.documented import number_text
    from opdiff.report.as_mapping import write_mapping

    name = mapping_file_name(_now())
    return write_new(
        options.output, name, lambda draft: write_mapping(pairs, draft, number_text, sequence=options.is_selected)
    )


def _iter_sides(options: CompareOptions) -> Iterator[_Sides | NotCompared]:
    _check(options)
    if os.path.isdir(options.fusion_rules):
        yield from _iter_steps(options)
        return
    rules = Rules(*(read_rules(path) if path else None for path in _rule_paths(options)))
    with_rules = any(_rule_paths(options))
    target = read_dump(options.target, with_rules=with_rules)
    golden = read_dump(options.golden, with_rules=with_rules)
    yield _Sides(result_file_name(_now()), target, golden, rules)


def _check(options: CompareOptions) -> None:
    for path in _rule_paths(options):
        if path and not os.path.exists(path):
            raise InputError(path, "no such file or directory")
    if (options.number_range or options.selected) and not options.fusion_rules:
        raise UsageError("--range and --select go by the numbers of a rule file; give -fr too")
    if options.custom and not os.path.isdir(options.custom):
        raise UsageError(f"{options.custom}: no such directory of conversions and metrics")


def _rule_paths(options: CompareOptions) -> tuple[str, str, str]:
    return options.fusion_rules, options.close_rules, options.quant_rules


def _iter_steps(options: CompareOptions) -> Iterator[_Sides | NotCompared]:
    """Training: every step of every model on every device, each with the rules of its graph."""
    from opdiff.pair.batch import match_rules

    if options.close_rules or options.quant_rules:
        raise UsageError("a directory of rule files goes with training dumps, and without -cfr and -qfr")
    folders = {folder.path: folder for folder in scan(options.target).folders if folder.location.model is not None}
    models = [_model_folder(folder) for folder in folders.values()]
    rule_files, errors = read_rule_directory(options.fusion_rules)
    batch = match_rules(rule_files, models)
    if not batch.jobs:
        reasons = "; ".join(dict.fromkeys(unmatched.reason for unmatched in batch.unmatched))
        raise InputError(options.target, reasons or "no folders DEVICE/MODEL/MODEL_ID/STEP with dump files here")
    golden = read_dump(options.golden, with_rules=True)
    yield from (NotCompared(error.path, error.problem) for error in errors)
    yield from (NotCompared(unmatched.folder.path, unmatched.reason) for unmatched in batch.unmatched)
    yield from (_step(job, folders[job.folder.path], golden) for job in batch.jobs)


def _step(job: BatchJob, folder: Folder, golden: Dump) -> _Sides | NotCompared:
    """One step of a training run; a step that cannot be used does not cost the others."""
    place, rules = job.folder, Rules(job.rules)
    try:
        target = read_folder_dump(folder, with_rules=True)
    except InputError as error:
        return NotCompared(place.path, error.problem)
    name = batch_file_name(str(place.device), place.model, str(place.step), _now())
    # The name of the result does not tell the model's id.
    notes = (f"{place.path}:", *([job.note] if job.note else []))
    return _Sides(name, target, golden, rules, notes, in_batch=True)


def _model_folder(folder: Folder) -> ModelFolder:
    from opdiff.pair.batch import ModelFolder

    place = folder.location
    return ModelFolder(folder.path, place.device or 0, place.model or "", place.model_id or 0, place.step or 0)


def _paired(sides: _Sides, options: CompareOptions, *, every_operator: bool = False) -> Pairs:
    wanted = PairOptions(_selection(options), _manual_pairs(options), every_operator)
    return pair(sides.target, sides.golden, sides.rules, wanted)


def _manual_pairs(options: CompareOptions) -> tuple[ManualPair, ...]:
    if not options.pairs:
        return ()
    from opdiff.pair.manual import read_pairs

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
    work = Work(measure_pairing, died, lambda job: job.nbytes, bool(options.custom), options.in_process)
    done = total - sum(job.nbytes for job in jobs)
    progress(done, total)
    for job, (measured, defect) in run(work, jobs, _workers(options, jobs)):
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


def _workers(options: CompareOptions, jobs: Sequence[MeasureJob]) -> int:
    """As many as asked for, or fewer where the largest tensors would not fit in the memory that was granted."""
    if not options.memory or not jobs:
        return options.workers
    fitting = options.memory // (_COPIES * max(job.nbytes for job in jobs) or 1)
    return options.workers if fitting >= (options.workers or usable_cores()) else max(fitting, 1)


def _now() -> time.struct_time:
    return time.localtime()

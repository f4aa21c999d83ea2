"""Inputs of a comparison: both sides, and the pairs of tensors between them.

options ──► Inputs (offline: one, or one for each step of a training run; graph mode: one)
               └── paired_batches ──► PairBatch: pairs that are measured together
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.comparison import ExtraInputs, Mode, ModelGraph, Side
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.pairing import Unpaired
from opdiff.core.reasons import Status, all_of, because, first_of, statuses_of
from opdiff.pair import PairOptions, Rules, pair, resolve
from opdiff.pair.scenario import rule_notes
from opdiff.pair.target_graph import target_graph
from opdiff.read.directory import scan
from opdiff.read.rules import read_rule_directory
from opdiff.report.file_names import batch_file_name, timed_file_name
from opdiff.workflows.compare.environments import offline_differences
from opdiff.workflows.compare.input_checks import (
    compare_command,
    golden_origin_notes,
    offline_problems,
    option_problems,
    refuse_certain,
    refuse_graph_mode,
)
from opdiff.workflows.compare.input_reader import InputReader
from opdiff.workflows.compare.options import check_options, choose_mode, has_graph_text, has_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.core.pairing import ManualPair, PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.pair.selection import Selection
    from opdiff.pair.training import BatchJob, ModelFolder
    from opdiff.read.directory import Folder
    from opdiff.workflows.compare.measuring import MeasuredBlocks, Measuring
    from opdiff.workflows.compare.options import CompareOptions

# Names of a side that are kept as examples.
_MAX_NAMES = 4
# Operators and outputs that a rule file of the offline model would explain.
_UNCLEAR = frozenset({Status.NOT_IN_QUANT_RULES, Status.UNCLEAR_NAME})


class PairBatch(Struct, frozen=True):
    """Pairs that are measured together, the networks that they belong to, and notes about the pairs.

    `measured` has the rows instead of the pairs if a worker that read the tensors has measured them, and `progress` the
    bytes that workers have measured so far, and about how many there are.
    """

    pairs: tuple[PairingResult, ...]
    graphs: tuple[ModelGraph, ...] = ()
    notes: tuple[Reason, ...] = ()
    measured: MeasuredBlocks | None = None
    progress: tuple[int, int] = (0, 0)


class Inputs(Struct, frozen=True):
    """The two sides of one comparison, without tensor data.

    Attributes:
        mode: offline or graph mode.
        name: name of the result file; graph mode has its own names.
        target: the target's side.
        golden: the golden side.
        scenario: kinds of the two sides.
        paired_batches: the pairs, made on request.
        notes: remarks for the user.
        is_step: whether this is a step of a training run; its failure does not affect other steps.
        extra_inputs: the rule files, and other paths that were given besides the dumps.
        files_left_out: number of files of both sides that were not recognized as dumps.
        warnings: signs that inputs were mixed up; they are the first lines of the result.
        misfit: why no operator can be judged; `None` if nothing is known against it before the pairs are made.
        differences: differences between the environments of two NPU runs.
    """

    mode: Mode
    name: str
    target: Side
    golden: Side
    scenario: Reason
    paired_batches: Iterable[PairBatch]
    notes: tuple[Reason, ...] = ()
    is_step: bool = False
    extra_inputs: ExtraInputs = ExtraInputs()
    files_left_out: int = 0
    warnings: tuple[Reason, ...] = ()
    misfit: Reason | None = None
    differences: tuple[Reason, ...] = ()


class ComparisonProblem(Struct, frozen=True):
    """A folder of a training run that could not be compared, and the reason."""

    path: str
    reason: Reason


def read_inputs(
    options: CompareOptions,
    *,
    every_operator: bool = False,
    reader: InputReader | None = None,
    measuring: Measuring | None = None,
) -> Iterator[Inputs | ComparisonProblem]:
    """Read both sides, or both sides of every step of a training run.

    Args:
        options: the comparison.
        every_operator: as in `PairOptions`.
        reader: shared by comparisons of the same dumps.
        measuring: how pairs will be measured; workers that read many tokens of graph mode then measure them, too.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side or a rule file cannot be used.
    """
    reader = reader or InputReader()
    if choose_mode(options) is Mode.GRAPH:
        from opdiff.workflows.compare.graph_inputs import read_graph_inputs

        yield read_graph_inputs(options, reader, measuring)
        return
    check_options(options)
    if has_steps(options):
        yield from _read_steps(options, reader, every_operator=every_operator)
        return
    # No variable keeps the descriptions of all tensors, so that they are released when the last pair is measured.
    name = timed_file_name("result", time.localtime())
    yield _inputs(name, *_read_sides(options, reader), options, every_operator=every_operator)


def _read_sides(options: CompareOptions, reader: InputReader) -> tuple[Dump, Dump, Rules]:
    if has_graph_text(options.target):
        refuse_graph_mode(options.target, options.golden)
    with_rules = any(options.rule_paths)
    fusion, fusion_off, quant = (reader.rules(path) if path else None for path in options.rule_paths)
    rules = Rules(fusion, fusion_off, quant)
    try:
        target = reader.dump(options.target, with_rules=with_rules)
        return target, reader.golden(options.golden, _original_names(rules.files), with_rules=with_rules), rules
    except InputError:
        refuse_graph_mode(options.target, options.golden)
        raise


def _original_names(rules: Iterable[RuleFile | None]) -> set[str]:
    """Return the names of original operators that the rules ask for."""
    operators = [operator for file in rules if file for operator in file.operators()]
    names = {name for operator in operators for name in (operator.name, *operator.originals)}
    return names | {output.origin_name for operator in operators for output in operator.outputs} - {""}


def _inputs(
    name: str, target: Dump, golden: Dump, rules: Rules, options: CompareOptions, *, every_operator: bool
) -> Inputs:
    scenario, rules = resolve(target, golden, rules)
    problems = (*option_problems(target, overflow=options.overflow), *offline_problems(target, golden, rules))
    warnings = refuse_certain(problems, force=options.force)
    misfit = next((problem.misfit for problem in problems if problem.misfit is not None), None)
    return Inputs(
        Mode.OFFLINE,
        name,
        _side(target),
        _side(golden),
        scenario.reason,
        _batches(target, golden, rules, options, every_operator=every_operator),
        (*golden_origin_notes(golden.path, rules.files), *rule_notes(rules), *_file_notes(target, golden)),
        extra_inputs=_extra_inputs(rules, options),
        files_left_out=len(target.skipped) + len(golden.skipped),
        warnings=warnings,
        misfit=misfit,
        differences=tuple(offline_differences(target, golden, rules)),
    )


def _batches(
    target: Dump, golden: Dump, rules: Rules, options: CompareOptions, *, every_operator: bool
) -> Iterator[PairBatch]:
    pair_options = PairOptions(_selection(options), _manual_pairs(options), every_operator)
    nodes = target_graph(target, golden, rules.target_operators())
    pairs = pair(target, golden, rules, pair_options)
    graph = ModelGraph(nodes, against_original=golden.kind is DumpKind.ARRAYS)
    batch = PairBatch(pairs, (graph,) if nodes else (), tuple(_names_note(pairs, target, rules)))
    # While the pairs are measured, the rules and the tensors without a partner take no memory.
    del target, golden, rules
    yield batch


def _names_note(pairs: Iterable[PairingResult], target: Dump, rules: Rules) -> Iterator[Reason]:
    """Yield how many operators need the rule file of the target, because their names do not tell enough."""
    if rules.named is None:
        return
    needy = {
        pair.label.target if pair.key is None else pair.key.op
        for pair in pairs
        if isinstance(pair, Unpaired) and not _UNCLEAR.isdisjoint(statuses_of(pair.reason))
    }
    if needy:
        yield because("pair.by_names_only", count=len(needy), total=len(target.operators))


def _extra_inputs(rules: Rules, options: CompareOptions) -> ExtraInputs:
    fusion, fusion_off, quant = (file.path if file else "" for file in rules.files)
    return ExtraInputs(fusion, fusion_off, quant, options.pairs, options.custom)


def _side(dump: Dump) -> Side:
    names = tuple(islice(dump.operators, _MAX_NAMES))
    return Side(dump.path, dump.kind, dump.quantized, len(dump.operators), names)


def _file_notes(target: Dump, golden: Dump) -> Iterator[Reason]:
    """Yield which files of each side were left out, are of other executions or cannot be read, with an example."""
    for side, dump in (("target", target), ("golden", golden)):
        for code, files in (("compare.files_left_out", dump.skipped), ("compare.files_unused", dump.unused)):
            if files:
                yield because(code, count=len(files), side=side, path=files[0].path, why=files[0].reason)
        unreadable = [operator for operator in dump.operators.values() if operator.problem]
        if unreadable:
            name, why = unreadable[0].name, unreadable[0].problem
            yield because("compare.operators_unreadable", count=len(unreadable), side=side, name=name, why=why)


def _manual_pairs(options: CompareOptions) -> tuple[ManualPair, ...]:
    if not options.pairs:
        return ()
    from opdiff.read.declarations import read_pairs

    return read_pairs(options.pairs)


def _selection(options: CompareOptions) -> Selection | None:
    if not options.is_selected:
        return None
    from opdiff.pair.selection import parse_range, parse_select

    return parse_range(options.number_range) if options.number_range else parse_select(options.selected)


# Training


def _read_steps(
    options: CompareOptions, reader: InputReader, *, every_operator: bool
) -> Iterator[Inputs | ComparisonProblem]:
    """Read every step of every model on every device, each with the rules of its graph."""
    from opdiff.pair.training import match_rules

    given = {"-cfr": options.fusion_off_rules, "-qfr": options.quant_rules}
    superfluous = tuple(option for option, path in given.items() if path)
    if superfluous:
        command = compare_command(options.target, options.golden, fr=options.fusion_rules)
        raise UsageError(because("compare.training_rules", options=superfluous, command=command))
    folders = {folder.path: folder for folder in scan(options.target).folders if folder.location.model is not None}
    if not folders:
        raise InputError(options.fusion_rules, because("compare.rules_directory", target=options.target))
    is_file = filesystem.isfile(options.fusion_rules)
    only = reader.rules(options.fusion_rules) if is_file else None
    rule_files, errors = ((only,), ()) if only else read_rule_directory(options.fusion_rules)
    matched = match_rules(rule_files, [_model_folder(folder) for folder in folders.values()], only=only)
    if not matched.jobs:
        problem = all_of(unmatched.reason for unmatched in matched.unmatched)
        graphs = first_of([graph.name for file in rule_files for graph in file.graphs])
        command = compare_command(options.target, options.golden, fr="RULES_DIR")
        reason = because("compare.no_rules_of_models", problem=problem, graphs=graphs, command=command)
        raise InputError(options.target, reason)
    names = {name for file in rule_files for name in _original_names([file])}
    golden = reader.golden(options.golden, names, with_rules=True)
    yield from (ComparisonProblem(error.path, error.problem) for error in errors)
    yield from (ComparisonProblem(unmatched.folder.path, unmatched.reason) for unmatched in matched.unmatched)
    dumps = reader.folder_dumps([folders[job.folder.path] for job in matched.jobs])
    for job, target in zip(matched.jobs, dumps, strict=True):
        yield _read_step(job, target, golden, options, every_operator=every_operator)


def _read_step(
    job: BatchJob, target: Dump | InputError, golden: Dump, options: CompareOptions, *, every_operator: bool
) -> Inputs | ComparisonProblem:
    model, rules = job.folder, Rules(job.rules)
    name = batch_file_name(str(model.device), model.model, str(model.step), time.localtime())
    if isinstance(target, InputError):
        return ComparisonProblem(model.path, target.problem)
    try:
        inputs = _inputs(name, target, golden, rules, options, every_operator=every_operator)
    except (InputError, UsageError) as error:
        return ComparisonProblem(model.path, error.reason if isinstance(error, UsageError) else error.problem)
    # The name of the result does not have the model's id.
    notes = (because("compare.step_folder", path=model.path), *([job.note] if job.note else ()), *inputs.notes)
    return replace(inputs, notes=notes, is_step=True)


def _model_folder(folder: Folder) -> ModelFolder:
    from opdiff.pair.training import ModelFolder

    found = folder.location
    return ModelFolder(folder.path, found.device or 0, found.model or "", found.model_id or 0, found.step or 0)

"""What is compared: the options of a comparison, and the dumps and rules that they name, one pair of dumps or many."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import InputError, UsageError
from opdiff.pair import Rules
from opdiff.read.directory import scan
from opdiff.read.dump import read_dump, read_folder_dump
from opdiff.read.rules.atc_json import read_rule_directory, read_rules
from opdiff.report.file_names import batch_file_name, result_file_name
from opdiff.workflows.compare.outputs import Reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.dump import Dump
    from opdiff.pair.training import BatchJob, ModelFolder
    from opdiff.read.directory import Folder


class CompareOptions(NamedTuple):
    """What to compare, with which rules, and what to write; texts are as the user wrote them."""

    target: str = ""
    golden: str = ""
    fusion_rules: str = ""
    fusion_off_rules: str = ""
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


class NotCompared(NamedTuple):
    """A folder of a batch that could not be compared, and why."""

    path: str
    reason: str


class Sides(NamedTuple):
    """Two dumps, the rules between them, and the name of their result; whether they are one step of many."""

    name: str
    target: Dump
    golden: Dump
    rules: Rules
    notes: tuple[str, ...] = ()
    in_batch: bool = False


def iter_sides(options: CompareOptions) -> Iterator[Sides | NotCompared]:
    """The two dumps, or those of every step of a training run.

    Raises:
        UsageError: the options contradict each other or the data.
        InputError: a side or a rule file cannot be used.
    """
    _check(options)
    if os.path.isdir(options.fusion_rules):
        yield from _iter_steps(options)
        return
    with_rules = any(_rule_paths(options))
    rules = Rules(*(read_rules(path) if path else None for path in _rule_paths(options)))
    target = read_dump(options.target, with_rules=with_rules)
    golden = read_dump(options.golden, with_rules=with_rules)
    yield Sides(result_file_name(time.localtime()), target, golden, rules)


def _check(options: CompareOptions) -> None:
    for path in _rule_paths(options):
        if path and not os.path.exists(path):
            raise InputError(path, "no such file or directory")
    if (options.number_range or options.selected) and not options.fusion_rules:
        raise UsageError("--range and --select go by the numbers of a rule file; give -fr too")
    if options.custom and not os.path.isdir(options.custom):
        raise UsageError(f"{options.custom}: no such directory of conversions and metrics")


def _rule_paths(options: CompareOptions) -> tuple[str, str, str]:
    return options.fusion_rules, options.fusion_off_rules, options.quant_rules


def _iter_steps(options: CompareOptions) -> Iterator[Sides | NotCompared]:
    """Training: every step of every model on every device, each with the rules of its graph."""
    from opdiff.pair.training import match_rules

    if options.fusion_off_rules or options.quant_rules:
        raise UsageError("a directory of rule files goes with training dumps, and without -cfr and -qfr")
    folders = {folder.path: folder for folder in scan(options.target).folders if folder.location.model is not None}
    models = [_model_folder(folder) for folder in folders.values()]
    rule_files, errors = read_rule_directory(options.fusion_rules)
    batch = match_rules(rule_files, models)
    if not batch.jobs:
        reasons = "; ".join(dict.fromkeys(str(unmatched.reason) for unmatched in batch.unmatched))
        raise InputError(options.target, reasons or "no folders DEVICE/MODEL/MODEL_ID/STEP with dump files here")
    golden = read_dump(options.golden, with_rules=True)
    yield from (NotCompared(error.path, str(error.problem)) for error in errors)
    yield from (NotCompared(unmatched.folder.path, str(unmatched.reason)) for unmatched in batch.unmatched)
    yield from (_step(job, folders[job.folder.path], golden) for job in batch.jobs)


def _step(job: BatchJob, folder: Folder, golden: Dump) -> Sides | NotCompared:
    """One step of a training run; a step that cannot be used does not cost the others."""
    place, rules = job.folder, Rules(job.rules)
    try:
        target = read_folder_dump(folder, with_rules=True)
    except InputError as error:
        return NotCompared(place.path, str(error.problem))
    name = batch_file_name(str(place.device), place.model, str(place.step), time.localtime())
    # The name of the result does not tell the model's id.
    notes = (f"{place.path}:", *([str(job.note)] if job.note else []))
    return Sides(name, target, golden, rules, notes, in_batch=True)


def _model_folder(folder: Folder) -> ModelFolder:
    from opdiff.pair.training import ModelFolder

    place = folder.location
    return ModelFolder(folder.path, place.device or 0, place.model or "", place.model_id or 0, place.step or 0)

"""Recognition of stages: original, quantized, compiled with fusion off or on, by the contents and the rule files.

directory ──read──► arrays or dump, quantizing operators ─┐
rule files ──read──► operators, number of fused operators ┴──► Stage, … in the order of the chain
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because
from opdiff.core.stages import Change, Stage, StageKind
from opdiff.read.dump import is_quantization
from opdiff.workflows.compare.input_checks import count_fused, find_fused, rules_fit
from opdiff.workflows.stages.options import StageName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Reason
    from opdiff.workflows.compare.input_reader import InputReader
    from opdiff.workflows.stages.options import StagesOptions

# Share of the dumped operators that the rules of the same model have, at least.
_MIN_FIT = 0.5
_KINDS = list(StageKind)
_CHANGES: dict[StageName | None, Change] = {StageName.VERSION: Change.VERSION, StageName.PROCESSOR: Change.PROCESSOR}


class _Run(NamedTuple):
    """A directory that was read, and what the user said about it."""

    position: int
    dump: Dump
    name: StageName | None


class _Rules(NamedTuple):
    """A rule file of a compiled model; `is_off` tells that it was given as the file of fusion off."""

    file: RuleFile
    fused: int
    is_off: bool
    is_version: bool = False


def recognize(options: StagesOptions, reader: InputReader) -> tuple[tuple[Stage, ...], tuple[Reason, ...]]:
    """Return the stages in the order of the chain, and remarks about the directories and rule files.

    Unreadable directories are left out, unless fewer than two remain.

    Raises:
        UsageError: what a directory holds cannot be told, and the user has to say it.
        InputError: fewer than two directories can be used, or a rule file cannot.
    """
    runs, notes = _read_runs(options, reader)
    rules, exchanged = _read_rule_files(options, reader)
    arrays = [run for run in runs if run.dump.kind is DumpKind.ARRAYS]
    devices = [run for run in runs if run.dump.kind is DumpKind.NPU]
    found = [*_array_stages(arrays, with_quant_rules=bool(options.quant_rules)), *_device_stages(devices, rules)]
    found.sort(key=lambda item: (_KINDS.index(item[1].kind), item[1].change is not None, item[0]))
    positions, stages = [position for position, _ in found], tuple(stage for _, stage in found)
    _refuse_repeated(stages)
    used = {stage.rules for stage in stages}
    notes += exchanged
    notes += [because("stages.rules_unused", rules=each.file.path) for each in rules if each.file.path not in used]
    if positions != sorted(positions):
        notes.append(because("stages.reordered", order=tuple(stage.path for stage in stages)))
    return stages, tuple(notes)


def _read_runs(options: StagesOptions, reader: InputReader) -> tuple[list[_Run], list[Reason]]:
    runs: list[_Run] = []
    notes: list[Reason] = []
    errors: list[InputError] = []
    for position, path in enumerate(options.folders):
        try:
            runs.append(_Run(position, reader.golden(path, (), with_rules=True), options.name(position)))
        except InputError as error:
            errors.append(error)
            notes.append(because("stages.left_out", path=path, problem=error.problem))
    if len(runs) < 2:
        raise errors[0]
    return runs, notes


def _read_rule_files(options: StagesOptions, reader: InputReader) -> tuple[list[_Rules], list[Reason]]:
    """Read the rule files of compiled models; files of fusion on and off are exchanged if their operators say so."""
    found = [
        _Rules(file, count_fused(file), is_off=is_off, is_version=is_version)
        for path, is_off, is_version in (
            (options.fusion_off_rules, True, False),
            (options.fusion_rules, False, False),
            (options.version_rules, False, True),
        )
        if path
        for file in (reader.rules(path),)
    ]
    if not (options.fusion_off_rules and options.fusion_rules) or found[0].fused <= found[1].fused:
        return found, []
    off, on = found[0], found[1]
    note = because("stages.rules_exchanged", fusion_off=off.file.path, fusion=on.file.path)
    return [on._replace(is_off=True), off._replace(is_off=False), *found[2:]], [note]


def _refuse_repeated(stages: Sequence[Stage]) -> None:
    """Refuse two stages of one kind, unless they may be of two versions or processors."""
    for earlier, later in pairwise(stages):
        if earlier.kind is later.kind and later.data is DumpKind.ARRAYS:
            code = "stages.quantized_original" if later.quantized else "stages.plain_original"
            raise UsageError(because("stages.repeated", first=earlier.path, second=later.path, kind=because(code)))


# Arrays of original models


def _array_stages(runs: Sequence[_Run], *, with_quant_rules: bool) -> Iterator[tuple[int, Stage]]:
    unmarked = [run for run in runs if not run.dump.quantized and run.name is None]
    for run in runs:
        dump = run.dump
        evidence = [because("stages.arrays", count=len(dump.operators))]
        quantizing = next((name for name, operator in dump.operators.items() if is_quantization(operator)), "")
        is_second = with_quant_rules and len(unmarked) == 2 and run is unmarked[1] and len(runs) == 2
        is_quantized = bool(quantizing) or is_second
        if run.name is not None:
            is_quantized = _said_quantized(run)
            evidence.append(because("stages.as_said"))
        elif quantizing:
            evidence.append(because("stages.quantizing_operator", name=quantizing))
        elif is_second:
            evidence.append(because("stages.by_quant_rules"))
        kind = StageKind.QUANTIZED if is_quantized else StageKind.ORIGINAL
        yield run.position, Stage(dump.path, kind, dump.kind, is_quantized, evidence=tuple(evidence))


def _said_quantized(run: _Run) -> bool:
    if run.name not in (StageName.ORIGINAL, StageName.QUANTIZED):
        raise UsageError(because("stages.arrays_said", name=run.name, path=run.dump.path))
    return run.name is StageName.QUANTIZED


# Dumps of compiled models


def _device_stages(runs: Sequence[_Run], rules: Sequence[_Rules]) -> Iterator[tuple[int, Stage]]:
    for run in runs:
        dump, chosen = run.dump, _choose_rules(run, runs, rules)
        fused = _find_fusion(run, runs)
        if chosen is not None and _is_of_other_fusion(chosen, run, runs):
            chosen = None
        evidence = [because("stages.dump", count=len(dump.operators))]
        kind, why = _device_kind(run, chosen, fused)
        evidence += [why] if why else []
        stage = Stage(
            dump.path, kind, dump.kind, dump.quantized, evidence=tuple(evidence), change=_CHANGES.get(run.name)
        )
        if chosen is not None:
            stage = stage._replace(rules=chosen.file.path, fused=chosen.fused, origin=chosen.file.origin)
        yield run.position, stage


def _find_fusion(run: _Run, runs: Sequence[_Run]) -> Reason | None:
    """Return which operator of another dump joins several operators of this dump; `None` if there is none."""
    for other in runs:
        fused = find_fused(other.dump.operators, run.dump.operators) if other is not run else None
        if fused is not None:
            return because("stages.fuses_others", name=fused[0], parts=fused[1])
    return None


def _is_of_other_fusion(rules: _Rules, run: _Run, runs: Sequence[_Run]) -> bool:
    """Return whether rules fit another dump better, whose operators are fused otherwise."""
    own = rules_fit(run.dump, rules.file)
    better = [other for other in runs if other is not run and rules_fit(other.dump, rules.file) > own]
    return any(_find_fusion(*pair) is not None for other in better for pair in ((run, (other,)), (other, (run,))))


def _choose_rules(run: _Run, runs: Sequence[_Run], rules: Sequence[_Rules]) -> _Rules | None:
    """Return the file that has most of the operators; of several, the file given for such a stage."""
    fitting = [(rules_fit(run.dump, each.file), each) for each in rules]
    best = max((fit for fit, _ in fitting), default=0.0)
    equal = [each for fit, each in fitting if fit == best and fit >= _MIN_FIT]
    if not equal:
        return None
    is_version = run.name in _CHANGES or (run is runs[-1] and len(runs) > 1)
    is_off = run.name is StageName.FUSION_OFF or (run.name is None and run is runs[0] and len(runs) > 1)

    def preference(each: _Rules) -> tuple[bool, bool]:
        return each.is_version == is_version, each.is_off == is_off

    return max(equal, key=preference)


def _device_kind(run: _Run, chosen: _Rules | None, fused: Reason | None) -> tuple[StageKind, Reason | None]:
    if run.name in (StageName.ORIGINAL, StageName.QUANTIZED):
        raise UsageError(because("stages.dump_said", name=run.name, path=run.dump.path))
    if run.name in (StageName.FUSION_OFF, StageName.OFFLINE):
        return StageKind(str(run.name)), because("stages.as_said")
    if chosen is not None:
        name = os.path.basename(chosen.file.path)
        why = because("stages.fits_rules", rules=name, fused=chosen.fused)
        return StageKind.FUSION_OFF if chosen.is_off else StageKind.OFFLINE, why
    return StageKind.OFFLINE if fused is None else StageKind.FUSION_OFF, fused

"""Comparison of a chain: recognize the stages, compare neighbours and each with the first, judge the steps.

Also the third run of `compare --third`, which is a chain, and the files that apply the advice about a chain.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.atomic_file import open_atomic
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import changed_limits
from opdiff.core.reasons import Reason, because
from opdiff.core.stages import Chain, Change, StageKind, Step
from opdiff.judge.remedies import FUSION_OFF_FILE, FUSION_OFF_SWITCHES
from opdiff.judge.steps import judge_chain
from opdiff.workflows.compare.follow_up import write_remedies
from opdiff.workflows.compare.input_reader import SharedReader
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.outputs import write_outputs
from opdiff.workflows.compare.pipeline import compare
from opdiff.workflows.stages.options import MAX_STAGES, MIN_STAGES, StageName, StagesOptions
from opdiff.workflows.stages.recognition import recognize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opdiff.core.stages import Stage
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.outputs import OutputFiles
    from opdiff.workflows.compare.pipeline import ComparisonResult

    Progress = Callable[[int, int], None]


class ComparedStages(NamedTuple):
    """A judged chain, tracebacks of unexpected errors, and the files of each comparison."""

    chain: Chain
    defects: tuple[str, ...] = ()
    files: tuple[OutputFiles, ...] = ()


def compare_stages(options: StagesOptions, progress: Progress, *, write: bool = False) -> ComparedStages:
    """Compare neighbours, and each stage with the first; with `write`, the files of each go to a folder of its own.

    Raises:
        UsageError: there are too few or too many directories, or the stage of a directory is not clear.
        InputError: fewer than two directories can be used, or a rule file cannot.
    """
    if not MIN_STAGES <= len(options.folders) <= MAX_STAGES:
        raise UsageError(because("stages.directories", low=MIN_STAGES, high=MAX_STAGES, count=len(options.folders)))
    reader = SharedReader()
    stages, notes = recognize(options, reader)
    results: list[ComparisonResult] = []
    files: list[OutputFiles] = []

    def run(golden: int, target: int) -> Step:
        changes = changes_between(stages[golden], stages[target])
        wanted = pair_options(stages[golden], stages[target], options)
        folder = os.path.join(options.compare.output, folder_name(golden, target, changes))
        wanted = replace(wanted, output=folder)
        result = _compare(wanted, progress, reader)
        if isinstance(result, Reason):
            return Step(golden, target, changes, problem=result)
        results.append(result)
        if write:
            files.append(write_outputs(result, wanted))
        return Step(golden, target, changes, result.comparison)

    steps = tuple(run(number, number + 1) for number in range(len(stages) - 1))
    totals = tuple(run(0, number) for number in range(2, len(stages)))
    # All comparisons of a chain are judged by the same limits.
    limits = changed_limits(results[0].comparison.judgement.limits) if results else ()
    verdict = judge_chain(stages, steps, totals)
    chain = Chain(stages, steps, totals, verdict, (*notes, *_warnings(steps), *limits))
    return ComparedStages(chain, tuple(defect for each in results for defect in each.defects), tuple(files))


def _warnings(steps: Iterable[Step]) -> Iterator[Reason]:
    """Yield the signs of mixed-up inputs that comparisons of neighbours found."""
    for step in steps:
        for warning in step.comparison.warnings if step.comparison else ():
            numbers = {"golden": step.golden + 1, "target": step.target + 1}
            yield because("stages.step_warning", **numbers, warning=warning, command=warning.fact("command"))


def _compare(options: CompareOptions, progress: Progress, reader: SharedReader) -> ComparisonResult | Reason:
    """Return the comparison, or why there is none."""
    try:
        (result,) = compare(options, progress, reader=reader)
    except (InputError, UsageError) as error:
        return error.reason
    return result.reason if isinstance(result, ComparisonProblem) else result


def folder_name(golden: int, target: int, changes: Iterable[Change]) -> str:
    """Return the name of the folder of a comparison: `2-3_conversion`; the changes are named for neighbours only."""
    numbers = f"{golden + 1}-{target + 1}"
    return "_".join((numbers, *changes)) if target == golden + 1 else numbers


def pair_options(golden: Stage, target: Stage, options: StagesOptions) -> CompareOptions:
    """Return the comparison of two stages, with the rule files that apply to this comparison."""
    wanted = replace(options.compare, target=target.path, golden=golden.path)
    if target.data is DumpKind.ARRAYS:
        return replace(wanted, quant_rules=options.quant_rules)
    if golden.data is DumpKind.ARRAYS:
        is_quantizing = target.quantized and not golden.quantized
        return replace(wanted, fusion_rules=target.rules, quant_rules=options.quant_rules if is_quantizing else "")
    has_both = golden.rules and target.rules and golden.rules != target.rules
    return replace(wanted, fusion_rules=target.rules, fusion_off_rules=golden.rules) if has_both else wanted


def changes_between(golden: Stage, target: Stage) -> tuple[Change, ...]:
    """Return what differs between two stages and can cost accuracy."""
    return tuple(dict.fromkeys(_changes(golden, target)))


def _changes(golden: Stage, target: Stage) -> Iterator[Change]:
    if target.quantized and not golden.quantized:
        yield Change.QUANTIZATION
    if golden.data is DumpKind.ARRAYS and target.data is DumpKind.NPU:
        yield Change.CONVERSION
    is_fused = target.kind is StageKind.OFFLINE and target.fused != 0
    if is_fused and golden.kind is not StageKind.OFFLINE:
        yield Change.FUSION
    if golden.data is DumpKind.NPU:
        yield from _environment_changes(golden, target)


def _environment_changes(golden: Stage, target: Stage) -> Iterator[Change]:
    """Yield version and processor: as the user or the models name them, otherwise both if nothing else differs."""
    ours, theirs = target.origin, golden.origin
    found = [target.change] if target.change else []
    if ours.processor and theirs.processor and ours.processor != theirs.processor:
        found.append(Change.PROCESSOR)
    versions = ((ours.compiler, theirs.compiler), (ours.operators, theirs.operators))
    if any(mine and other and mine != other for mine, other in versions):
        found.append(Change.VERSION)
    yield from found or ((Change.VERSION, Change.PROCESSOR) if golden.kind is target.kind else ())


def find_step(options: CompareOptions, third: str, third_rules: str) -> Chain:
    """Return the chain from the golden run over a third run with fusion off to the target; nothing is written.

    Raises:
        UsageError: these runs and rules cannot be combined.
        InputError: a side or a rule file cannot be used.
    """
    if not third_rules or not options.fusion_rules:
        raise UsageError(because("stages.third_rules"))
    if filesystem.isdir(options.fusion_rules):
        raise UsageError(because("stages.third_single"))
    plain = replace(
        options, number_range="", selected="", pairs="", fusion_rules="", fusion_off_rules="", quant_rules=""
    )
    stages = StagesOptions(
        (options.golden, third, options.target),
        (None, StageName.FUSION_OFF, StageName.OFFLINE),
        options.fusion_rules,
        third_rules,
        options.quant_rules,
        compare=plain,
    )
    return compare_stages(stages, lambda _done, _total: None).chain


# Files that apply the advice


def write_fusion_switches(chain: Chain, folder: str) -> list[str]:
    """Write the switches for a conversion without fusion if fusion may have lost the accuracy; return the paths."""
    culprit = chain.verdict.culprit
    if culprit is None or Change.FUSION not in chain.verdict.steps[culprit].changes:
        return []
    path = os.path.join(folder, FUSION_OFF_FILE)
    with open_atomic(path) as file:
        file.write(FUSION_OFF_SWITCHES.encode() + b"\n")
    return [path]


def write_stage_remedies(chain: Chain, folder: str) -> list[str]:
    """Write the files that apply the remedies for the step that lost most, or cannot be judged; return their paths."""
    culprit = chain.verdict.culprit
    if culprit is None:
        compared = (step.comparison for step in chain.steps if step.comparison is not None)
        comparison = next((each for each in compared if each.judgement.misfit is not None), None)
    else:
        shown_by = chain.verdict.steps[culprit].shown_by
        comparison = (chain.steps[culprit] if shown_by is None else chain.total(shown_by)).comparison
    return write_remedies(comparison, folder) if comparison else []

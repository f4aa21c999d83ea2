"""Judgement of measured rows; facts, profiles and pictures of the worst tensors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.comparison import Comparison, TableView
from opdiff.core.dump import DumpKind
from opdiff.judge.comparison_judgement import judge
from opdiff.workflows.compare.environments import dtype_differences, environment_note
from opdiff.workflows.compare.examined_tensors import find_error_facts
from opdiff.workflows.compare.outputs import find_environment, row_mapper
from opdiff.workflows.compare.pictures import find_pictures
from opdiff.workflows.compare.profiles import find_profiles
from opdiff.workflows.compare.rejudging import with_input_advice

if TYPE_CHECKING:
    from opdiff.judge.limits import Limits
    from opdiff.workflows.compare.inputs import Inputs
    from opdiff.workflows.compare.measuring import MeasuredInputs
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.pictures import PictureBounds


def judge_inputs(
    inputs: Inputs, measured: MeasuredInputs, limits: Limits, options: CompareOptions, bounds: PictureBounds
) -> Comparison:
    """Judge the rows, and examine the elements of the worst tensors.

    The rows are judged twice. The first judgement finds the tensors at fault by their metrics. Only the elements of
    these tensors are then examined, because examining all tensors would take too long. The second judgement uses the
    facts that were found to tell the kinds of error apart.
    """
    rows, pairs = measured.rows, measured.pairs
    assess = partial(
        judge,
        rows,
        measured.graphs,
        limits,
        files_left_out=inputs.files_left_out,
        check_same_model=not options.force,
        map_jobs=row_mapper(rows, options),
    )
    judgement = assess()
    facts = find_error_facts(rows, judgement, pairs)
    if facts:
        judgement = assess(facts=facts)
    differences = (*inputs.differences, *(dtype_differences(rows) if inputs.golden.kind is DumpKind.NPU else ()))
    notes = (*measured.notes, *environment_note(differences))
    judgement = with_input_advice(judgement, inputs.warnings, notes)
    return Comparison(
        mode=inputs.mode,
        target=inputs.target,
        golden=inputs.golden,
        scenario=inputs.scenario,
        rows=rows,
        judgement=judgement,
        view=TableView(options.metrics, options.is_selected, options.overflow),
        graphs=measured.graphs,
        environment=find_environment(),
        profiles=find_profiles(rows, judgement, pairs),
        notes=notes,
        extra_inputs=inputs.extra_inputs,
        warnings=inputs.warnings,
        error_facts=facts,
        pictures=find_pictures(rows, judgement, pairs, bounds),
    )

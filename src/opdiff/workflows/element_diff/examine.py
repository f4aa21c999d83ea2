"""Comparison of one tensor element by element, top to bottom."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.element_reader import open_pair
from opdiff.core import filesystem
from opdiff.core.comparison import listed_row
from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import changed_limits
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import Reason, any_of, because, quoted
from opdiff.core.tensor import Slot, TensorKey, file_safe_name
from opdiff.measure.detail import AxisErrors, Element, SliceErrors
from opdiff.run import usable_cores
from opdiff.workflows.compare.batch import measure_batch
from opdiff.workflows.compare.inputs import ComparisonProblem, read_inputs
from opdiff.workflows.compare.job import Job, MeasureOptions, measure_job
from opdiff.workflows.compare.measuring import conversions
from opdiff.workflows.element_diff.blocks import examine_elements
from opdiff.workflows.element_diff.explain import explain
from opdiff.workflows.element_diff.explanation import Candidate
from opdiff.workflows.element_diff.files import ElementFiles, file_names
from opdiff.workflows.element_diff.hypotheses import axis_labels
from opdiff.workflows.element_diff.page import MeasuredOperator, OperatorPage
from opdiff.workflows.limits_file import find_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.error_facts import Explanation
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import PairingResult
    from opdiff.core.tensor import Shape
    from opdiff.measure.detail import Detail
    from opdiff.workflows.compare.inputs import Inputs
    from opdiff.workflows.compare.options import CompareOptions

    Progress = Callable[[int, int], None]

__all__ = [
    "AxisErrors",
    "Element",
    "ElementDiffOptions",
    "ElementReport",
    "SliceErrors",
    "TensorSummary",
    "examine_operator",
]

MAX_ELEMENTS_OF_TABLES = 1 << 24
"""Tables of all elements of larger tensors are written on request only."""


class ElementDiffOptions(Struct, frozen=True):
    """Tensor to examine, and output options.

    Attributes:
        name: an operator, or one of its tensors, as `conv1:output:0`.
        slot: input or output, unless the name has it.
        index: index of the tensor, unless the name has it.
        top_n: number of worst elements to list.
        max_rows: maximum number of rows per table file.
        tables: whether to write tables of all elements; `None`: unless the tensor is very large.
        html: path of an HTML report with pictures; empty for none.
    """

    name: str
    slot: Slot = Slot.OUTPUT
    index: int = 0
    top_n: int = 20
    max_rows: int = 1_000_000
    tables: bool | None = None
    html: str = ""


class TensorSummary(Struct, frozen=True):
    """Comparison of one tensor of the operator, in short."""

    key: TensorKey
    dtype: str
    shape: Shape
    metrics: Metrics | None
    reason: Reason | None


class ElementReport(Struct, frozen=True):
    """Comparison of one tensor, element by element."""

    key: TensorKey
    golden_key: TensorKey
    op_type: str
    unit: Unit | None
    evidence: Reason | None
    target_path: str
    golden_path: str
    target_dtype: str
    golden_dtype: str
    axis_labels: str
    steps: tuple[Reason, ...]
    warning: Reason | None
    tensors: tuple[TensorSummary, ...]
    metrics: Metrics | None
    overflow: bool | None
    detail: Detail
    explanations: tuple[Explanation, ...]
    files: tuple[str, ...]
    are_tables_omitted: bool
    notes: tuple[Reason, ...] = ()


def examine_operator(
    options: CompareOptions, element_options: ElementDiffOptions, progress: Progress = lambda _done, _all: None
) -> ElementReport:
    """Compare one tensor element by element; write its files to the output folder.

    Raises:
        UsageError: there is no such operator or tensor, or the options contradict each other or the data.
        InputError: a side or a rule file cannot be used, or the tensor cannot be compared.
        DumpError, ElementError, LayoutError: the tensor cannot be read or aligned.
    """
    inputs = _read_inputs(options)
    pairs: Sequence[PairingResult] = [pair for batch in inputs.paired_batches for pair in batch.pairs]
    pairing = _find_pairing(pairs, element_options)
    pairs = [pair for pair in pairs if pair.unit == pairing.unit and not _lacks_data(pair)]
    measured = _measure_operator(pairs, pairing, options)
    custom = conversions(options)
    pair = open_pair(*pairing.operands, custom)
    detail = examine_elements(pair, element_options.top_n, progress)
    candidates = [_candidate(row, pairing) for row in pairs if isinstance(row, Pairing) and row is not pairing]
    labels = axis_labels(pairing.declared.layout, len(pair.golden.shape))
    omits_tables = element_options.tables is None and detail.count > MAX_ELEMENTS_OF_TABLES
    max_rows = 0 if omits_tables or element_options.tables is False else element_options.max_rows
    files = ElementFiles(pair, detail, file_names(options.output, pairing.key), labels)
    written = files.write(pairing.label, max_rows)
    explanations = explain(pairing, candidates, custom)
    notes = inputs.notes
    if element_options.html:
        limits = find_limits(options.limits)
        notes += changed_limits(limits.path)
        OperatorPage(inputs, measured, pair, explanations, custom, limits).write(element_options.html)
        written = (element_options.html, *written)
    row = measured.rows[measured.number]
    return ElementReport(
        key=pairing.key,
        golden_key=pairing.golden_key,
        op_type=pairing.label.op_type,
        unit=pairing.unit,
        evidence=pairing.evidence,
        target_path=pairing.target.data.source.path,
        golden_path=pairing.golden.data.source.path,
        target_dtype=pair.target.dtype.name,
        golden_dtype=pair.golden.dtype.name,
        axis_labels=labels,
        steps=(*pairing.target.data.notes, *pairing.golden.data.notes, *pair.steps),
        warning=pair.warning,
        tensors=tuple(map(_summary, measured.rows)),
        metrics=row.metrics,
        overflow=row.overflow,
        detail=detail,
        explanations=explanations,
        files=written,
        are_tables_omitted=omits_tables,
        notes=notes,
    )


def _read_inputs(options: CompareOptions) -> Inputs:
    if filesystem.isdir(options.fusion_rules):
        raise UsageError(because("workflows.one_rule_file"))
    (inputs,) = read_inputs(options)
    if isinstance(inputs, ComparisonProblem):
        raise InputError(inputs.path, inputs.reason)
    return inputs


def _lacks_data(pair: PairingResult) -> bool:
    """Return whether a pair of graph mode has statistics only."""
    return isinstance(pair, Pairing) and not (pair.target.tensor and pair.golden.tensor)


def _candidate(row: Pairing, pairing: Pairing) -> Candidate:
    are_siblings = row.key.op == pairing.key.op and row.key.slot is Slot.INPUT and pairing.key.slot is Slot.INPUT
    return Candidate(row.golden_key, row.golden.data, row.key if are_siblings else None)


def _measure_operator(pairs: Sequence[PairingResult], pairing: Pairing, options: CompareOptions) -> MeasuredOperator:
    """Measure all tensors of the operator of a pairing."""
    chosen = tuple(pair for pair in pairs if pair.key is not None and pair.key.op == pairing.key.op)
    measures = MeasureOptions(conversions=conversions(options))
    jobs = [Job(number, pair, options=measures) for number, pair in enumerate(chosen) if isinstance(pair, Pairing)]
    batch = measure_batch(jobs, options.workers or usable_cores(), lambda _done: None)
    rows = {job.number: outcome.row for job, outcome in batch.done} | {
        job.number: measure_job(job).row for job in batch.left
    }
    found = tuple(rows.get(number) or listed_row(pair) for number, pair in enumerate(chosen))
    return MeasuredOperator(chosen, found, next(number for number, pair in enumerate(chosen) if pair is pairing))


def _summary(row: Row) -> TensorSummary:
    if row.key is None:
        raise AssertionError("rows of whole operators have no tensor")
    return TensorSummary(row.key, row.target_dtype, row.shape or (), row.metrics, row.reason)


# Lookup of one tensor by the name that the user gives


def _find_pairing(pairs: Sequence[PairingResult], options: ElementDiffOptions) -> Pairing:
    """Return the pairing of a tensor, given by a target or golden operator, with slashes or as in file names.

    Raises:
        UsageError: there is no such operator or tensor; the message has the closest names.
        InputError: the tensor has no counterpart.
    """
    op, slot, index = _parse_key(options)
    rows = [row for row in pairs if op in _names(row)]
    rows = rows or [row for row in pairs if file_safe_name(op) in map(file_safe_name, _names(row))]
    if not rows:
        raise UsageError(_unknown_operator(op, pairs))
    for row in rows:
        if row.key is None or (row.key.slot, row.key.index) == (slot, index):
            if isinstance(row, Pairing):
                return _with_data(row)
            raise InputError(str(row.key or op), row.reason)
    available = ", ".join(f"{row.key.slot}:{row.key.index}" for row in rows if row.key is not None)
    raise UsageError(because("workflows.operator_without", operator=op, slot=slot, index=index, available=available))


def _with_data(pairing: Pairing) -> Pairing:
    """Return a pairing whose tensors can be read.

    Raises:
        InputError: a side has statistics only, or its file cannot be read.
    """
    for word, side in (("target", pairing.target), ("golden", pairing.golden)):
        if side.tensor is None:
            raise InputError(side.path, side.problem or because("compare.statistics_only", side=word))
    return pairing


def _parse_key(options: ElementDiffOptions) -> tuple[str, Slot, int]:
    name, _, number = options.name.rpartition(":")
    op, _, kind = name.rpartition(":")
    if op and kind in set(Slot) and number.isdecimal():
        return op, Slot(kind), int(number)
    return options.name, options.slot, options.index


def _names(row: PairingResult) -> list[str]:
    """Return the names by which a row can be found: its own operator, then the golden one."""
    if row.key is None:
        return row.label.target.split(",")
    return [row.key.op, row.golden_key.op] if isinstance(row, Pairing) and row.key.slot is Slot.OUTPUT else [row.key.op]


def _unknown_operator(name: str, pairs: Sequence[PairingResult]) -> Reason:
    known = dict.fromkeys(known for row in pairs for known in _names(row) if known != "*")
    close = get_close_matches(name, known, 3) or [other for other in known if name.lower() in other.lower()][:3]
    if not close:
        return because("workflows.no_such_operator", name=name, count=len(known))
    return because("workflows.misspelt_operator", name=name, names=any_of(map(quoted, close)))

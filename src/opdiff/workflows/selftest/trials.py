"""Trials of the self-test: every chosen fault in every chosen tensor, one at a time, and its diagnosis."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.align.element_reader import open_pair
from opdiff.core.dtypes import Kind
from opdiff.core.error_facts import ExplanationKind
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.job import Job, measure_job
from opdiff.workflows.compare.measuring import Measuring, align_and_measure
from opdiff.workflows.compare.pipeline import pair_only
from opdiff.workflows.element_diff.blocks import examine_elements
from opdiff.workflows.element_diff.explain import explain
from opdiff.workflows.element_diff.explanation import Candidate
from opdiff.workflows.selftest.faults import FAULTS, FaultTarget, inject, is_injectable, logical_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import TensorKey
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.selftest.faults import Fault

    Progress = Callable[[int, int], None]

# Tensors large enough for every fault to be significant, and small enough for many trials.
_MIN_ELEMENTS = 16
_MAX_ELEMENTS = 1 << 22
_MIN_COSINE = 0.99
_MAX_DISTANCE = 0.05
# Tolerance of a linear fit that explains a difference: of its residual, its factor and its relative offset.
_LINEAR_FIT_TOLERANCE = 0.02


class SelftestOptions(Struct, frozen=True):
    """Faults to inject, number of tensors, and seed of the random choices."""

    faults: tuple[str, ...] = ()
    tensors: int = 3
    seed: int = 0


class TrialResult(Struct, frozen=True):
    """Result of one fault in one tensor.

    Attributes:
        fault: its name.
        key: the tensor with the fault.
        is_found: whether the comparison shows the fault; `None` if the fault could not be injected.
        right_name: the correct diagnosis.
        names: the diagnosis.
        distance: the resulting relative Euclidean distance.
        note: why the fault could not be injected.
    """

    fault: str
    key: TensorKey
    is_found: bool | None
    right_name: str
    names: tuple[str, ...] = ()
    distance: float | None = None
    note: Reason | None = None

    @property
    def is_named(self) -> bool:
        """Whether the diagnosis is exactly the correct one."""
        return self.names == (self.right_name,)


def choose_faults(text: str) -> tuple[str, ...]:
    """Return the faults of a comma-separated list; all faults for an empty one.

    Raises:
        UsageError: there is no such fault.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FAULTS:
            raise UsageError(because("workflows.no_such_fault", name=name, names=tuple(FAULTS)))
    return names or tuple(FAULTS)


def run_selftest(
    options: CompareOptions, selftest_options: SelftestOptions, progress: Progress = lambda _done, _all: None
) -> tuple[TrialResult, ...]:
    """Inject every fault into every chosen tensor, one at a time, and diagnose the result.

    Raises:
        UsageError: the options contradict each other or the data, or there is no such fault.
        InputError: a side cannot be used, or no tensor is suitable for fault injection.
    """
    rows = _compare(options)
    random = np.random.default_rng(selftest_options.seed)
    suitable = _suitable_rows(rows, options)
    chosen = [suitable[int(number)] for number in sorted(random.permutation(len(suitable))[: selftest_options.tensors])]
    candidates = [Candidate(row.pairing.golden_key, row.pairing.golden.data) for row in rows]
    faults = [FAULTS[name] for name in selftest_options.faults or FAULTS]
    results: list[TrialResult] = []
    with TemporaryDirectory(prefix="opdiff-selftest-") as folder:
        context = _TrialContext(suitable, candidates, folder, random)
        for row in chosen:
            for fault in faults:
                results.append(_try_fault(row, fault, context))
                progress(len(results), len(chosen) * len(faults))
    return tuple(results)


class _MeasuredPair(Struct, frozen=True):
    """A pairing and its row."""

    pairing: Pairing
    row: Row

    @property
    def metrics(self) -> Metrics | None:
        """The numbers of the row."""
        return self.row.metrics


class _TrialContext(Struct, frozen=True):
    """Inputs of every trial."""

    suitable: Sequence[_MeasuredPair]
    candidates: Sequence[Candidate]
    folder: str
    random: np.random.Generator


def _compare(options: CompareOptions) -> list[_MeasuredPair]:
    if os.path.isdir(options.fusion_rules):
        raise UsageError(because("workflows.selftest_one_rule_file"))
    (pairs,) = pair_only(options, every_operator=False)
    if isinstance(pairs, ComparisonProblem):
        raise InputError(pairs.path, pairs.reason)
    rows = align_and_measure(pairs, Measuring.of(options), lambda _done, _total: None).rows
    return [_MeasuredPair(pair, row) for pair, row in zip(pairs, rows, strict=True) if isinstance(pair, Pairing)]


def _suitable_rows(rows: Sequence[_MeasuredPair], options: CompareOptions) -> list[_MeasuredPair]:
    """Return the sound outputs that can get a fault, or inputs if there are no such outputs."""
    suitable = [row for row in rows if _is_suitable(row)]
    if not suitable:
        raise InputError(options.target, because("workflows.no_tensor_for_faults"))
    return [row for row in suitable if row.pairing.key.slot is Slot.OUTPUT] or suitable


def _is_suitable(row: _MeasuredPair) -> bool:
    metrics = row.metrics
    if metrics is None or _is_beyond_limits(row) or not is_injectable(row.pairing):
        return False
    is_constant = metrics.target_min == metrics.target_max
    is_finite = metrics.finite_count == metrics.count
    is_numeric = row.pairing.target.data.spec.dtype.kind in (Kind.FLOAT, Kind.INTEGER)
    return is_numeric and is_finite and not is_constant and _MIN_ELEMENTS <= metrics.count <= _MAX_ELEMENTS


def _try_fault(row: _MeasuredPair, fault: Fault, context: _TrialContext) -> TrialResult:
    not_injected = TrialResult(fault.name, row.pairing.key, None, fault.right_name)
    try:
        injected = _inject(row, fault, context)
        if injected is None:
            return replace(not_injected, note=because("workflows.not_applicable"))
        outcome = measure_job(Job(0, injected))
        if outcome.defect:
            return replace(not_injected, note=outcome.row.reason)
        measured = _MeasuredPair(injected, outcome.row)
        names = _diagnose(measured, context.candidates)
    except OpdiffError as error:
        return replace(not_injected, note=error.reason)
    distance = measured.metrics.relative_euclidean_distance if measured.metrics else None
    return replace(not_injected, is_found=_is_beyond_limits(measured), names=names, distance=distance)


def _inject(row: _MeasuredPair, fault: Fault, context: _TrialContext) -> Pairing | None:
    values = logical_values(row.pairing)
    dtype, channel_axis = row.pairing.target.data.spec.dtype, _channel_axis(row, values.ndim)
    target = FaultTarget(values, dtype, channel_axis, _find_other(row, values, context), context.random)
    corrupted = fault.corrupt(target)
    if corrupted is None or np.array_equal(corrupted, values):
        return None
    return inject(row.pairing, corrupted, context.folder)


def _channel_axis(row: _MeasuredPair, rank: int) -> int:
    layout = row.pairing.declared.layout
    if len(layout) == rank and "C" in layout:
        return layout.index("C")
    return 1 if rank in (4, 5) else rank - 1


def _find_other(row: _MeasuredPair, values: AnyArray, context: _TrialContext) -> AnyArray | None:
    """Return the values of the next tensor with as many, but other values."""
    position = next(number for number, other in enumerate(context.suitable) if other is row)
    for other in (*context.suitable[position + 1 :], *context.suitable[:position]):
        if (
            other.metrics is None
            or other.metrics.count != values.size
            or other.row.golden_dtype != row.row.golden_dtype
        ):
            continue
        found = logical_values(other.pairing)
        if not np.array_equal(found.reshape(-1), values.reshape(-1)):
            return found
    return None


def summary(results: Sequence[TrialResult]) -> Iterator[Reason]:
    """Yield the numbers of faults that were found and named correctly."""
    injected = [result for result in results if result.is_found is not None]
    found = [result for result in injected if result.is_found]
    named = [result for result in found if result.is_named]
    yield because("workflows.faults_found", found=len(found), injected=len(injected), named=len(named))
    if len(injected) < len(results):
        yield because("workflows.faults_not_injected", count=len(results) - len(injected))


# Diagnosis


def _is_beyond_limits(row: _MeasuredPair) -> bool:
    """Return whether the metrics of a row are beyond the usual limits."""
    metrics = row.metrics
    if metrics is None:
        return True
    cosine, distance = metrics.finite_cosine, metrics.relative_euclidean_distance
    return (
        metrics.special_mismatches > 0
        or cosine is None
        or distance is None
        or not (cosine >= _MIN_COSINE and distance <= _MAX_DISTANCE)
    )


def _diagnose(row: _MeasuredPair, candidates: Iterable[Candidate]) -> tuple[str, ...]:
    """Return the names of the fault that the evidence supports; empty if there are none."""
    metrics = row.metrics
    if metrics is None:
        return ()
    if metrics.special_mismatches:
        return ("overflow",)
    if metrics.target_min == 0 == metrics.target_max:
        return ("zero",)
    linear = _linear_fault(metrics)
    if linear:
        return linear
    explanations = explain(row.pairing, candidates)
    if explanations:
        is_other = explanations[0].kind in (ExplanationKind.OTHER_TENSOR, ExplanationKind.INPUT_ORDER)
        return ("other tensor" if is_other else "order",)
    # A few slices of one axis carry nearly all of the error.
    axes = examine_elements(open_pair(*row.pairing.operands)).axes
    return ("channel",) if any(axis.carriers for axis in axes) else ()


def _linear_fault(metrics: Metrics) -> tuple[str, ...]:
    """Return a wrong scale or offset, if a linear fit explains the difference."""
    scale, offset, residual = metrics.fit_scale, metrics.fit_offset, metrics.fit_distance
    mean, std = metrics.golden_mean, metrics.golden_std
    if scale is None or offset is None or residual is None or mean is None or std is None:
        return ()
    if residual > _LINEAR_FIT_TOLERANCE:
        return ()
    root_mean_square = float((mean**2 + std**2) ** 0.5)
    is_scaled = abs(scale - 1) > _LINEAR_FIT_TOLERANCE
    is_shifted = abs(offset) > _LINEAR_FIT_TOLERANCE * root_mean_square
    return ("scale",) * is_scaled + ("offset",) * is_shifted

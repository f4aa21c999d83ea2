"""Measurement of one pairing: load → align → measure. Errors become the reason of the row.

Job ──by data────────► align both ──► sums ──► metrics ─┐
    ──by statistics──► statistics of each side ─────────┼──► Row
    ──by checksums───► CRC-32 of each side ─────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode, Row, paired_row, side_info
from opdiff.core.dtypes import largest_finite
from opdiff.core.errors import ElementError, LayoutError, OpdiffError
from opdiff.core.metrics import TensorStats
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import Reason, Status, because
from opdiff.measure.graph_metrics import documented_metrics, extra_metrics, stats_of_sums
from opdiff.measure.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.align.custom import Conversions
    from opdiff.align.pairs import AlignedPair
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import SideInfo
    from opdiff.core.dtypes import DType
    from opdiff.core.metrics import DocumentedMetrics, ExtraMetrics, Metrics
    from opdiff.core.pairing import PairingResult
    from opdiff.core.tensor import Tensor
    from opdiff.measure.custom import Metric
    from opdiff.measure.sums import Sums

_Args = TypeVarTuple("_Args")

# The kernel takes about as long for a small tensor as for this many bytes.
_MIN_WEIGHT_BYTES = 1 << 12


class MeasureOptions(Struct, frozen=True):
    """Measurements besides the sums of one pass.

    Attributes:
        with_kl: the divergence, which takes a second pass.
        conversions: layout conversions of the user.
        metrics: metrics that are not built in.
    """

    with_kl: bool = True
    conversions: Conversions | None = None
    metrics: tuple[Metric, ...] = ()


class Job(Struct, frozen=True, gc=False):
    """One pairing to be measured; `number` is the position of its row."""

    number: int
    pairing: Pairing
    data_mode: DataMode = DataMode.REAL
    options: MeasureOptions = MeasureOptions()

    @property
    def nbytes(self) -> int:
        """Data on both sides."""
        return self.pairing.nbytes

    @property
    def weight(self) -> int:
        """Amount of work, in bytes."""
        return max(self.nbytes, _MIN_WEIGHT_BYTES)

    @property
    def has_data(self) -> bool:
        """Whether tensor data is compared, and both sides have it."""
        pairing = self.pairing
        return self.data_mode is DataMode.REAL and None not in (pairing.target.tensor, pairing.golden.tensor)


class JobOutcome(Struct, frozen=True, gc=False):
    """The row of a job, and the traceback of an unexpected error; empty if there was none."""

    row: Row
    defect: str = ""


def data_mode(pair: PairingResult, requested: DataMode) -> DataMode:
    """Return how a pair is compared, which also determines its table; for an unpaired operator by its own data."""
    if requested is not DataMode.AUTO:
        return requested
    if isinstance(pair, Pairing):
        has_data = pair.target.tensor is not None and pair.golden.tensor is not None
    else:
        has_data = pair.has_data
    return DataMode.REAL if has_data else DataMode.STATISTICS


def measure_job(job: Job) -> JobOutcome:
    """Measure one pairing."""
    return outcome_of(_MEASURES[job.data_mode], job)


def outcome_of(measure: Callable[[Job, *_Args], Row], job: Job, *args: *_Args) -> JobOutcome:
    """Return the row that `measure` makes for a job; an error becomes the reason of the row."""
    try:
        return JobOutcome(measure(job, *args))
    except (OpdiffError, MemoryError) as error:
        return JobOutcome(failed(job, reason_of(error)))
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one row and is shown as a defect
        from traceback import format_exc

        return JobOutcome(failed(job, because("compare.defect", error=repr(error))), format_exc())


def died(job: Job) -> JobOutcome:
    """Return the outcome of a job whose process was killed."""
    return JobOutcome(failed(job, because("compare.process_died", Status.KILLED)))


def failed(job: Job, reason: Reason) -> Row:
    """Return the row of a job without numbers."""
    return paired_row(job.pairing, job.data_mode, reason)


def reason_of(error: OpdiffError | MemoryError) -> Reason:
    """Return an error as the reason of a row."""
    if isinstance(error, MemoryError):
        return because("compare.no_memory", Status.INTERRUPTED)
    return error.reason


# Data


def _measure_data(job: Job) -> Row:
    from opdiff.align.pairs import align_pair
    from opdiff.measure.reference.blocks import measure
    from opdiff.measure.reference.second_pass import graph_sums, measure_kl

    pairing = job.pairing
    for name, side in (("target", pairing.target), ("golden", pairing.golden)):
        if side.tensor is None:
            return failed(job, because("compare.statistics_only", side=name))
    target, golden = pairing.target.data, pairing.golden.data
    pair = align_pair(*pairing.operands, job.options.conversions)
    if pairing.unit is not None and not pair.target.size:
        return _empty_row(job, pair)
    sides = pair.target, target.spec.dtype, pair.golden, golden.spec.dtype
    sums = measure(*sides)
    if pairing.unit is not None:
        return data_row(job, pair, replace(sums, graph=graph_sums(*sides, sums)))
    return data_row(job, pair, sums, measure_kl(*sides, sums=sums) if job.options.with_kl else None)


def data_row(job: Job, pair: AlignedPair, sums: Sums, kl: float | None = None) -> Row:
    """Return the row of an aligned pair, whose codes may be strides only, by its sums."""
    pairing = job.pairing
    if pairing.unit is not None and not pair.target.size:
        return _empty_row(job, pair)
    target, golden = pairing.target.data, pairing.golden.data
    metrics = metrics_of(sums, kl, is_scalar=sums.count == sums.parts)
    if pairing.unit is None:
        found = _GraphValues(notes=(pair.warning,) if pair.warning else ())
    else:
        found = _graph_values(pair, target, golden, sums)
    # Many fields are set much faster by position than by name.
    return Row(
        pairing.label,
        pairing.key,
        pairing.golden_key,
        side_info(pairing.target, pairing.label.op_type, found.target),
        side_info(pairing.golden, pairing.golden_type, found.golden),
        pair.shape,
        job.data_mode,
        metrics,
        found.documented,
        found.extra,
        (*target.notes, *golden.notes, *pair.steps),
        _custom(job, pair) if job.options.metrics else (),
        _overflow(target.spec.dtype, metrics),
        found.notes,
        None,  # no reason: it was measured
        pairing.evidence,
        pairing.confidence,
        pairing.unit,
        pairing.timestamp,
        pairing.stack,
        is_own_input=pairing.is_own_input,
    )


def _custom(job: Job, pair: AlignedPair) -> tuple[tuple[str, str, str], ...]:
    """Return name, value and message of each metric that is not built in."""
    from opdiff.measure.custom import MetricArgs, run_metric

    target, golden = job.pairing.target.data, job.pairing.golden.data
    is_scalar = all(extent == 1 for extent in pair.shape)
    args = MetricArgs(target.source.path, golden.source.path, "scalar" if is_scalar else "tensor")
    sides = (pair.target, target.spec.dtype), (pair.golden, golden.spec.dtype)
    return tuple(run_metric(metric, *sides, args) for metric in job.options.metrics)


def _overflow(dtype: DType, metrics: Metrics) -> bool | None:
    """Return whether a float tensor has infinities or reaches the end of its type's range; `None` for other types."""
    limit = largest_finite(dtype)
    if limit is None:
        return None
    low, high = metrics.target_min, metrics.target_max
    return metrics.target_infs > 0 or (low is not None and low <= -limit) or (high is not None and high >= limit)


# Data of graph mode: the documented metrics besides


class _GraphValues(Struct, frozen=True, gc=False):
    """Values that graph mode adds to a row; offline only the notes are set."""

    target: TensorStats | None = None
    golden: TensorStats | None = None
    documented: DocumentedMetrics | None = None
    extra: ExtraMetrics | None = None
    notes: tuple[Reason, ...] = ()


def _graph_values(pair: AlignedPair, target: Tensor, golden: Tensor, sums: Sums) -> _GraphValues:
    target_shape, golden_shape = pair.target.shape, pair.golden.shape
    documented, notes = documented_metrics(sums, is_single=sums.count == sums.parts, is_scalar=not target_shape)
    return _GraphValues(
        stats_of_sums(sums.target, target.spec.dtype.name, target_shape, sums.scale.target),
        stats_of_sums(sums.golden, golden.spec.dtype.name, golden_shape, sums.scale.golden),
        documented,
        extra_metrics(sums),
        (*notes, *_alignment_notes(pair, target, golden)),
    )


def _with_stats(row: Row, target: TensorStats, golden: TensorStats) -> Row:
    return replace(row, target=_side_with(row.target, target), golden=_side_with(row.golden, golden))


def _side_with(side: SideInfo | None, stats: TensorStats) -> SideInfo | None:
    return side and replace(side, dtype=stats.dtype, shape=stats.shape, stats=stats)


def _empty_row(job: Job, pair: AlignedPair) -> Row:
    row, shapes = paired_row(job.pairing), (pair.target.shape, pair.golden.shape)
    sides = zip((row.target, row.golden), shapes, strict=True)
    target, golden = (side and replace(side, shape=shape) for side, shape in sides)
    row = replace(row, target=target, golden=golden)
    if shapes[0] != shapes[1]:
        return replace(row, reason=because("compare.both_empty_shapes", target=shapes[0], golden=shapes[1]))
    return replace(row, notes=(because("compare.both_empty"),))


def _alignment_notes(pair: AlignedPair, target: Tensor, golden: Tensor) -> tuple[Reason, ...]:
    """Return reservations about a pair: assumptions of readers, uncertain alignment, other extents or number kinds."""
    notes = [*target.notes, *golden.notes]
    if pair.warning:
        notes.append(pair.warning)
    if pair.target.shape != pair.golden.shape:
        notes.append(because("compare.shapes_by_element", target=pair.target.shape, golden=pair.golden.shape))
    if target.spec.dtype.kind is not golden.spec.dtype.kind:
        notes.append(because("compare.kinds_differ", target=str(target.spec.dtype), golden=str(golden.spec.dtype)))
    return tuple(notes)


# Statistics


def _measure_statistics(job: Job) -> Row:
    from opdiff.measure.tensor_stats import tensor_stats

    stats: list[TensorStats] = []
    notes: list[Reason] = []
    for side in (job.pairing.target, job.pairing.golden):
        if side.tensor is None:
            stats.append(side.stats or TensorStats())
            continue
        codes, note = _logical(side.tensor)
        stats.append(tensor_stats(codes, side.tensor.spec.dtype))
        notes += [note] if note else []
    target, golden = stats
    if target.shape is not None and golden.shape is not None and target.shape != golden.shape:
        notes.append(because("compare.shapes_differ", target=target.shape, golden=golden.shape))
    row = _with_stats(paired_row(job.pairing, job.data_mode), target, golden)
    return replace(row, notes=tuple(notes), reason=_nothing_known(target, golden))


def _nothing_known(target: TensorStats, golden: TensorStats) -> Reason | None:
    for name, stats in (("target", target), ("golden", golden)):
        known = (stats.maximum, stats.minimum, stats.mean, stats.norm)
        if all(value is None for value in known) and stats.shape is not None and 0 in stats.shape:
            return because("compare.side_empty", side=name)
        if all(value is None for value in known):
            return because("compare.nothing_known", side=name)
    return None


def _logical(tensor: Tensor) -> tuple[AnyArray, Reason | None]:
    """Return a tensor without the padding of its layout; as stored, with a note, if the padding is unknown."""
    from opdiff.align import convert

    codes = tensor.codes()
    try:
        return convert(codes, tensor.spec, "ND").codes, None
    except LayoutError as error:
        return codes, because("compare.padding_included", problem=error.reason)


# Checksums


def _measure_checksums(job: Job) -> Row:
    from opdiff.measure.tensor_stats import crc32

    row, arrays = paired_row(job.pairing, job.data_mode), _aligned_codes(job.pairing)
    sides: list[SideInfo] = []
    for side, array in zip((job.pairing.target, job.pairing.golden), arrays, strict=True):
        info, stats = side_info(side), side.stats or TensorStats()
        if side.tensor is not None:
            codes = array if array is not None else _logical(side.tensor)[0]
            stats = TensorStats(crc32=crc32(codes, side.tensor.spec.dtype), dtype=info.dtype, shape=codes.shape)
        if not stats.crc32:
            return replace(row, reason=because("compare.no_checksum", path=side.path))
        sides.append(replace(info, shape=stats.shape, stats=stats))
    target, golden = sides
    row = _with_stats(row, target.stats or TensorStats(), golden.stats or TensorStats())
    if target.dtype and golden.dtype and target.dtype != golden.dtype:
        return replace(row, notes=(because("compare.dtypes_differ", target=target.dtype, golden=golden.dtype),))
    return row


def _aligned_codes(pairing: Pairing) -> tuple[AnyArray | None, AnyArray | None]:
    """Return both sides in one layout; `None` if they cannot be aligned."""
    from opdiff.align.pairs import align_pair

    if pairing.target.tensor is None or pairing.golden.tensor is None:
        return None, None
    try:
        pair = align_pair(*pairing.operands)
    except (LayoutError, ElementError):
        return None, None
    return pair.target, pair.golden


_MEASURES = {DataMode.REAL: _measure_data, DataMode.STATISTICS: _measure_statistics, DataMode.MD5: _measure_checksums}

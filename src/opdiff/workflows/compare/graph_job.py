"""One pair of graph mode to its figures: load → align → measure. Whatever goes wrong becomes part of the result."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, NamedTuple, cast

from opdiff.core.comparison import OpLabel, Pairing
from opdiff.core.dump import with_data
from opdiff.core.errors import ElementError, LayoutError, OpdiffError
from opdiff.core.graphmode import DataMode, Figures
from opdiff.core.tensor import Slot, TensorKey
from opdiff.workflows.compare.job import DIED, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.align.pairs import AlignedPair
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Metrics
    from opdiff.core.dump import SideTensor
    from opdiff.core.graphmode import FurtherFigures, RealFigures
    from opdiff.core.tensor import Tensor
    from opdiff.measure.sums import Sums

_NO_KEY = TensorKey("", Slot.OUTPUT, 0)
_NO_LABEL = OpLabel(0, 0, "", "", "")
# The kernel measures about this fast, so that small tensors cost as much as this many bytes.
_LEAST_BYTES = 1 << 12


class GraphJob(NamedTuple):
    """Two tensors to be compared; `number` is the place of the row."""

    number: int
    target: SideTensor
    golden: SideTensor
    mode: DataMode

    @property
    def nbytes(self) -> int:
        """Data on both sides."""
        return self.target.nbytes + self.golden.nbytes

    @property
    def weight(self) -> int:
        """How much work it is."""
        return max(self.nbytes, _LEAST_BYTES)


class Measurement(NamedTuple):
    """What came of a job; `reason` is why nothing could be compared."""

    target: Figures
    golden: Figures
    real: RealFigures | None = None
    further: FurtherFigures | None = None
    metrics: Metrics | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""
    defect: str = ""


def mode_of(target: SideTensor, golden: SideTensor, wanted: DataMode) -> DataMode:
    """By what two tensors are compared."""
    if wanted is not DataMode.AUTO:
        return wanted
    return DataMode.REAL if target.tensor is not None and golden.tensor is not None else DataMode.STATISTICS


def described(tensor: SideTensor) -> Figures:
    """What is known of a tensor without reading its data."""
    if tensor.figures is not None:
        return tensor.figures
    if tensor.tensor is None:
        return Figures()
    spec = tensor.tensor.spec
    return Figures(dtype=spec.dtype.name, shape=spec.origin_shape or spec.shape)


def measure_graph_job(job: GraphJob) -> Measurement:
    """The figures of one pair."""
    try:
        return _MODES[job.mode](job)
    except (OpdiffError, MemoryError) as error:
        return _failed(job, reason_of(error))
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one row and is shown as ours
        return _failed(job, f"a defect of opdiff: {error!r}")._replace(defect=traceback.format_exc())


def died(job: GraphJob) -> Measurement:
    """What becomes of a job whose process was ended from outside."""
    return _failed(job, DIED)


def _failed(job: GraphJob, reason: str) -> Measurement:
    return Measurement(described(job.target), described(job.golden), reason=reason)


# Real data


def measure_real_jobs(
    jobs: Sequence[GraphJob], threads: int, progress: Callable[[int], None]
) -> tuple[list[tuple[GraphJob, Measurement]], list[GraphJob]]:
    """What the native kernel can measure, all at once, with its measurements; and the jobs that are left."""
    from opdiff.measure.kernel import library as native

    chosen = [job for job in jobs if _has_data(job)]
    if not chosen or native.find_library() is None:
        return [], list(jobs)
    from opdiff.workflows.compare.batch import Summed, Wanted, sums_of

    pairings = [_pairing(cast("Tensor", job.target.tensor), cast("Tensor", job.golden.tensor)) for job in chosen]
    done: list[tuple[GraphJob, Measurement]] = []
    for job, found in zip(chosen, sums_of(pairings, Wanted(for_graphs=True), threads, progress), strict=True):
        if isinstance(found, Summed):
            done.append((job, _of_sums(job, found.pair, found.sums)))
        elif found:
            done.append((job, _failed(job, found)))
    measured = {job.number for job, _ in done}
    return done, [job for job in jobs if job.number not in measured]


def _has_data(job: GraphJob) -> bool:
    return job.mode is DataMode.REAL and job.target.tensor is not None and job.golden.tensor is not None


def _measure_real(job: GraphJob) -> Measurement:
    from opdiff.measure.reference.blocks import measure
    from opdiff.measure.reference.graph_blocks import graph_sums

    target, golden = job.target.tensor, job.golden.tensor
    if target is None or golden is None:
        return _failed(job, f"the {'target' if target is None else 'golden'} has figures only, not the data")
    pair = _aligned(target, golden)
    if not pair.target.size:
        return _empty(job, (pair.target.shape, pair.golden.shape))
    sides = pair.target, target.spec.dtype, pair.golden, golden.spec.dtype
    sums = measure(*sides)
    return _of_sums(job, pair, sums._replace(graph=graph_sums(*sides, sums)))


def _of_sums(job: GraphJob, pair: AlignedPair, sums: Sums) -> Measurement:
    """What the sums of an aligned pair mean; its codes may be `Places`."""
    from opdiff.measure.graph_metrics import figures_of_side, further_figures, real_figures
    from opdiff.measure.metrics import metrics_of

    target, golden = cast("Tensor", job.target.tensor), cast("Tensor", job.golden.tensor)
    shapes, count = (pair.target.shape, pair.golden.shape), pair.target.size
    if not count:
        return _empty(job, shapes)
    real, notes = real_figures(sums, is_single=count == 1, is_scalar=not shapes[0])
    return Measurement(
        figures_of_side(sums.target, target.spec.dtype.name, shapes[0], sums.scale.target),
        figures_of_side(sums.golden, golden.spec.dtype.name, shapes[1], sums.scale.golden),
        real,
        further_figures(sums),
        metrics_of(sums, None, is_scalar=count == 1),
        (*notes, *_alignment_notes(pair, target, golden)),
    )


def _empty(job: GraphJob, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Measurement:
    ours, theirs = (
        described(side)._replace(shape=shape) for side, shape in zip((job.target, job.golden), shapes, strict=True)
    )
    if shapes[0] != shapes[1]:
        return Measurement(ours, theirs, reason=f"both are empty, with shapes {list(shapes[0])} and {list(shapes[1])}")
    return Measurement(ours, theirs, notes=("both tensors are empty",))


def _aligned(target: Tensor, golden: Tensor) -> AlignedPair:
    from opdiff.align.pairs import align_pair

    return align_pair(_pairing(target, golden), target.codes(), golden.codes())


def _pairing(target: Tensor, golden: Tensor) -> Pairing:
    """The pair is made by the graph; what alignment looks at is the two tensors."""
    return Pairing(_NO_LABEL, with_data(_NO_KEY, target), with_data(_NO_KEY, golden))


def _alignment_notes(pair: AlignedPair, target: Tensor, golden: Tensor) -> tuple[str, ...]:
    """What speaks against a pair: a doubtful fit, other extents, another kind of numbers; what readers assumed."""
    notes = [*map(str, (*target.notes, *golden.notes))]
    if pair.doubt:
        notes.append(str(pair.doubt))
    if pair.target.shape != pair.golden.shape:
        shapes = f"target {list(pair.target.shape)} and golden {list(pair.golden.shape)}"
        notes.append(f"{shapes} have different shapes and were compared element by element")
    if target.spec.dtype.kind is not golden.spec.dtype.kind:
        notes.append(f"the element types differ in kind: target {target.spec.dtype}, golden {golden.spec.dtype}")
    return tuple(notes)


# Statistics


def _measure_statistics(job: GraphJob) -> Measurement:
    from opdiff.measure.figures import figures_of

    sides, notes = [], []
    for side in (job.target, job.golden):
        if side.tensor is None:
            sides.append(described(side))
            continue
        codes, note = _logical(side.tensor)
        sides.append(figures_of(codes, side.tensor.spec.dtype))
        notes += [note] if note else []
    target, golden = sides
    if target.shape is not None and golden.shape is not None and target.shape != golden.shape:
        notes.append(f"the shapes differ: target {list(target.shape)}, golden {list(golden.shape)}")
    return Measurement(target, golden, notes=tuple(notes), reason=_nothing_known(target, golden))


def _nothing_known(target: Figures, golden: Figures) -> str:
    for name, figures in (("target", target), ("golden", golden)):
        known = (figures.maximum, figures.minimum, figures.mean, figures.norm)
        if all(value is None for value in known) and figures.shape is not None and 0 in figures.shape:
            return f"the {name} tensor is empty"
        if all(value is None for value in known):
            return f"nothing is known about the {name}'s numbers"
    return ""


def _logical(tensor: Tensor) -> tuple[AnyArray, str]:
    """A tensor without the padding of its layout; as it is stored, with a note, where that cannot be told."""
    from opdiff.align import convert

    codes = tensor.codes()
    try:
        return convert(codes, tensor.spec, "ND").codes, ""
    except LayoutError as error:
        return codes, f"{error}; padding may be included"


# Checksums


def _measure_md5(job: GraphJob) -> Measurement:
    from opdiff.measure.checksum import crc32

    target, golden = job.target.tensor, job.golden.tensor
    arrays: tuple[AnyArray | None, AnyArray | None] = (None, None)
    if target is not None and golden is not None:
        try:
            pair = _aligned(target, golden)
            arrays = pair.target, pair.golden
        except (LayoutError, ElementError):
            arrays = None, None
    sides = []
    for side, array in zip((job.target, job.golden), arrays, strict=True):
        known = described(side)
        if side.tensor is not None:
            codes = array if array is not None else _logical(side.tensor)[0]
            known = known._replace(crc32=crc32(codes, side.tensor.spec.dtype), shape=codes.shape)
        if not known.crc32:
            return _failed(job, f"{side.path}: no checksum is known, and the data is not there")
        sides.append(known)
    ours, theirs = sides
    differ = ours.dtype and theirs.dtype and ours.dtype != theirs.dtype
    notes = (f"the element types differ: target {ours.dtype}, golden {theirs.dtype}",) if differ else ()
    return Measurement(ours, theirs, notes=notes)


_MODES = {DataMode.REAL: _measure_real, DataMode.STATISTICS: _measure_statistics, DataMode.MD5: _measure_md5}

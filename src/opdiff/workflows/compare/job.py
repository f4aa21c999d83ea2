"""One pairing to its numbers: load → align → measure. Whatever goes wrong becomes part of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Measured
from opdiff.core.errors import OpdiffError
from opdiff.core.float_formats import largest

if TYPE_CHECKING:
    from opdiff.align.custom import Custom
    from opdiff.align.pairs import AlignedPair
    from opdiff.core.comparison import Metrics, Pairing
    from opdiff.core.dtypes import DType
    from opdiff.measure.custom import Metric


DIED = "the process that worked on it died, perhaps for want of memory"
"""Why a job has no numbers whose process was ended from outside."""


class Extras(NamedTuple):
    """What is wanted beside the sums of one pass.

    Attributes:
        with_kl: the divergence, which takes a second pass.
        conversions: the user's own layout conversions.
        metrics: metrics that are not built in.
    """

    with_kl: bool = True
    conversions: Custom | None = None
    metrics: tuple[Metric, ...] = ()


class MeasureJob(NamedTuple):
    """One pairing to be measured; `number` is its place in the report."""

    number: int
    pairing: Pairing
    extras: Extras = Extras()

    @property
    def nbytes(self) -> int:
        """Data on both sides."""
        return self.pairing.nbytes


def measure_pairing(job: MeasureJob) -> tuple[Measured, str]:
    """The numbers of one pairing, and the traceback of an error that should not have happened, else nothing."""
    try:
        return _measure(job), ""
    except (OpdiffError, MemoryError) as error:
        return failed(job, reason_of(error)), ""
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one row and is shown as ours
        from traceback import format_exc

        return failed(job, f"a defect of opdiff: {error!r}"), format_exc()


def died(job: MeasureJob) -> tuple[Measured, str]:
    """What becomes of a job whose process was ended from outside."""
    return failed(job, DIED), ""


def _measure(job: MeasureJob) -> Measured:
    from opdiff.align.pairs import align_pair
    from opdiff.measure.divergence import measure_kl
    from opdiff.measure.metrics import metrics_of
    from opdiff.measure.reference.blocks import measure

    pairing = job.pairing
    target, golden = pairing.target.data.spec.dtype, pairing.golden.data.spec.dtype
    pair = align_pair(pairing, pairing.target.data.codes(), pairing.golden.data.codes(), job.extras.conversions)
    sums = measure(pair.target, target, pair.golden, golden)
    kl = measure_kl(pair.target, target, pair.golden, golden, sums=sums) if job.extras.with_kl else None
    return measured(job, pair, metrics_of(sums, kl, is_scalar=all(extent == 1 for extent in pair.shape)))


def measured(job: MeasureJob, pair: AlignedPair, metrics: Metrics) -> Measured:
    """An aligned pair and its metrics, with everything that is to be known about them."""
    pairing = job.pairing
    target, golden = pairing.target.data, pairing.golden.data
    dtype = target.spec.dtype
    return Measured(
        pairing,
        dtype.name,
        golden.spec.dtype.name,
        pair.shape,
        (*target.notes, *golden.notes, *pair.steps),
        metrics,
        _custom(job, pair) if job.extras.metrics else (),
        _overflow(dtype, metrics),
        "; ".join((str(pair.doubt), *metrics.notes) if pair.doubt else metrics.notes),
    )


def _custom(job: MeasureJob, pair: AlignedPair) -> tuple[tuple[str, str, str], ...]:
    """Name, value and message of each metric that is not built in."""
    from opdiff.measure.custom import MetricArgs, run_metric

    target, golden = job.pairing.target.data, job.pairing.golden.data
    shape_type = "scalar" if all(extent == 1 for extent in pair.shape) else "tensor"
    args = MetricArgs(target.source.path, golden.source.path, shape_type)
    sides = (pair.target, target.spec.dtype), (pair.golden, golden.spec.dtype)
    return tuple(run_metric(metric, *sides, args) for metric in job.extras.metrics)


def _overflow(dtype: DType, metrics: Metrics) -> bool | None:
    """Whether a float tensor has infinities or reaches the end of its type's range; other types cannot tell."""
    limit = largest(dtype)
    if limit is None:
        return None
    low, high = metrics.target_min, metrics.target_max
    return metrics.target_infs > 0 or (low is not None and low <= -limit) or (high is not None and high >= limit)


def failed(job: MeasureJob, reason: str) -> Measured:
    """A pairing without numbers, and why it has none."""
    pairing = job.pairing
    target, golden = pairing.target.data.spec, pairing.golden.data.spec
    return Measured(pairing, target.dtype.name, golden.dtype.name, target.shape, reason=reason)


def reason_of(error: OpdiffError | MemoryError) -> str:
    """An error in words for the report."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    return str(error)

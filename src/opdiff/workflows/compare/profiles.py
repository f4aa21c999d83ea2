"""Error profiles of the worst tensors: along the channel axis, and along the axis on which errors are concentrated.

    bad rows with their pairings ──► slices of every axis ──► Profile, …

Only tensors in which an error originates or that a finding names are examined, large tensors by a sample, so that
profiles take milliseconds for any comparison.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.error_facts import Profile
from opdiff.core.errors import OpdiffError
from opdiff.core.judgement import Origin
from opdiff.measure.kernel import library as native
from opdiff.workflows.compare.batch import native_job
from opdiff.workflows.compare.kept_pairs import MAX_LOADED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.comparison import Row
    from opdiff.core.judgement import Judgement
    from opdiff.core.pairing import Pairing
    from opdiff.core.tensor import Shape
    from opdiff.measure.slices import Sample, SlicedAxis, SliceSums
    from opdiff.workflows.compare.kept_pairs import LazyPairs

    AxisSums = tuple[SlicedAxis, Sequence[SliceSums]]

_MAX_TENSORS = 20
# Elements of all tensors together.
_MAX_ELEMENTS = 1 << 22
# Concentration that another axis needs to be shown besides the channel axis, absolute and relative to that axis.
_MIN_CONCENTRATION, _MIN_CONCENTRATION_RATIO = 0.3, 2.0


class _Examined(Struct, frozen=True):
    """Errors of a tensor along each of its axes."""

    shape: Shape
    layout: str
    sample: Sample
    axes: Sequence[AxisSums]


def find_profiles(rows: Sequence[Row], judgement: Judgement, pairs: LazyPairs) -> tuple[Profile, ...]:
    """Return the error profiles of the worst tensors."""
    profiles: list[Profile] = []
    remaining = _MAX_ELEMENTS
    for number in _worst_rows(rows, judgement)[:_MAX_TENSORS]:
        pairing = pairs.pairing(number)
        if remaining <= 0 or pairing is None:
            continue
        examined = _examine(pairing, rows[number].shape or (), pairs.custom)
        if examined is not None:
            remaining -= examined.sample.examined
            profiles += _profiles(number, examined)
    return tuple(profiles)


def _worst_rows(rows: Sequence[Row], judgement: Judgement) -> list[int]:
    """Return the numbers of rows to examine: rows of findings in order, then other origins of errors, worst first."""
    findings = {finding.tensor: position for position, finding in enumerate(judgement.findings)}
    bad = (number for number, (level, _) in enumerate(judgement.marks()) if level.is_bad)
    named = ((number, judgement.verdicts[number], str(rows[number].key)) for number in bad)
    ranks = [
        (findings.get(name, len(findings)), -(verdict.excess or 0.0), number)
        for number, verdict, name in named
        if verdict.origin is Origin.CREATED or name in findings
    ]
    return [number for _, _, number in sorted(ranks)]


def _examine(pairing: Pairing, shape: Shape, custom: Conversions | None) -> _Examined | None:
    """Return the errors along every axis; `None` if the tensors cannot be read, or are too large to be loaded."""
    from opdiff.measure.kernel.results import measure_slices
    from opdiff.measure.slices import choose_sample, slice_axes

    aligned = native_job(pairing) if custom is None and native.find_library() else None
    if aligned is not None:
        pair, job, _payloads = aligned
        axes = slice_axes(pair.shape, native.parts_of(pairing.target.data.spec.dtype))
        sample = choose_sample(prod(job.shape))
        sums = measure_slices(job, axes, sample)
        return None if sums is None else _Examined(pair.shape, pair.layout, sample, list(zip(axes, sums, strict=True)))
    if pairing.nbytes > MAX_LOADED_BYTES or not prod(shape):
        return None
    try:
        return _examine_loaded(pairing, custom)
    except (OpdiffError, MemoryError):
        return None


def _examine_loaded(pairing: Pairing, custom: Conversions | None) -> _Examined:
    from opdiff.align.element_reader import open_pair
    from opdiff.measure.slices import choose_sample, measure_slices, slice_axes

    pair = open_pair(*pairing.operands, custom)
    target, golden = pair.target, pair.golden
    parts = native.parts_of(target.dtype)
    axes, sample = slice_axes(pair.shape, parts), choose_sample(parts * target.count)
    sums = measure_slices(target.block, target.dtype, golden.block, golden.dtype, axes, sample)
    return _Examined(pair.shape, pair.layout, sample, list(zip(axes, sums, strict=True)))


def _profiles(row: int, examined: _Examined) -> Iterator[Profile]:
    """Yield the profile of the channel axis, if known, and of the axis with the highest concentration."""
    from opdiff.measure.slices import concentration

    shape, layout = examined.shape, examined.layout
    labels = layout if len(layout) == len(shape) and "C" in layout else ""
    found = [axis_sums for axis_sums in examined.axes if any(map(_has_error, axis_sums[1]))]
    if not found:
        return
    most = max(found, key=lambda item: (concentration(item[1]), _is_usual_channel_axis(item[0].axis, shape)))
    channels = next((item for item in found if labels[item[0].axis : item[0].axis + 1] == "C"), most)
    yield _profile(row, labels, *channels, examined.sample)
    if concentration(most[1]) > max(_MIN_CONCENTRATION, _MIN_CONCENTRATION_RATIO * concentration(channels[1])):
        yield _profile(row, labels, *most, examined.sample)


def _has_error(sums: SliceSums) -> bool:
    return bool(sums.squares or sums.not_finite)


def _is_usual_channel_axis(axis: int, shape: Shape) -> bool:
    """Return whether this is the usual axis of channels: the second of four or more axes, else the last."""
    return axis == (1 if len(shape) >= 4 else len(shape) - 1)


def _profile(row: int, labels: str, sliced: SlicedAxis, slices: Sequence[SliceSums], sample: Sample) -> Profile:
    return Profile(
        row,
        sliced.axis,
        labels[sliced.axis : sliced.axis + 1],
        sliced.extent,
        sliced.width,
        sample.share,
        tuple(_rounded(sqrt(sums.mean_square)) for sums in slices),
        tuple(_rounded(sums.largest) for sums in slices),
        tuple(sums.not_finite for sums in slices),
    )


def _rounded(number: float) -> float:
    """Round to four digits, enough for a bar chart."""
    return float(f"{number:.4g}")

"""Where in the worst tensors the error is: along the axis of channels, or along the one that tells most about it.

    bad rows with their pairings ──► slices of every axis ──► Profile, …

Only tensors whose error was born there, or that a finding is about, are looked at, and of large ones only a sample:
this takes milliseconds, whatever was compared.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

from opdiff.core.comparison import Pairing, Profile
from opdiff.core.errors import OpdiffError
from opdiff.core.judgement import Origin
from opdiff.measure.kernel import library as native
from opdiff.workflows.compare.batch import native_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.comparison import Pair, Row
    from opdiff.core.judgement import Judgement
    from opdiff.core.tensor import Shape
    from opdiff.measure.slices import Cut, Sample, Slice

    Measures = tuple[Shape, str, Sample, tuple[Cut, ...], list[tuple[Slice, ...]]]

_MAX_TENSORS = 20
# Elements of all tensors together, and bytes of one that has to be loaded as a whole.
_MAX_ELEMENTS = 1 << 22
_MAX_LOADED_BYTES = 64 << 20
# Beside the channels another axis is shown that explains this part of the error, and so many times as much.
_MIN_EXPLAINED, _MIN_EXPLAINED_RATIO = 0.3, 2.0


def find_profiles(
    rows: Sequence[Row], judgement: Judgement, pairs: Sequence[Pair], custom: Conversions | None = None
) -> tuple[Profile, ...]:
    """Return where in the worst tensors the errors are; `pairs` are those of the rows."""
    profiles: list[Profile] = []
    left = _MAX_ELEMENTS
    for number in _worst(rows, judgement)[:_MAX_TENSORS]:
        pair = pairs[number]
        if left <= 0 or not isinstance(pair, Pairing):
            continue
        found = _measure(pair, rows[number].shape or (), custom)
        if found is not None:
            left -= found[2].seen
            profiles += _profiles(number, *found)
    return tuple(profiles)


def _worst(rows: Sequence[Row], judgement: Judgement) -> list[int]:
    """Return the rows to look at: those of findings in their order, then other origins of errors, worst first."""
    findings = {finding.tensor: position for position, finding in enumerate(judgement.findings)}
    ranks = [
        (findings.get(str(row.key), len(findings)), -(verdict.excess or 0.0), number)
        for number, (row, verdict) in enumerate(zip(rows, judgement.verdicts, strict=True))
        if verdict.level.is_bad and (verdict.origin is Origin.BORN or str(row.key) in findings)
    ]
    return [number for _, _, number in sorted(ranks)]


def _measure(pairing: Pairing, shape: Shape, custom: Conversions | None) -> Measures | None:
    """The errors along every axis; `None` when they cannot be had any more, or not quickly."""
    from opdiff.measure.kernel.slices import measure_slices
    from opdiff.measure.slices import cuts_of, sample_of

    described = native_job(pairing) if custom is None and native.find_library() else None
    if described is not None:
        pair, job = described
        cuts, sample = cuts_of(pair.shape, native.parts_of(pairing.target.data.spec.dtype)), sample_of(prod(job.shape))
        found = measure_slices(job, cuts, sample)
        return None if found is None else (pair.shape, pair.layout, sample, cuts, found)
    if pairing.target.data.source.nbytes + pairing.golden.data.source.nbytes > _MAX_LOADED_BYTES or not prod(shape):
        return None
    try:
        return _measure_loaded(pairing, custom)
    except (OpdiffError, MemoryError):
        return None


def _measure_loaded(pairing: Pairing, custom: Conversions | None) -> Measures:
    from opdiff.align.element_reader import open_pair
    from opdiff.measure.slices import cuts_of, measure_slices, sample_of

    readers = open_pair(*pairing.operands, custom)
    target, golden = readers.target, readers.golden
    parts = native.parts_of(target.dtype)
    cuts, sample = cuts_of(readers.shape, parts), sample_of(parts * target.count)
    found = measure_slices(target.block, target.dtype, golden.block, golden.dtype, cuts, sample)
    return readers.shape, readers.layout, sample, cuts, found


def _profiles(
    row: int, shape: Shape, layout: str, sample: Sample, cuts: Sequence[Cut], found: Sequence[Sequence[Slice]]
) -> Iterator[Profile]:
    """The axis of channels where it is known, and the one that tells most, where that is another."""
    from opdiff.measure.slices import explained

    letters = layout if len(layout) == len(shape) and "C" in layout else ""
    errors = [(cut, slices) for cut, slices in zip(cuts, found, strict=True) if any(map(_is_off, slices))]
    if not errors:
        return
    telling = max(errors, key=lambda pair: (explained(pair[1]), _is_usual(pair[0].axis, shape)))
    channels = next((pair for pair in errors if letters[pair[0].axis : pair[0].axis + 1] == "C"), telling)
    yield _profile(row, letters, *channels, sample)
    if explained(telling[1]) > max(_MIN_EXPLAINED, _MIN_EXPLAINED_RATIO * explained(channels[1])):
        yield _profile(row, letters, *telling, sample)


def _is_off(each: Slice) -> bool:
    return bool(each.squares or each.not_finite)


def _is_usual(axis: int, shape: Shape) -> bool:
    """Whether channels are usually there: the second axis of four or more, else the last."""
    return axis == (1 if len(shape) >= 4 else len(shape) - 1)


def _profile(row: int, letters: str, cut: Cut, slices: Sequence[Slice], sample: Sample) -> Profile:
    return Profile(
        row,
        cut.axis,
        letters[cut.axis : cut.axis + 1],
        cut.extent,
        cut.width,
        sample.share,
        tuple(_rounded(sqrt(each.mean_square)) for each in slices),
        tuple(_rounded(each.largest) for each in slices),
        tuple(each.not_finite for each in slices),
    )


def _rounded(number: float) -> float:
    """Nobody reads more digits off a bar."""
    return float(f"{number:.4g}")

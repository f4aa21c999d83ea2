"""Pictures of the worst tensors: which tensors are drawn, and within which bounds.

rows, judgement ──► numbers of the worst rows ──load or sample──► SampledValues ──draw──► TensorPicture, …
"""

from __future__ import annotations

import zlib
from math import inf, prod
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from opdiff.core.errors import OpdiffError, UsageError
from opdiff.core.judgement import Origin
from opdiff.core.reasons import because
from opdiff.core.remote.urls import is_remote
from opdiff.core.source import FileRange
from opdiff.workflows.compare.kept_pairs import MAX_LOADED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from opdiff.align.custom import Conversions
    from opdiff.align.element_reader import PairReader
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.judgement import Judgement
    from opdiff.core.pairing import Pairing
    from opdiff.core.pictures import TensorPicture
    from opdiff.measure.picture_tally import WholePair
    from opdiff.measure.pictures import SampledValues
    from opdiff.workflows.compare.kept_pairs import LazyPairs, PairValues

    Index = npt.NDArray[np.intp]

_MAX_TENSORS = 20
_MAX_NBYTES = 1 << 20
# Cells of the frames of a tensor: 6 planes of 64 by 64 cells, or more smaller planes.
_MAX_IMAGE_CELLS = 6 * 64 * 64
# Larger tensors are drawn from a sample, and all of them when this many elements were looked at. NumPy, which loads
# them, takes many times as long for an element as the kernel, which reads them where they are stored.
_MAX_FULL_ELEMENTS, _MAX_NATIVE_ELEMENTS = 1 << 20, 1 << 26
_NUMPY_COST = _MAX_NATIVE_ELEMENTS >> 22
# Elements by which the range of values is chosen, if the kernel looks at all of them; in runs of this length.
_RANGE_ELEMENTS, _RANGE_RUN_LENGTH = 1 << 16, 64
_BASE64_RATIO = 4 / 3


class PictureBounds(Struct, frozen=True):
    """Maximum number of tensors to draw, and of the bytes that they add to a report."""

    tensors: float = _MAX_TENSORS
    nbytes: float = _MAX_NBYTES

    @classmethod
    def of(cls, choice: str) -> PictureBounds:
        """Return the bounds for the user's choice: `all`, `none`, a number of tensors, or an empty string.

        Raises:
            UsageError: it is none of these.
        """
        if not choice:
            return cls()
        if choice in ("all", "none"):
            return cls(inf if choice == "all" else 0, inf)
        if not choice.isdecimal():
            raise UsageError(because("compare.pictures_choice", choice=choice))
        return cls(int(choice), inf)


def find_pictures(
    rows: Sequence[Row], judgement: Judgement, pairs: LazyPairs, bounds: PictureBounds
) -> tuple[TensorPicture, ...]:
    """Return the pictures of the worst tensors."""
    found: list[TensorPicture] = []
    nbytes, budget = 0.0, _MAX_NATIVE_ELEMENTS
    for number in _worst_rows(rows, judgement) if bounds.tensors else ():
        picture, cost = _draw(number, pairs, budget)
        if picture is None:
            continue
        nbytes += _BASE64_RATIO * len(zlib.compress(msgspec.msgpack.encode(picture), 1))
        budget -= cost
        if nbytes > bounds.nbytes:
            break
        found.append(picture)
        if len(found) >= bounds.tensors:
            break
    return tuple(found)


def _worst_rows(rows: Sequence[Row], judgement: Judgement) -> Iterator[int]:
    """Yield the numbers of bad rows: rows of findings in order, other origins of errors, other outputs, and inputs.

    Of a finding in several units of graph mode the first one counts. Equal ranks are ordered by their excess.
    """
    findings = {
        (finding.units[0] if finding.units else None, finding.tensor): position
        for position, finding in enumerate(judgement.findings)
    }
    ranks = [
        (
            findings.get((row.unit, str(row.key)), len(findings)),
            origin is not Origin.CREATED,
            not row.is_output,
            -(judgement.verdicts[number].excess or 0.0),
            number,
        )
        for number, (level, origin) in enumerate(judgement.marks())
        if level.is_bad and (row := rows[number]).metrics is not None
    ]
    yield from (number for *_, number in sorted(ranks))


def _draw(number: int, pairs: LazyPairs, budget: int) -> tuple[TensorPicture | None, int]:
    """Return a picture and the cost of its elements; `None` if the tensor cannot be read, or is too large to be."""
    from opdiff.measure.pictures import draw_picture

    pairing = pairs.pairing(number)
    if pairing is None:
        return None, 0
    try:
        values = _values_of(number, pairing, pairs, budget)
        picture = None if values is None else draw_picture(number, values, _MAX_IMAGE_CELLS)
    except (OpdiffError, MemoryError):
        return None, 0
    if values is None or picture is None or picture.sampled_share < 1.0:
        return picture, 0
    return picture, prod(picture.shape) * (1 if values.whole is not None else _NUMPY_COST)


def _values_of(number: int, pairing: Pairing, pairs: LazyPairs, budget: int) -> SampledValues | None:
    """Return the values of a pairing, or a sample of large tensors; `None` if they cannot be read.

    Raises:
        OpdiffError: the tensors cannot be read or aligned.
    """
    from opdiff.align.element_reader import open_pair

    whole = find_whole_pair(pairing, pairs.custom, budget)
    if whole is None and pairs.has_values(number):
        values = pairs.values(number)
        return None if values is None else _all_values(values)
    if pairing.nbytes > MAX_LOADED_BYTES and not _is_read_in_place(pairing, pairs.custom):
        return None
    max_elements = min(budget // _NUMPY_COST, _MAX_FULL_ELEMENTS)
    return read_values(open_pair(*pairing.operands, pairs.custom), max_elements, whole)


def find_whole_pair(pairing: Pairing, custom: Conversions | None, max_elements: int) -> WholePair | None:
    """Return a pair that the kernel reads in place; `None` if the kernel cannot, or if there are too many elements."""
    from opdiff.measure.kernel import library as native
    from opdiff.measure.kernel.pictures import NativePair
    from opdiff.workflows.compare.batch import native_job

    is_real = native.parts_of(pairing.target.data.spec.dtype) == 1
    if native.find_library() is None or not is_real or not _is_read_in_place(pairing, custom):
        return None
    aligned = native_job(pairing)
    if aligned is None or prod(aligned[1].shape) > max_elements:
        return None
    return NativePair(aligned[1], aligned[2])


def _is_read_in_place(pairing: Pairing, custom: Conversions | None) -> bool:
    """Return whether single elements can be read without loading or fetching whole tensors."""
    from opdiff.align.pairs import align_strided

    sources = pairing.target.data.source, pairing.golden.data.source
    is_local = all(isinstance(source, FileRange) and not is_remote(source.path) for source in sources)
    return custom is None and is_local and align_strided(*pairing.operands) is not None


def _all_values(values: PairValues) -> SampledValues:
    import numpy as np

    from opdiff.measure.pictures import SampledValues

    target, golden = values.target.reshape(-1), values.golden.reshape(-1)
    labels = _labels(values.layout, len(values.target.shape))
    shape = values.target.shape or (1,)
    return SampledValues(shape, labels, np.arange(target.size), target, golden, lambda at: (target[at], golden[at]))


def read_values(pair: PairReader, max_elements: int, whole: WholePair | None = None) -> SampledValues:
    """Return the values of two tensors: all, or a sample if there are more elements than allowed.

    With the whole pair, values of fewer elements suffice.
    """
    from opdiff.core import codes
    from opdiff.measure.pictures import SampledValues

    positions = _positions(prod(pair.shape), max_elements, for_range=whole is not None)

    def take(at: Index) -> tuple[AnyArray, AnyArray]:
        target, golden = (codes.decode(side.take(at), side.dtype) for side in (pair.target, pair.golden))
        pair.release()
        return target, golden

    shape = pair.shape or (1,)
    return SampledValues(shape, _labels(pair.layout, len(pair.shape)), positions, *take(positions), take, whole)


def _positions(count: int, max_elements: int, *, for_range: bool) -> Index:
    """Return the indices of all elements, or of evenly distributed runs."""
    import numpy as np

    from opdiff.measure.slices import choose_sample

    if for_range and count > _RANGE_ELEMENTS:
        starts = np.linspace(0, count - _RANGE_RUN_LENGTH, _RANGE_ELEMENTS // _RANGE_RUN_LENGTH).astype(np.intp)
        return (starts[:, None] + np.arange(_RANGE_RUN_LENGTH)).reshape(-1)
    if count <= max_elements:
        return np.arange(count)
    sample = choose_sample(count)
    runs = np.asarray(sample.starts)[:, None] + np.arange(sample.length)
    return np.unique(np.minimum(runs.reshape(-1), count - 1))


def _labels(layout: str, rank: int) -> str:
    """Return a layout as labels of the axes; an empty string if its axes are not those of the tensor."""
    return layout if len(layout) == rank and {"C"} <= set(layout) else ""

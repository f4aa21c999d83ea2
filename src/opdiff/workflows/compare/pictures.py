"""Pictures of the worst tensors: which ones are drawn, and within which bounds.

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
from opdiff.workflows.compare.loaded_pairs import MAX_LOADED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from opdiff.align.custom import Conversions
    from opdiff.align.element_reader import PairReader
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Pairing, Row
    from opdiff.core.judgement import Judgement
    from opdiff.core.pictures import TensorPicture
    from opdiff.measure.pictures import SampledValues
    from opdiff.workflows.compare.loaded_pairs import LoadedPairs, PairValues

    Index = npt.NDArray[np.intp]

_MAX_TENSORS = 20
_MAX_NBYTES = 1 << 20
# Cells of the frames of a tensor: 6 planes of 64 by 64 cells, or more of smaller ones.
_MAX_IMAGE_CELLS = 6 * 64 * 64
# Larger tensors are drawn from a sample, and all of them from the moment when this many elements were loaded.
_MAX_FULL_ELEMENTS = 1 << 20
_MAX_ELEMENTS = 1 << 22
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
    rows: Sequence[Row], judgement: Judgement, loaded: LoadedPairs, bounds: PictureBounds
) -> tuple[TensorPicture, ...]:
    """Return the pictures of the worst tensors."""
    found: list[TensorPicture] = []
    nbytes, elements = 0.0, _MAX_ELEMENTS
    for number in _worst_rows(rows, judgement) if bounds.tensors else ():
        picture = _draw(number, loaded, min(elements, _MAX_FULL_ELEMENTS))
        if picture is None:
            continue
        nbytes += _BASE64_RATIO * len(zlib.compress(msgspec.msgpack.encode(picture), 1))
        elements -= prod(picture.shape) if picture.sampled_share == 1.0 else 0
        if nbytes > bounds.nbytes:
            break
        found.append(picture)
        if len(found) >= bounds.tensors:
            break
    return tuple(found)


def _worst_rows(rows: Sequence[Row], judgement: Judgement) -> Iterator[int]:
    """Yield the numbers of bad rows: those of findings in order, other origins of errors, other outputs, and inputs.

    Of a finding in several units of graph mode the first one counts. Equal ranks are ordered by their excess.
    """
    findings = {
        (finding.units[0] if finding.units else None, finding.tensor): position
        for position, finding in enumerate(judgement.findings)
    }
    ranks = [
        (
            findings.get((row.unit, str(row.key)), len(findings)),
            verdict.origin is not Origin.BORN,
            not row.is_output,
            -(verdict.excess or 0.0),
            number,
        )
        for number, verdict in enumerate(judgement.verdicts)
        if verdict.level.is_bad and (row := rows[number]).metrics is not None
    ]
    yield from (number for *_, number in sorted(ranks))


def _draw(number: int, loaded: LoadedPairs, max_elements: int) -> TensorPicture | None:
    """Draw a tensor; `None` if it cannot be read, has no numbers, or is too large for its layout."""
    from opdiff.measure.pictures import draw_picture

    pairing = loaded.pairing(number)
    if pairing is None:
        return None
    try:
        values = values_of(number, pairing, loaded, max_elements)
        return None if values is None else draw_picture(number, values, _MAX_IMAGE_CELLS)
    except (OpdiffError, MemoryError):
        return None


def values_of(number: int, pairing: Pairing, loaded: LoadedPairs, max_elements: int) -> SampledValues | None:
    """Return the values of a pairing: all of a small one, a sample of a large one; `None` if it cannot be read.

    Raises:
        OpdiffError: the tensors cannot be read or aligned.
    """
    from opdiff.align.element_reader import open_pair

    if loaded.has_values(number):
        values = loaded.values(number)
        return None if values is None else _all_values(values)
    if not _is_small(pairing) and not _is_read_in_place(pairing, loaded.custom):
        return None
    return read_values(open_pair(*pairing.operands, loaded.custom), max_elements)


def _is_small(pairing: Pairing) -> bool:
    return pairing.target.data.source.nbytes + pairing.golden.data.source.nbytes <= MAX_LOADED_BYTES


def _is_read_in_place(pairing: Pairing, custom: Conversions | None) -> bool:
    """Return whether single elements can be read without loading or fetching whole tensors."""
    from opdiff.align.strided import align_strided

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


def read_values(pair: PairReader, max_elements: int) -> SampledValues:
    """Return the values of two tensors: all, or a sample if there are more elements than allowed."""
    import numpy as np

    from opdiff.core import codes
    from opdiff.measure.pictures import SampledValues
    from opdiff.measure.slices import choose_sample

    count = prod(pair.shape)
    positions = np.arange(count)
    if count > max_elements:
        sample = choose_sample(count)
        runs = np.asarray(sample.starts)[:, None] + np.arange(sample.length)
        positions = np.unique(np.minimum(runs.reshape(-1), count - 1))

    def take(at: Index) -> tuple[AnyArray, AnyArray]:
        target, golden = (codes.decode(side.take(at), side.dtype) for side in (pair.target, pair.golden))
        pair.release()
        return target, golden

    shape = pair.shape or (1,)
    return SampledValues(shape, _labels(pair.layout, len(pair.shape)), positions, *take(positions), take)


def _labels(layout: str, rank: int) -> str:
    """Return a layout as labels of the axes; an empty string if it has others."""
    return layout if len(layout) == rank and {"C"} <= set(layout) else ""

"""One file to its figures: read, measure, write, read back, and only then remove."""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.atomic_file import whole_file
from opdiff.core.errors import DumpError, LayoutError, OpdiffError
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.reduced import MEMBER, SCHEMA, VERSION, read_reduced
from opdiff.workflows.reduce.plan import is_open_for_writing, stamp_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import IO

    from opdiff.core.graphmode import Figures
    from opdiff.core.tensor import OpDump, Tensor
    from opdiff.workflows.reduce.plan import Candidate

    FileFigures = Mapping[Slot, tuple[Figures, ...]]

_SLOTS = {Slot.INPUT: "inputs", Slot.OUTPUT: "outputs"}
_DOS_START = (1980, 1, 1, 0, 0, 0)


class Outcome(NamedTuple):
    """What became of a file: bytes before and after, or why it was left alone."""

    path: str
    before: int = 0
    after: int = 0
    problem: str = ""


def reduce_file(candidate: Candidate, wanted: Collection[str], *, keep: bool = False) -> Outcome:
    """Put a file's figures beside it and, unless `keep`, remove the file.

    Whatever goes wrong, the file stays. It may be done again at any time: after an interruption the file is still
    there, and its reduced form is written anew.
    """
    try:
        figures = _measure(candidate, wanted)
        with whole_file(candidate.result) as draft:
            _write(draft, figures, candidate)
            draft.flush()
            os.fsync(draft.fileno())
            _verify(draft.name, figures, candidate)
            # The last look before the original goes: it must be the file that was measured.
            if stamp_of(candidate.path) != candidate.stamp or is_open_for_writing(candidate.path):
                raise DumpError(candidate.path, "it is still being written; left alone")
        _sync_folder(candidate.path)
        after = os.path.getsize(candidate.result)
        if not keep:
            os.unlink(candidate.path)
    except OpdiffError as error:
        return Outcome(candidate.path, problem=str(error.brief))
    except OSError as error:
        return Outcome(candidate.path, problem=error.strerror or str(error))
    return Outcome(candidate.path, candidate.stamp.nbytes, after)


def _measure(candidate: Candidate, wanted: Collection[str]) -> FileFigures:
    dump = read_operator(candidate.path, candidate.name, sliced=False)
    _require_whole(dump, candidate)
    return {slot: tuple(_figures(tensor, wanted) for tensor in dump.tensors(slot)) for slot in Slot}


def _require_whole(dump: OpDump, candidate: Candidate) -> None:
    """A container that is complete holds at least as many bytes as its tensors need."""
    tensors = dump.inputs + dump.outputs
    if not tensors:
        raise DumpError(candidate.path, "there is no tensor in it")
    for tensor in tensors:
        needed = tensor.spec.dtype.nbytes(tensor.spec.count)
        if needed > tensor.source.nbytes:
            raise DumpError(
                candidate.path, f"{needed} bytes of a tensor are announced, {tensor.source.nbytes} are there"
            )


def _figures(tensor: Tensor, wanted: Collection[str]) -> Figures:
    from opdiff.align import convert
    from opdiff.measure.figures import figures_of

    codes = tensor.codes()
    with suppress(LayoutError):
        codes = convert(codes, tensor.spec, "ND").codes
    return figures_of(codes, tensor.spec.dtype, wanted)


# What is written


def _write(draft: IO[bytes], figures: FileFigures, candidate: Candidate) -> None:
    text = json.dumps(_document(figures), allow_nan=False).encode()
    if candidate.is_fx:
        (only,) = figures[Slot.OUTPUT]
        draft.write(_npy((2,), [_extreme(only.minimum), _extreme(only.maximum)]) + text)
        return
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        for slot, name in _SLOTS.items():
            ends = [_extreme(end) for item in figures[slot] for end in (item.minimum, item.maximum)]
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _DOS_START), _npy((len(figures[slot]), 2), ends))
        archive.writestr(zipfile.ZipInfo(MEMBER, _DOS_START), text)


def _npy(shape: tuple[int, ...], numbers: list[float]) -> bytes:
    """A NumPy file of float64."""
    extents = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({extents}), }}"
    padded = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + struct.pack(f"<{len(numbers)}d", *numbers)


def _extreme(value: float | None) -> float:
    """Readers of arrays find NaN where there is no smallest or largest; the JSON tells why."""
    return math.nan if value is None else float(value)


def _document(figures: FileFigures) -> dict[str, object]:
    lists = {name: [_item(item) for item in figures[slot]] for slot, name in _SLOTS.items()}
    return {"schema": SCHEMA, "version": VERSION, **lists}


def _item(figures: Figures) -> dict[str, object]:
    numbers = {"min": figures.minimum, "max": figures.maximum, "mean": figures.mean, "l2norm": figures.norm}
    item: dict[str, object] = {name: _plain(value) for name, value in numbers.items()}
    item |= {"nans": figures.nans, "infs": figures.infs, "crc32": figures.crc32, "dtype": figures.dtype}
    shape = None if figures.shape is None else list(figures.shape)
    return item | {"shape": shape, "histogram": list(figures.histogram)}


def _plain(value: float | None) -> object:
    return str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value


def _verify(path: str, figures: FileFigures, candidate: Candidate) -> None:
    """Read back what was written, as a comparison would, and see that it says the same."""
    found = read_reduced(path, os.path.basename(candidate.result))
    # Through the same text, since NaN is not equal to itself.
    if json.dumps(_document(found)) != json.dumps(_document(figures)):
        raise DumpError(candidate.path, "what was written does not read back the same; the file is kept")


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Reduction of one file: read, measure, write, verify, and only then remove."""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import DumpError, LayoutError, OpdiffError
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.reduced import MEMBER, SCHEMA, SLOT_NAMES, VERSION, read_reduced
from opdiff.workflows.convert.byte_copy import npy_header
from opdiff.workflows.reduce.plan import is_open_for_writing, stamp_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import IO

    from opdiff.core.metrics import TensorStats
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import OpDump, Tensor
    from opdiff.workflows.reduce.plan import ReducibleFile

    FileStats = Mapping[Slot, tuple[TensorStats, ...]]

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


class ReduceResult(Struct, frozen=True):
    """Result of a file: bytes before and after, or the problem because of which the file was kept."""

    path: str
    before: int = 0
    after: int = 0
    problem: Reason | None = None


def reduce_file(file: ReducibleFile, requested: Collection[str], *, keep: bool = False) -> ReduceResult:
    """Write the reduced form of a file and, unless `keep`, remove the file.

    The file is kept if anything fails. The reduction can be repeated at any time: after an interruption the file still
    exists, and its reduced form is written again.
    """
    try:
        stats = _measure(file, requested)
        with open_atomic(file.result) as draft:
            _write(draft, stats, file)
            draft.flush()
            os.fsync(draft.fileno())
            _verify(draft.name, stats, file)
            # The original is removed only if it is still the file that was measured.
            if stamp_of(file.path) != file.stamp or is_open_for_writing(file.path):
                raise DumpError(file.path, because("workflows.still_written"))
        _sync_folder(file.path)
        after = os.path.getsize(file.result)
        if not keep:
            os.unlink(file.path)
    except OpdiffError as error:
        return ReduceResult(file.path, problem=error.brief)
    except OSError as error:
        return ReduceResult(file.path, problem=quoted(error.strerror or str(error)))
    return ReduceResult(file.path, file.stamp.nbytes, after)


def reduce_once(file: ReducibleFile, requested: Collection[str], *, keep: bool = False) -> ReduceResult:
    """Reduce a file, unless a worker that was killed has just reduced the file and removed it."""
    result = reduce_file(file, requested, keep=keep)
    if result.problem is None or os.path.lexists(file.path) or not os.path.exists(file.result):
        return result
    return ReduceResult(file.path, file.stamp.nbytes, os.path.getsize(file.result))


def _measure(file: ReducibleFile, requested: Collection[str]) -> FileStats:
    dump = read_operator(file.path, file.name, sliced=False)
    _require_complete(dump, file)
    return {slot: tuple(_stats(tensor, requested) for tensor in dump.tensors(slot)) for slot in Slot}


def _require_complete(dump: OpDump, file: ReducibleFile) -> None:
    """Check that there are tensors, as many bytes as they need, and no signs of damage."""
    if dump.anomalies:
        raise DumpError(file.path, dump.anomalies[0])
    tensors = dump.inputs + dump.outputs
    if not tensors:
        raise DumpError(file.path, because("workflows.no_tensor"))
    for tensor in tensors:
        needed = tensor.spec.dtype.nbytes(tensor.spec.count)
        if needed > tensor.source.nbytes:
            stored = tensor.source.nbytes
            raise DumpError(file.path, because("workflows.too_few_bytes", needed=needed, stored=stored))


def _stats(tensor: Tensor, requested: Collection[str]) -> TensorStats:
    from opdiff.align import convert
    from opdiff.measure.tensor_stats import tensor_stats

    codes = tensor.codes()
    with suppress(LayoutError):
        codes = convert(codes, tensor.spec, "ND").codes
    return tensor_stats(codes, tensor.spec.dtype, requested)


def _write(draft: IO[bytes], stats: FileStats, file: ReducibleFile) -> None:
    text = json.dumps(_document(stats), allow_nan=False).encode()
    if file.is_fx:
        (only,) = stats[Slot.OUTPUT]
        draft.write(_npy((2,), [_extreme(only.minimum), _extreme(only.maximum)]) + text)
        return
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        for slot, name in SLOT_NAMES.items():
            ends = [_extreme(end) for item in stats[slot] for end in (item.minimum, item.maximum)]
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _ZIP_EPOCH), _npy((len(stats[slot]), 2), ends))
        archive.writestr(zipfile.ZipInfo(MEMBER, _ZIP_EPOCH), text)


def _npy(shape: tuple[int, ...], values: list[float]) -> bytes:
    """Return the contents of a NumPy file of float64."""
    return npy_header("<f8", shape) + struct.pack(f"<{len(values)}d", *values)


def _extreme(value: float | None) -> float:
    """Return NaN for a missing minimum or maximum; the JSON has the reason."""
    return math.nan if value is None else float(value)


def _document(stats: FileStats) -> dict[str, object]:
    lists = {name: [_item(item) for item in stats[slot]] for slot, name in SLOT_NAMES.items()}
    return {"schema": SCHEMA, "version": VERSION, **lists}


def _item(stats: TensorStats) -> dict[str, object]:
    numbers = {"min": stats.minimum, "max": stats.maximum, "mean": stats.mean, "l2norm": stats.norm}
    item: dict[str, object] = {name: _plain(value) for name, value in numbers.items()}
    item |= {"nans": stats.nans, "infs": stats.infs, "crc32": stats.crc32, "dtype": stats.dtype}
    shape = None if stats.shape is None else list(stats.shape)
    return item | {"shape": shape, "histogram": list(stats.histogram)}


def _plain(value: float | None) -> object:
    return str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value


def _verify(path: str, stats: FileStats, file: ReducibleFile) -> None:
    """Check that the draft can be read, as by a comparison, with equal statistics."""
    found = read_reduced(path, os.path.basename(file.result))
    # Compared as JSON, since NaN is not equal to itself.
    if json.dumps(_document(found)) != json.dumps(_document(stats)):
        raise DumpError(file.path, because("workflows.not_verified"))


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

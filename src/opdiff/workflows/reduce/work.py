"""Reduction of one file: take, measure, write, verify, and only then remove."""

from __future__ import annotations

import errno
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
from opdiff.workflows.agreement import tensor_doubts
from opdiff.workflows.convert.byte_copy import npy_header
from opdiff.workflows.reduce.plan import is_open_for_writing, stamp_of
from opdiff.workflows.reduce.taken import locked, put_back, take

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import IO

    from opdiff.core.metrics import TensorStats
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import OpDump, Tensor
    from opdiff.workflows.reduce.plan import ReducibleFile

    FileStats = Mapping[Slot, tuple[TensorStats, ...]]

# Errors of file systems that write folders to disk in their own time.
_CANNOT_SYNC_FOLDERS = {errno.EINVAL, errno.ENOTSUP}
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


class ReduceResult(Struct, frozen=True):
    """Result of a file: bytes before and after, or the problem because of which the file was kept.

    A file that is in use, written to or reduced by another process, was kept and can be tried again.
    """

    path: str
    before: int = 0
    after: int = 0
    problem: Reason | None = None
    in_use: bool = False


class _FileInUseError(Exception):
    """A file is being written, or another one has its name."""


def reduce_file(file: ReducibleFile, requested: Collection[str], *, keep: bool = False) -> ReduceResult:
    """Write the reduced form of a file and, unless `keep`, remove the file.

    The file is kept if anything fails. The reduction can be repeated at any time: after an interruption the file still
    exists, at its place or among the taken ones, and its reduced form is written again.
    """
    try:
        with locked(file.path) as taken:
            if taken is None:
                return ReduceResult(file.path, in_use=True)
            if os.path.lexists(taken):  # by a process that was killed
                put_back(taken, file.path)
            if keep:
                _write_reduced(file, file.path, requested)
            else:
                _replace(file, taken, requested)
        return _reduced(file)
    except _FileInUseError:
        return ReduceResult(file.path, in_use=True)
    except (OpdiffError, OSError) as error:
        if not os.path.lexists(file.path) and os.path.exists(file.result):  # reduced by another process
            return _reduced(file)
        problem = error.brief if isinstance(error, OpdiffError) else quoted(error.strerror or str(error))
        return ReduceResult(file.path, problem=problem)


def _reduced(file: ReducibleFile) -> ReduceResult:
    return ReduceResult(file.path, file.stamp.nbytes, os.path.getsize(file.result))


def _replace(file: ReducibleFile, taken: str, requested: Collection[str]) -> None:
    """Take a file, write its reduced form and remove the file; put it back if that fails."""
    take(file.path, taken)
    try:
        _write_reduced(file, taken, requested)
        # Again, as late as possible, for file systems without leases.
        _require_unused(file, taken)
        os.unlink(taken)
    except BaseException:
        put_back(taken, file.path)
        raise


def _write_reduced(file: ReducibleFile, path: str, requested: Collection[str]) -> None:
    """Write the reduced form of a file, which is at `path` now, to disk."""
    _require_unused(file, path)
    stats = _measure(file, path, requested)
    with open_atomic(file.result) as draft:
        _write(draft, stats, file)
        draft.flush()
        os.fsync(draft.fileno())
        _verify(draft.name, stats, file)
        _require_unused(file, path)
    _sync_folder(file.result)


def _require_unused(file: ReducibleFile, path: str) -> None:
    """Check that a file is the one that was found, and that no process writes to it."""
    # In this order: a process that closes the file in between has changed it before.
    if is_open_for_writing(path) or stamp_of(path) != file.stamp:
        raise _FileInUseError


def _measure(file: ReducibleFile, path: str, requested: Collection[str]) -> FileStats:
    dump = read_operator(path, file.name, sliced=False)
    _require_complete(dump, file)
    return {slot: tuple(_stats(tensor, requested) for tensor in dump.tensors(slot)) for slot in Slot}


def _require_complete(dump: OpDump, file: ReducibleFile) -> None:
    """Check that there are tensors, as many bytes as they need, no signs of damage, and no contradiction."""
    if dump.anomalies:
        raise DumpError(file.path, dump.anomalies[0])
    tensors = dump.inputs + dump.outputs
    if not tensors:
        raise DumpError(file.path, because("workflows.no_tensor"))
    for tensor in tensors:
        for doubt in tensor_doubts(tensor):
            raise DumpError(file.path, doubt)
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
    """Make a new name durable: write the folder of a file to disk."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise
    finally:
        os.close(descriptor)

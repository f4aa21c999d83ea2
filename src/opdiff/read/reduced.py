"""Reduced dumps: statistics of tensors instead of their data. See docs/formats/reduced-files.md."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.filesystem import open_input
from opdiff.core.metrics import TensorStats
from opdiff.core.reasons import because
from opdiff.core.source import MAX_RANK
from opdiff.core.tensor import Slot
from opdiff.read import read_operator

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Tensor

SCHEMA = "opdiff.reduced"
VERSION = 1
MEMBER = "opdiff.json"
"""Member of a reduced archive with all statistics; the other members have minimum and maximum only."""
SLOT_NAMES = {Slot.INPUT: "inputs", Slot.OUTPUT: "outputs"}
"""Names of the arrays, and of the lists in the JSON."""

_MAX_JSON_NBYTES = 64 << 20
_MAX_TENSORS = 100_000
_MAX_BINS = 1 << 16
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def read_reduced(path: str, name: str = "") -> dict[Slot, tuple[TensorStats, ...]]:
    """Read the statistics of all tensors in a reduced file; a reduced array of FX is one output.

    Raises:
        DumpError: the file is not a reduced dump.
    """
    name = name or os.path.basename(path)
    operator = read_operator(path, name)
    if name.endswith(".npz"):
        text = _member(path)
        return parse_stats(text, path) if text else _archive(operator.outputs, path)
    (tensor,) = operator.outputs
    text = _trailing_bytes(path, tensor)
    return parse_stats(text, path) if text else {Slot.INPUT: (), Slot.OUTPUT: (_extremes(tensor.array(), path),)}


def parse_stats(text: bytes, path: str) -> dict[Slot, tuple[TensorStats, ...]]:
    """Parse the JSON document of a reduced file."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA or document["version"] != VERSION:
            schema, version = str(document["schema"]), str(document["version"])
            raise DumpError(path, because("read.reduced_schema", schema=schema, version=version))
        return {slot: tuple(_stats(item) for item in document[key]) for slot, key in SLOT_NAMES.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DumpError(path, because("read.reduced_unreadable", error=repr(error))) from error


def _stats(item: dict[str, object]) -> TensorStats:
    shape, histogram = item.get("shape"), item.get("histogram") or []
    if not isinstance(histogram, list) or not (shape is None or isinstance(shape, list)):
        raise TypeError("shape and histogram are lists")
    return TensorStats(
        _number(item.get("min")),
        _number(item.get("max")),
        _float(item.get("mean")),
        _float(item.get("l2norm")),
        _count(item.get("nans")),
        _count(item.get("infs")),
        str(item.get("crc32") or ""),
        str(item.get("dtype") or ""),
        None if shape is None else _counts(shape, MAX_RANK),
        _counts(histogram, _MAX_BINS),
    )


def _number(value: object) -> float | int | None:
    if isinstance(value, str):
        return _NON_FINITE[value]
    if isinstance(value, int):
        float(value)  # an integer beyond all floats is no value of a tensor
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError(f"{value!r} is not a number")


def _float(value: object) -> float | None:
    number = _number(value)
    return None if number is None else float(number)


def _count(value: object) -> int | None:
    return None if value is None else _counts([value], 1)[0]


def _counts(values: list[object], limit: int) -> tuple[int, ...]:
    counts = tuple(value for value in values if isinstance(value, int) and 0 <= value < 1 << 63)
    if len(counts) < len(values) or len(counts) > limit:
        raise ValueError("a number of elements is not credible")
    return counts


def _member(path: str) -> bytes:
    import zipfile
    import zlib

    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            unknown = [name for name in names if name.removesuffix(".npy") not in (MEMBER, *SLOT_NAMES.values())]
            if unknown:
                # No writer adds members: the name of one is damaged.
                raise DumpError(path, because("read.reduced_member", member=unknown[0]))
            if MEMBER not in names:
                return b""
            info = archive.getinfo(MEMBER)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DumpError(path, because("read.member_compression", member=MEMBER))
            with archive.open(info) as member:
                return member.read(_MAX_JSON_NBYTES)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DumpError(path, because("read.not_zip", error=str(error))) from error


def _trailing_bytes(path: str, tensor: Tensor) -> bytes:
    """Return the bytes after the data of an array, which NumPy ignores."""
    source = tensor.source
    start = getattr(source, "offset", 0) + tensor.spec.dtype.nbytes(tensor.spec.count)
    with open_input(path) as file:
        file.seek(start)
        return file.read(_MAX_JSON_NBYTES)


def _archive(tensors: tuple[Tensor, ...], path: str) -> dict[Slot, tuple[TensorStats, ...]]:
    arrays = {tensor.name: tensor for tensor in tensors}
    missing = [name for name in SLOT_NAMES.values() if name not in arrays]
    if missing:
        raise DumpError(path, because("read.reduced_missing", names=tuple(missing)))
    return {slot: _rows(arrays[name], path) for slot, name in SLOT_NAMES.items()}


def _rows(tensor: Tensor, path: str) -> tuple[TensorStats, ...]:
    if tensor.spec.count == 0:
        return ()
    if len(tensor.spec.shape) != 2 or tensor.spec.shape[0] > _MAX_TENSORS:
        raise DumpError(path, because("read.reduced_shape", name=tensor.name, shape=tensor.spec.shape))
    return tuple(_extremes(row, path) for row in tensor.array())


def _extremes(row: AnyArray, path: str) -> TensorStats:
    if row.ndim != 1 or row.size < 2:
        raise DumpError(path, because("read.reduced_extremes", shape=row.shape))
    low, high = row[0].item(), row[1].item()
    if isinstance(low, complex) or isinstance(high, complex):
        raise DumpError(path, because("read.reduced_complex"))
    return TensorStats(low, high)

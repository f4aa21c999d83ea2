"""NumPy `.npy` files, described without NumPy and without pickle. See docs/formats/numpy-files.md."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.reasons import Status, because
from opdiff.core.source import MAX_RANK
from opdiff.core.tensor import Container, OpDump, Tensor, TensorSpec
from opdiff.read.cursor import Cursor

if TYPE_CHECKING:
    from opdiff.core.source import Source
    from opdiff.core.tensor import Shape
    from opdiff.read.reader import OpenFile

_MAGIC = b"\x93NUMPY"
# The limit of NumPy itself.
MAX_HEADER = 1 << 16
_ENTRY = r"\s*'(descr|fortran_order|shape)'\s*:\s*(?:'([^'\\]{1,64})'|(True|False)|\(([0-9,\s]*)\))\s*(?:,|(?=\}))"
_ORDERS = ("True", "False")
"""Code of the problem with arrays of objects, strings and dates."""

# By the kind character of NumPy's type strings.
_NOT_NUMERIC = {
    "O": because("read.python_objects"),
    "U": because("read.strings"),
    "S": because("read.strings"),
    "V": because("read.unnamed_type"),
    "M": because("read.dates"),
    "m": because("read.time_spans"),
}


class Header(Struct, frozen=True):
    """Header of an array: type string, memory order, shape, and offset of the data."""

    descr: str
    fortran_order: bool
    shape: Shape
    data: int

    @property
    def big_endian(self) -> bool:
        """Whether elements are stored in big-endian byte order."""
        return self.descr.startswith(">")


def read_npy(file: OpenFile) -> OpDump:
    """Describe an array file as an operator with one output."""
    header = _read_header(file)
    big_endian, fortran_order = header.big_endian, header.fortran_order
    source = file.range(header.data, file.size - header.data, big_endian=big_endian, fortran_order=fortran_order)
    return OpDump(file.path, Container.NPY, (), (array_tensor(header, file.path, source),))


def _read_header(file: OpenFile) -> Header:
    head, end = file.head, _header_end(file.head)
    if end > len(head):
        return parse_header(Cursor(file.read(12 + MAX_HEADER, 0), file.path))
    return _find_known(head[:end]) or parse_header(Cursor(head, file.path))


def _header_end(head: bytes) -> int:
    """Return the offset behind the header, as its length field says."""
    if head[6:7] == b"\x01":
        return 10 + int.from_bytes(head[8:10], "little")
    return 12 + int.from_bytes(head[8:12], "little")


# A network has few different shapes, so that most headers have been parsed before.
@lru_cache(maxsize=1024)
def _find_known(raw: bytes) -> Header | None:
    """Return a header by its bytes; `None` if it cannot be parsed."""
    try:
        return parse_header(Cursor(raw, ""))
    except DumpError:
        return None


def parse_header(cursor: Cursor) -> Header:
    """Parse the header of an array at the position of the cursor."""
    if cursor.take(min(6, cursor.remaining), "magic") != _MAGIC:
        raise cursor.error(because("read.no_npy_magic"), back=cursor.position)
    version = cursor.take(2, "version")
    wide = version[0] in (2, 3)
    if not wide and version[0] != 1:
        raise cursor.error(because("read.npy_version", major=version[0], minor=version[1]), back=2)
    length = cursor.u32("header_length") if wide else int.from_bytes(cursor.take(2, "header_length"), "little")
    if length > MAX_HEADER:
        raise cursor.error(because("read.header_too_long", nbytes=length, limit=MAX_HEADER))
    found = _parse_dict(cursor.take(length, "header"))
    if found is None:
        raise cursor.error(because("read.npy_header"), back=length)
    return Header(*found, data=cursor.position)


def _parse_dict(raw: bytes) -> tuple[str, bool, Shape] | None:
    """Parse type string, order and shape from the dictionary of a header, without evaluating it."""
    entries = _entries(raw.decode("latin-1").rstrip(" \n\0"))
    if entries is None:
        return None
    descr, order, shape = entries
    dims = [part.strip() for part in shape.split(",") if part.strip()]
    if len(dims) > MAX_RANK or not all(dim.isdecimal() and len(dim) < 20 for dim in dims):
        return None
    return descr, order == "True", tuple(map(int, dims))


def _entries(text: str) -> tuple[str, str, str] | None:
    """Return the three values of the dictionary as strings; `None` if it has other entries."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    entries: dict[str, str] = {}
    pattern = re.compile(_ENTRY)
    position = 1
    while match := pattern.match(text, position):
        entries[match[1]] = match[2] or match[3] or match[4] or ""
        position = match.end()
    if text[position:].strip() != "}" or len(entries) != 3 or entries["fortran_order"] not in _ORDERS:
        return None
    return entries["descr"], entries["fortran_order"], entries["shape"]


def array_tensor(header: Header, path: str, source: Source, name: str = "") -> Tensor:
    """Return the tensor that a header describes.

    Raises:
        DumpError: the elements are not numbers, or the data is incomplete.
    """
    dtype = dtypes.find_numpy(header.descr)
    if dtype is None:
        reasons = (reason for kind, reason in _NOT_NUMERIC.items() if kind in header.descr[:2])
        detail = next(reasons, because("read.other_type"))
        raise DumpError(path, because("read.not_numeric", Status.NO_TENSOR, descr=header.descr, detail=detail))
    needed = dtype.nbytes(prod(header.shape))
    if needed > source.nbytes:
        raise DumpError(path, because("read.array_truncated", shape=header.shape, needed=needed, nbytes=source.nbytes))
    notes = (because("read.bfloat16_assumed"),) if dtype is dtypes.BFLOAT16 else ()
    return Tensor(TensorSpec(dtype, header.shape, "ND"), source, name, notes)

"""NumPy `.npz` archives; uncompressed members are ranges of the file. See docs/formats/numpy-files.md."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.source import FileRange, Source, ZipMember
from opdiff.core.tensor import Container, OpDump, Slot, Tensor
from opdiff.read.cursor import Cursor
from opdiff.read.npy import MAX_HEADER, array_tensor, parse_header

if TYPE_CHECKING:
    import zipfile

    from opdiff.read.reader import OpenFile

_MAX_MEMBERS = 100_000
_CHUNK_NBYTES = 1 << 20
_NUMBERED = r"(input|output)_([0-9]{1,9})"


def read_npz(file: OpenFile) -> OpDump:
    """Describe an archive as an operator with one tensor for each array, named like the array."""
    # Most dumps have no archive, and then need no module for them.
    import zipfile

    try:
        with file.stream() as content, zipfile.ZipFile(content) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            _require_credible(archive, file)
            tensors = tuple(_member(archive, info, file) for info in members)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DumpError(file.path, because("read.not_zip", error=str(error))) from error
    by_slot = _by_slot(tensors)
    return OpDump(file.path, Container.NPZ, by_slot[Slot.INPUT], by_slot[Slot.OUTPUT])


def _require_credible(archive: zipfile.ZipFile, file: OpenFile) -> None:
    """Refuse too many or hidden members, equal names, and shared bytes: small archives could unpack to any size."""
    infos = archive.infolist()
    if len(infos) > _MAX_MEMBERS:
        raise DumpError(file.path, because("read.too_many_arrays", count=len(infos), limit=_MAX_MEMBERS))
    if any(info.comment for info in infos):
        # No writer adds comments: the entries of other members would be hidden in one.
        raise DumpError(file.path, because("read.member_comment"))
    names = {info.filename for info in infos}
    if len(names) < len(infos):
        raise DumpError(file.path, because("read.member_twice"))
    ends = sorted((info.header_offset, info.header_offset + info.compress_size) for info in infos)
    if any(end > start for (_, end), (start, _) in pairwise(ends)):
        raise DumpError(file.path, because("read.members_overlap"))


def _by_slot(tensors: tuple[Tensor, ...]) -> dict[Slot, tuple[Tensor, ...]]:
    """Return inputs and outputs if every array is called `input_K` or `output_K`; otherwise all are outputs."""
    matches = [re.fullmatch(_NUMBERED, tensor.name) for tensor in tensors]
    keys = [(Slot(match[1]), int(match[2])) for match in matches if match]
    if len(keys) < len(tensors):
        return {Slot.INPUT: (), Slot.OUTPUT: tensors}
    ordered = sorted(zip(keys, tensors, strict=True), key=lambda item: item[0])
    return {slot: tuple(tensor for key, tensor in ordered if key[0] is slot) for slot in Slot}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: OpenFile) -> Tensor:
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DumpError(file.path, because("read.member_compression", member=info.filename))
    is_stored = info.compress_type == ZIP_STORED
    with archive.open(info) as member:
        head = member.read(MAX_HEADER + 16)
        while is_stored and member.read(_CHUNK_NBYTES):
            """The checksum is verified at the end; later the bytes are read without the archive."""
    header = parse_header(Cursor(head, f"{file.path}:{info.filename}"))
    nbytes = max(info.file_size - header.data, 0)
    order = (header.big_endian, header.fortran_order)
    stored_at = _stored_at(file, info) if is_stored else None
    source: Source
    if stored_at is None:
        source = ZipMember(file.path, info.filename, header.data, nbytes, *order)
    else:
        source = FileRange(file.path, stored_at + header.data, nbytes, *order)
    tensor = array_tensor(header, file.path, source, info.filename.removesuffix(".npy"))
    needed = tensor.spec.dtype.nbytes(tensor.spec.count)
    if nbytes > needed:
        # No writer adds bytes, and a small archive could unpack to any size.
        raise DumpError(file.path, because("read.member_too_long", member=info.filename, needed=needed, nbytes=nbytes))
    return tensor


def _stored_at(file: OpenFile, info: zipfile.ZipInfo) -> int | None:
    """Return the offset of an uncompressed member's data; `None` if the file is too short for it."""
    # The data follows the local header of 30 bytes, the name and the extra field.
    local = file.read(30, info.header_offset)
    cursor = Cursor(local, file.path, 26, origin=info.header_offset)
    lengths = cursor.u32("name_length")
    start = info.header_offset + 30 + (lengths & 0xFFFF) + (lengths >> 16)
    return start if start + info.file_size <= file.size else None

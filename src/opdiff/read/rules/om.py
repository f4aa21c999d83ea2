"""Offline models (`.om`): the container around the description of a model. See docs/formats/om.md.

Only the header, the partition tables and the description (MODEL_DEF) are read; weights and kernels are skipped.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.filesystem import open_input, size_of
from opdiff.core.reasons import Status, because
from opdiff.read.rules.model import Description, OmHeader

if TYPE_CHECKING:
    from typing import BinaryIO

MAGIC = b"IMOD"
HEADER_NBYTES = 256
_VERSION_1 = 0x1000_0000
_MAX_PARTITIONS = 4096
_MAX_MODELS = 65_536
_MAX_DESCRIPTION = 2 << 30
_MODEL_DEF, _SUB_MODEL = 0, 24
_FLOW, _BUNDLE = 3, 5
_UNSUPPORTED_TYPES = {1: "standard", 2: "tiny", 4: "lite"}


class Partition(Struct, frozen=True):
    """A part of the file."""

    kind: int
    offset: int
    nbytes: int


def read_om(path: str) -> Description:
    """Return the messages that describe the graphs of an offline model, and its header.

    Raises:
        InputError: the file cannot be read, is damaged, encrypted, or of a kind that has no description.
    """
    try:
        with open_input(path) as file:
            return _read_content(file, path, 0, size_of(file))
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error


def _read_content(file: BinaryIO, path: str, start: int, end: int, *, is_inner: bool = False) -> Description:
    """Read the model whose header begins at `start`; a bundle holds several, each with a header of its own."""
    header = read_header(file, path, start, end)
    if is_inner and header.model_type == _BUNDLE:
        raise InputError(path, because("rules.nested_bundle"))
    partitions = _read_table(file, path, start + HEADER_NBYTES, end, large=header.has_large_tables)
    if header.model_type == _BUNDLE:
        return _read_bundle(file, path, header, [part for part in partitions if part.kind == _SUB_MODEL])
    described = next((part for part in partitions if part.kind == _MODEL_DEF), None)
    if described is None:
        kinds = ", ".join(str(part.kind) for part in partitions) or "none"
        raise InputError(path, because("rules.no_description", kinds=kinds))
    notes = (because("read.flow_model"),) if header.model_type == _FLOW else ()
    return Description((_read_message(file, path, described),), header, notes)


def _read_bundle(file: BinaryIO, path: str, header: OmHeader, parts: list[Partition]) -> Description:
    if not parts:
        raise InputError(path, because("rules.empty_bundle"))
    contents = [_read_content(file, path, part.offset, part.offset + part.nbytes, is_inner=True) for part in parts]
    messages = tuple(message for content in contents for message in content.messages)
    return Description(messages, header, (because("read.bundle", count=len(parts)),))


def _read_message(file: BinaryIO, path: str, part: Partition) -> bytes:
    if part.nbytes > _MAX_DESCRIPTION:
        raise InputError(path, because("rules.description_size", nbytes=part.nbytes))
    file.seek(part.offset)
    data = file.read(part.nbytes)
    if len(data) < part.nbytes:
        raise InputError(path, because("rules.description_ends", nbytes=len(data), needed=part.nbytes))
    return data


def read_header(file: BinaryIO, path: str, start: int, end: int) -> OmHeader:
    """Return the header at `start`, checked against the bytes that are there.

    Raises:
        InputError: it is damaged, encrypted, or that of another kind of model.
    """
    file.seek(start)
    data = file.read(HEADER_NBYTES)
    if len(data) < HEADER_NBYTES or data[:4] != MAGIC:
        raise InputError(path, because("rules.not_om"))
    _, size, version = struct.unpack_from("<4sII", data)
    if size != HEADER_NBYTES or version not in (_VERSION_1, 2 * _VERSION_1):
        raise InputError(path, because("rules.unknown_om", nbytes=size, version=version))
    if data[80]:
        raise InputError(path, because("rules.encrypted_om"))
    model_type = data[82]
    if model_type in _UNSUPPORTED_TYPES:
        raise InputError(path, because("rules.om_without_graph", type=_UNSUPPORTED_TYPES[model_type]))
    (length,), (long_length,) = struct.unpack_from("<I", data, 76), struct.unpack_from("<Q", data, 184)
    nbytes = long_length or length
    _check_length(path, nbytes, end - start, model_type)
    is_first = version == _VERSION_1
    models = 1 if is_first else struct.unpack_from("<I", data, 156)[0]
    if models > _MAX_MODELS:
        raise InputError(path, because("rules.too_many_models", count=models))
    platform = data[156:176] if is_first else data[160:180]
    written_by = platform.split(b"\0")[0].decode("ascii", errors="replace")
    is_large = bool(long_length) or model_type == _FLOW
    return OmHeader(1 if is_first else 2, nbytes, is_large, model_type, models, written_by, bool(data[193]))


def _check_length(path: str, nbytes: int, there: int, model_type: int) -> None:
    # The length that a bundle states counts its header, too.
    wanted = nbytes if model_type == _BUNDLE else nbytes + HEADER_NBYTES
    if wanted != there:
        code = "rules.om_cut_off" if there < wanted else "rules.om_too_long"
        raise InputError(path, because(code, stated=wanted, nbytes=there))


def _read_table(file: BinaryIO, path: str, start: int, end: int, *, large: bool) -> tuple[Partition, ...]:
    """Return the partitions; they follow each other, so that sizes alone decide where they are."""
    head, entry = ("<I4x", "<I4xQQ") if large else ("<I", "<III")
    (count,) = struct.unpack(head, _exactly(file, path, start, struct.calcsize(head), end))
    if count > _MAX_PARTITIONS:
        raise InputError(path, because("rules.too_many_partitions", count=count))
    first_entry = start + struct.calcsize(head)
    entries = _exactly(file, path, first_entry, count * struct.calcsize(entry), end)
    position = base = first_entry + len(entries)
    found = []
    for kind, offset, nbytes in struct.iter_unpack(entry, entries):
        if base + offset != position or nbytes > end - position:
            raise InputError(path, because("rules.partition_outside", kind=kind))
        found.append(Partition(kind, position, nbytes))
        position += nbytes
    return tuple(found)


def _exactly(file: BinaryIO, path: str, start: int, nbytes: int, end: int) -> bytes:
    if start + nbytes > end:
        raise InputError(path, because("rules.partition_table_outside", nbytes=nbytes, start=start, end=end))
    file.seek(start)
    data = file.read(nbytes)
    if len(data) < nbytes:
        raise InputError(path, because("rules.partition_table_cut"))
    return data

"""Offline models (`.om`): the container around the description of a model. See docs/formats/om.md.

Only the header, the partition tables and the description (MODEL_DEF) are read; weights and kernels are passed over.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import InputError
from opdiff.read.rules.model import Model
from opdiff.read.rules.model_message import MessageError, parse_model

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


class OmHeader(NamedTuple):
    """Header of an offline model.

    Attributes:
        version: 1 or 2.
        nbytes: bytes behind the header.
        has_large_tables: whether partition tables have 64-bit sizes.
        model_type: 0 for an ordinary model, 3 for a flow, 5 for a bundle.
        models: number of models in the file.
        platform: version of the platform that wrote it.
        is_dynamic: whether shapes are unknown.
    """

    version: int
    nbytes: int
    has_large_tables: bool
    model_type: int
    models: int
    platform: str
    is_dynamic: bool


class Partition(NamedTuple):
    """A part of the file."""

    kind: int
    offset: int
    nbytes: int


def read_om(path: str) -> Model:
    """Return the model that an offline model describes.

    Raises:
        InputError: the file cannot be read, is damaged, encrypted, or of a kind that has no description.
    """
    try:
        with open(path, "rb") as file:
            return _read_model(file, path, 0, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error


def _read_model(file: BinaryIO, path: str, start: int, end: int) -> Model:
    """Read the model whose header begins at `start`; a bundle holds several, each with a header of its own."""
    header = read_header(file, path, start, end)
    partitions = _read_table(file, path, start + HEADER_NBYTES, end, large=header.has_large_tables)
    if header.model_type == _BUNDLE:
        return _join([
            _read_model(file, path, part.offset, part.offset + part.nbytes)
            for part in partitions
            if part.kind == _SUB_MODEL
        ], path)  # fmt: skip
    described = next((part for part in partitions if part.kind == _MODEL_DEF), None)
    if described is None:
        kinds = ", ".join(str(part.kind) for part in partitions) or "none"
        raise InputError(
            path, f"there is no description of a model in it (partitions: {kinds}); give the .om it was made from"
        )
    model = _parse(file, path, described)
    if header.model_type == _FLOW:
        return model._replace(notes=("a flow of models: only its root graph was read",))
    return model


def _parse(file: BinaryIO, path: str, part: Partition) -> Model:
    if part.nbytes > _MAX_DESCRIPTION:
        raise InputError(path, f"a description of {part.nbytes} bytes is not credible")
    file.seek(part.offset)
    data = file.read(part.nbytes)
    if len(data) < part.nbytes:
        raise InputError(path, f"the description ends after {len(data)} of {part.nbytes} bytes")
    try:
        return parse_model(data)
    except MessageError as error:
        raise InputError(path, str(error)) from error


def _join(models: list[Model], path: str) -> Model:
    if not models:
        raise InputError(path, "a bundle without models")
    graphs = tuple(graph for model in models for graph in model.graphs)
    return Model(models[0].name, graphs, models[0].attributes, (f"a bundle of {len(models)} models",))


def read_header(file: BinaryIO, path: str, start: int, end: int) -> OmHeader:
    """Return the header at `start`, checked against the bytes that are there.

    Raises:
        InputError: it is damaged, encrypted, or that of another kind of model.
    """
    file.seek(start)
    data = file.read(HEADER_NBYTES)
    if len(data) < HEADER_NBYTES or data[:4] != MAGIC:
        raise InputError(path, "not an offline model: the header is incomplete or has another signature")
    _, size, version = struct.unpack_from("<4sII", data)
    if size != HEADER_NBYTES or version not in (_VERSION_1, 2 * _VERSION_1):
        raise InputError(path, f"header of {size} bytes, version {version:#x}: this kind of offline model is not known")
    if data[80]:
        raise InputError(path, "the offline model is encrypted; use the JSON that ATC made of the model before")
    model_type = data[82]
    if model_type in _UNSUPPORTED_TYPES:
        raise InputError(
            path, f"an offline model of the type {_UNSUPPORTED_TYPES[model_type]} has no graph that can be read"
        )
    (length,), (long_length,) = struct.unpack_from("<I", data, 76), struct.unpack_from("<Q", data, 184)
    nbytes = long_length or length
    _check_length(path, nbytes, end - start, model_type)
    is_first = version == _VERSION_1
    models = 1 if is_first else struct.unpack_from("<I", data, 156)[0]
    if models > _MAX_MODELS:
        raise InputError(path, f"{models} models in one file are not credible")
    platform = data[156:176] if is_first else data[160:180]
    is_large = bool(long_length) or model_type == _FLOW
    return OmHeader(1 if is_first else 2, nbytes, is_large, model_type, models, _zero_ended(platform), bool(data[193]))


def _check_length(path: str, nbytes: int, there: int, model_type: int) -> None:
    # The length that a bundle states counts its header, too.
    wanted = nbytes if model_type == _BUNDLE else nbytes + HEADER_NBYTES
    if wanted != there:
        kind = "is cut off" if there < wanted else "has bytes behind its end"
        raise InputError(path, f"the offline model {kind}: {wanted} bytes by its header, {there} in the file")


def _zero_ended(data: bytes) -> str:
    return data.split(b"\0")[0].decode("ascii", errors="replace")


def _read_table(file: BinaryIO, path: str, start: int, end: int, *, large: bool) -> tuple[Partition, ...]:
    """Return the partitions; they follow each other, so that sizes alone decide where they are."""
    head, entry = ("<I4x", "<I4xQQ") if large else ("<I", "<III")
    (count,) = struct.unpack(head, _exactly(file, path, start, struct.calcsize(head), end))
    if count > _MAX_PARTITIONS:
        raise InputError(path, f"{count} partitions are not credible")
    first_entry = start + struct.calcsize(head)
    entries = _exactly(file, path, first_entry, count * struct.calcsize(entry), end)
    position = base = first_entry + len(entries)
    found = []
    for kind, offset, nbytes in struct.iter_unpack(entry, entries):
        if base + offset != position or nbytes > end - position:
            raise InputError(path, f"partition {kind} does not lie where the table says, or ends behind the file")
        found.append(Partition(kind, position, nbytes))
        position += nbytes
    return tuple(found)


def _exactly(file: BinaryIO, path: str, start: int, nbytes: int, end: int) -> bytes:
    if start + nbytes > end:
        raise InputError(path, f"the partition table needs {nbytes} bytes at byte {start}, the file ends at {end}")
    file.seek(start)
    data = file.read(nbytes)
    if len(data) < nbytes:
        raise InputError(path, "the partition table is cut off")
    return data

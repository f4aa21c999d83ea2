"""The saved form of a comparison: all data that reports need, without tensors.

One JSON object with `schema`, `version`, `files` and the fields of `Comparison`. `files` names the other files of the
same run; this one is written last, so that a run without it is incomplete. A reason is an object of `code`, `facts`,
`status` unless that is `other`, and the English sentence as `text`. NaN and infinities are written as in Python: `NaN`,
`Infinity`, `-Infinity`.

`graphs` and `rows` are the large parts, and packed by `columns` in base64: `rows` has a string for some thousand rows
with their verdicts, each on a line. `pictures` are packed as MessagePack, deflated, in base64.

`checksum` is the CRC-32 of the bytes before it; what follows has checksums of zlib.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from binascii import b2a_base64
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.atomic_file import copy_bytes, open_atomic
from opdiff.core.comparison import STORED_AS_ARRAYS, Comparison, ModelGraph, Row
from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input, regular_file
from opdiff.core.judgement import DocumentedResult, Verdict
from opdiff.core.pictures import TensorPicture
from opdiff.core.reasons import MAX_NESTING, Reason, Status, because, nesting, reasons_in, render
from opdiff.core.row_store import RowStore
from opdiff.report.packed_columns import inflate, pack_columns, saved_reason, unpack_columns
from opdiff.report.parts import PartWriter, RowPart, write_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any

    from opdiff.core.reasons import Fact
    from opdiff.core.row_store import MapJobs

_T = TypeVar("_T")

SCHEMA, VERSION = "opdiff.comparison", 3
# Strings cannot contain it, because their quotation marks are escaped.
_CHECKSUM = re.compile(rb', "checksum": (\d{1,10}), "rows": \[')
_MAX_HEAD_BYTES = 400
_MAX_FILES_NBYTES = 1 << 22
_MAX_NBYTES = 4 << 30


class _Packed(Struct):
    """Fields that are packed."""

    graphs: bytes
    rows: tuple[bytes, ...]
    pictures: bytes = b""


def save(
    comparison: Comparison, path: str, files: Sequence[str] = (), map_jobs: MapJobs = map, packed_rows: str = ""
) -> None:
    """Write a comparison to a file.

    Args:
        comparison: the comparison.
        path: the file.
        files: names of the other files of its run.
        map_jobs: a `map` that may use other processes.
        packed_rows: file to which the rows were added already, by `rows_writer`; empty for none.
    """
    fields = {name: getattr(comparison, name) for name in Comparison.__struct_fields__ if name != "rows"}
    fields["judgement"] = replace(comparison.judgement, verdicts=(), documented=())
    fields["graphs"] = _base64(graphs=comparison.graphs)
    fields["pictures"] = b2a_base64(pack_pictures(comparison.pictures), newline=False).decode()
    head = {"schema": SCHEMA, "version": VERSION, "files": files} | fields
    encode = json.JSONEncoder(default=_to_json, check_circular=False).encode
    with open_atomic(path) as file:
        text = encode(head)[:-1].encode()
        file.write(b'%b, "checksum": %d, "rows": [' % (text, zlib.crc32(text)))
        if packed_rows:
            with open(packed_rows, "rb") as rows:
                copy_bytes(rows, file)
        elif comparison.rows:
            write_parts(comparison, [rows_writer(file)], map_jobs)
        file.write(b"\n]}\n")


def rows_writer(file: IO[bytes]) -> PartWriter:
    """Return the writer of the rows of a saved comparison."""
    separators = chain((b'\n"',), repeat(b',\n"'))
    return PartWriter(encode_part, lambda block: file.writelines((next(separators), block, b'"')))


def encode_part(parts: Sequence[RowPart]) -> bytes:
    """Return some rows as base64."""
    part = RowPart.joined(parts)
    return _base64(rows=part.rows, verdicts=part.verdicts, documented=part.results).encode()


def _base64(**tables: Sequence[object]) -> str:
    return b2a_base64(pack_columns(tables), newline=False).decode()


def load(path: str) -> Comparison:
    """Read a comparison in the current version of the saved form.

    Raises:
        InputError: the file is not a saved comparison, or one of another version.
        OSError: the file cannot be read.
    """
    document = read_document(path, SCHEMA, VERSION)
    try:
        comparison = _comparison(document)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(path, because("report.not_saved", problem=str(error))) from error
    verdicts, rows = len(comparison.judgement.verdicts), len(comparison.rows)
    if verdicts not in (0, rows):
        raise InputError(path, because("report.saved_verdicts", verdicts=verdicts, rows=rows))
    return comparison


def _comparison(document: dict[str, Any]) -> Comparison:
    packed = msgspec.convert(document, _Packed)
    head = msgspec.convert(document | {"graphs": (), "rows": (), "pictures": ()}, Comparison)
    graphs = _values(unpack_columns(packed.graphs), "graphs", tuple[ModelGraph, ...])
    rows = RowStore()
    verdicts: list[Verdict] = []
    documented: list[DocumentedResult] = []
    # One by one, because unpacked blocks take more memory than the rows that are made of them.
    for block in packed.rows:
        tables = unpack_columns(block, STORED_AS_ARRAYS)
        rows.add([_with_own_input(row) for row in _values(tables, "rows", list[Row])])
        verdicts += _values(tables, "verdicts", list[Verdict])
        documented += _values(tables, "documented", list[DocumentedResult])
    if "differences" not in document:
        # Earlier versions saved them in a note only.
        found = (each for note in head.notes for each in reasons_in(note) if each.code == "compare.environment_differs")
        head = replace(head, differences=tuple(found))
    judgement = replace(head.judgement, verdicts=tuple(verdicts), documented=tuple(documented))
    pictures = _unpack_pictures(packed.pictures) if packed.pictures else ()
    return replace(head, graphs=graphs, rows=rows.finish(), judgement=judgement, pictures=pictures)


def _with_own_input(row: Row) -> Row:
    """Return a row with the field `is_own_input`, which earlier versions did not save."""
    is_own_input = row.evidence is not None and row.evidence.code == "pair.inserted"
    return replace(row, is_own_input=True) if is_own_input else row


def pack_pictures(pictures: Sequence[TensorPicture]) -> bytes:
    """Return pictures as bytes; none for no pictures."""
    return zlib.compress(msgspec.msgpack.encode(pictures)) if pictures else b""


def _unpack_pictures(packed: bytes) -> tuple[TensorPicture, ...]:
    try:
        return msgspec.msgpack.decode(inflate(packed, "pictures"), type=tuple[TensorPicture, ...])
    except (msgspec.DecodeError, zlib.error) as error:
        raise ValueError(f"its pictures are damaged: {error}") from error


def _values(tables: dict[str, list[Any]], name: str, kind: type[_T]) -> _T:
    return msgspec.convert(tables.get(name, ()), kind, from_attributes=True)


def read_document(path: str, schema: str, version: int) -> dict[str, Any]:
    """Read a JSON file of this schema and version.

    Raises:
        InputError: the file has another schema or version, is not JSON, or was changed.
        OSError: the file cannot be read.
    """
    _require_end(path)
    data = read_input(path, _MAX_NBYTES)
    checksum = _CHECKSUM.search(data)
    if checksum is not None and int(checksum[1]) != zlib.crc32(memoryview(data)[: checksum.start()]):
        raise InputError(path, because("report.saved_changed"))
    try:
        document = json.loads(data, object_hook=_reason_from_json)
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("report.not_saved", problem=str(error))) from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise InputError(path, because("report.saved_schema", schema=schema))
    if document.get("version") != version:
        raise InputError(path, because("report.saved_version", version=repr(document.get("version")), known=VERSION))
    return document


def _require_end(path: str) -> None:
    """Refuse a file that does not end like an object before all of it is read: it is cut, or no saved comparison."""
    with open(path, "rb", opener=regular_file) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _MAX_HEAD_BYTES, 0))
        if not file.read(_MAX_HEAD_BYTES).rstrip().endswith(b"}"):
            raise InputError(path, because("report.saved_cut"))


def head_of(path: str) -> tuple[str, int]:
    """Return schema and version at the beginning of a saved file; `("", 0)` for other files.

    Raises:
        OSError: the file cannot be read.
    """
    pattern = rb'\s*\{\s*"schema"\s*:\s*"([\w.]{1,100})"\s*,\s*"version"\s*:\s*(\d{1,9})'
    with open(path, "rb", opener=regular_file) as file:
        match = re.match(pattern, file.read(_MAX_HEAD_BYTES))
    return (match[1].decode(), int(match[2])) if match else ("", 0)


def files_of(path: str) -> tuple[str, ...] | None:
    """Return the names of the other files of a run; `None` if an older version saved it.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", opener=regular_file) as file:
        match = re.search(rb'"files": (\[[^\]]*\]), "mode"', file.read(_MAX_FILES_NBYTES))
    try:
        return None if match is None else tuple(map(str, json.loads(match[1])))
    except ValueError:
        return None


def _to_json(value: object) -> dict[str, object]:
    if isinstance(value, Reason):
        status = {"status": value.status} if value.status is not Status.OTHER else {}
        return {"code": value.code, "facts": dict(value.facts), **status, "text": render(value)}
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    raise TypeError(f"{type(value).__name__} cannot be saved")


def _reason_from_json(value: dict[str, Any]) -> object:
    """Return a reason for an object with the fields of one; other objects unchanged."""
    code, facts = value.get("code"), value.get("facts")
    if not isinstance(code, str) or not isinstance(facts, dict):
        return value
    reason = saved_reason(code, tuple((name, _fact(fact)) for name, fact in facts.items()), value.get("status"))
    if nesting(reason) > MAX_NESTING:
        raise ValueError(f"its reasons have more than {MAX_NESTING} levels")
    return reason


def _fact(value: Any) -> Fact:  # noqa: ANN401  values of facts are checked when they are rendered
    if isinstance(value, list):
        return tuple(map(_fact, value))
    return str(value) if isinstance(value, dict) else value

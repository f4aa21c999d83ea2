"""The saved form of a comparison: all data that reports need, without tensors.

One JSON object with `schema`, `version`, `files` and the fields of `Comparison`. `files` names the other files of the
same run; this one is written last, so that a run without it is incomplete. Values are arrays, in the order of their
fields; `row_fields` has the field names of rows, and each row is a line. A reason is an object of `code`, `facts` and
the English sentence as `text`. NaN and infinities are written as in Python: `NaN`, `Infinity`, `-Infinity`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import msgspec

from opdiff.core.atomic_file import open_atomic
from opdiff.core.comparison import Comparison, Row
from opdiff.core.errors import InputError
from opdiff.core.input_file import read_input, regular_file
from opdiff.core.reasons import Reason, render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.reasons import Fact

SCHEMA, VERSION = "opdiff.comparison", 2
_MAX_HEAD_BYTES = 400
_MAX_FILES_NBYTES = 1 << 22
_MAX_NBYTES = 4 << 30


def save(comparison: Comparison, path: str, files: Sequence[str] = ()) -> None:
    """Write a comparison to a file; `files` has the names of the other files of its run."""
    head: dict[str, object] = {"schema": SCHEMA, "version": VERSION, "files": files, "row_fields": Row._fields}
    head |= {name: getattr(comparison, name) for name in Comparison.__struct_fields__ if name != "rows"}
    encode = json.JSONEncoder(default=_reason_to_json, check_circular=False).encode
    with open_atomic(path) as file:
        file.write(f'{encode(head)[:-1]}, "rows": ['.encode())
        for number, row in enumerate(comparison.rows):
            file.write(f"{',' if number else ''}\n{encode(row)}".encode())
        file.write(b"\n]}\n")


def load(path: str) -> Comparison:
    """Read a comparison in the current version of the saved form.

    Raises:
        InputError: the file is not a saved comparison, or one of another version.
        OSError: the file cannot be read.
    """
    document = read_document(path, SCHEMA, VERSION)
    try:
        comparison = msgspec.convert(document, Comparison)
    except msgspec.ValidationError as error:
        raise InputError(path, f"is not a saved comparison: {error}") from error
    verdicts, rows = len(comparison.judgement.verdicts), len(comparison.rows)
    if verdicts not in (0, rows):
        raise InputError(path, f"is not a saved comparison: it has {verdicts} verdicts for {rows} rows")
    return comparison


def read_document(path: str, schema: str, version: int) -> dict[str, Any]:
    """Read a JSON file of this schema and version.

    Raises:
        InputError: the file has another schema or version, or is not JSON.
        OSError: the file cannot be read.
    """
    _require_end(path)
    data = read_input(path, _MAX_NBYTES)
    try:
        document = json.loads(data, object_hook=_reason_from_json)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not a saved comparison: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise InputError(path, f"is not a saved comparison: its schema is not {schema!r}")
    if document.get("version") != version:
        known = f"it is of version {document.get('version')!r}, and only versions 1 and {VERSION} are known"
        raise InputError(path, f"is not a saved comparison: {known}")
    return document


def _require_end(path: str) -> None:
    """Refuse a file that does not end like an object before all of it is read: it is cut, or no saved comparison."""
    with open(path, "rb", opener=regular_file) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _MAX_HEAD_BYTES, 0))
        if not file.read(_MAX_HEAD_BYTES).rstrip().endswith(b"}"):
            raise InputError(path, "is not a saved comparison: its end is missing")


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
        match = re.search(rb'"files": (\[[^\]]*\]), "row_fields"', file.read(_MAX_FILES_NBYTES))
    try:
        return None if match is None else tuple(map(str, json.loads(match[1])))
    except ValueError:
        return None


def _reason_to_json(value: object) -> dict[str, object]:
    if not isinstance(value, Reason):
        raise TypeError(f"{type(value).__name__} cannot be saved")
    return {"code": value.code, "facts": dict(value.facts), "text": render(value)}


def _reason_from_json(value: dict[str, Any]) -> object:
    """Return a reason for an object with the fields of one; other objects unchanged."""
    code, facts = value.get("code"), value.get("facts")
    if not isinstance(code, str) or not isinstance(facts, dict):
        return value
    return Reason(code, tuple((name, _fact(fact)) for name, fact in facts.items()))


def _fact(value: Any) -> Fact:  # noqa: ANN401  values of facts are checked when they are rendered
    if isinstance(value, list):
        return tuple(map(_fact, value))
    return str(value) if isinstance(value, dict) else value

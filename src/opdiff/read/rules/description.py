"""Files that describe a compiled model: which kind a file is, and the messages in it.

| begins with | kind |
|---|---|
| `IMOD` | offline model |
| `PK` | offline model of the second kind, a zip archive |
| `{` | JSON of ATC or AMCT |
| `graph`, `op`, `name`, `attr` | graph text |
| `ir_version` | graph text in the form of ONNX |
| byte 10 | bare message of a model |
"""

from __future__ import annotations

import re
from enum import StrEnum

from opdiff.core.errors import InputError
from opdiff.core.filesystem import open_input, read_input
from opdiff.core.reasons import Status, because
from opdiff.read.rules import om
from opdiff.read.rules.model import Description
from opdiff.read.strangers import find_stranger

_SNIFFED_NBYTES = 4096
_MAX_MESSAGE_NBYTES = 2 << 30
_ZIP_SIGNATURE = b"PK\x03\x04"
_FIRST_FIELD = rb"(?:\s|#[^\n]*\n)*([a-z_]+)\s*[:{<]"
# JSON may be UTF-16 or UTF-32.
_JSON = rb"(?:\xef\xbb\xbf|\0\0\xfe\xff|\xff\xfe|\xfe\xff)?[\s\0]*(?:[{\[]|\Z)"
# A message begins with a name; its length may look like a bracket.
_MESSAGE = rb"\n[{\[][^\s\0\"{}\[\]]"
_TEXT_FIELDS = frozenset({b"graph", b"name", b"op", b"attr"})


class ModelKind(StrEnum):
    """Kinds of files that describe a compiled model."""

    OM = "offline model"
    OM2 = "offline model (zip)"
    JSON = "JSON of ATC or AMCT"
    TEXT = "graph text"
    ONNX_TEXT = "graph text (ONNX)"
    MESSAGE = "model message"


def find_kind(path: str) -> ModelKind | None:
    """Return the kind of a file by its first bytes; `None` if it is none of them.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with open_input(path) as file:
            start = file.read(_SNIFFED_NBYTES)
    except IsADirectoryError as error:
        raise InputError(path, because("rules.directory")) from error
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    return _kind_of(start)


def require_kind(path: str) -> ModelKind:
    """Return the kind of a file by its first bytes.

    Raises:
        InputError: the file cannot be read, or is none of the kinds.
    """
    kind = find_kind(path)
    if kind is None:
        stranger = find_stranger(path)
        seems = stranger and because("rules.stranger", seems=stranger.seems)
        raise InputError(path, seems or because("rules.unknown_kind"))
    return kind


def _kind_of(start: bytes) -> ModelKind | None:
    if start.startswith(om.MAGIC):
        return ModelKind.OM
    if start.startswith(_ZIP_SIGNATURE):
        return ModelKind.OM2
    if re.match(_JSON, start) and not re.match(_MESSAGE, start):
        return ModelKind.JSON
    field = re.match(_FIRST_FIELD, start)
    if field and field[1] in _TEXT_FIELDS:
        return ModelKind.TEXT
    if field and field[1] == b"ir_version":
        return ModelKind.ONNX_TEXT
    return ModelKind.MESSAGE if start[:1] == b"\n" else None


def read_description(path: str, kind: ModelKind) -> Description:
    """Return the messages of a file that is not JSON.

    Raises:
        InputError: the file cannot be read, or has no description of a model.
    """
    if kind is ModelKind.OM:
        return om.read_om(path)
    if kind is ModelKind.OM2:
        from opdiff.read.rules.om2 import read_om2

        return Description((read_om2(path),))
    if kind is ModelKind.MESSAGE:
        return Description((_read_message(path),))
    from opdiff.read.rules.model_text import read_model_text, read_onnx_text

    return Description((read_model_text(path) if kind is ModelKind.TEXT else read_onnx_text(path),))


def _read_message(path: str) -> bytes:
    try:
        return read_input(path, _MAX_MESSAGE_NBYTES)
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error

"""Values as JSON: named tuples are objects, other tuples lists. JSON has no NaN and no infinity: they are words."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from opdiff.core.reasons import Reason
from opdiff.report.reason_json import reason_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def json_text(value: object) -> bytes:
    """A value that is made of named tuples, tuples, lists, dictionaries by text, texts, numbers, `bool` and `None`.

    Raises:
        TypeError: there is something else in it.
    """
    return json.dumps(_plain(value), allow_nan=False).encode()


def json_document(head: Mapping[str, object], rows: Iterable[object]) -> Iterator[bytes]:
    """An object with these fields, and then `rows`, a line each; in pieces, of which there are many."""
    yield json_text(head)[:-1] + b', "rows": ['
    before = b"\n"
    for row in rows:
        yield before + json_text(row)
        before = b",\n"
    yield b"\n]}\n"


def _plain(value: object) -> object:
    """The same without named tuples and without numbers that JSON does not have."""
    if isinstance(value, Reason):
        return reason_to_json(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("the keys of an object are texts")
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        fields: tuple[str, ...] | None = getattr(value, "_fields", None)
        items = [_plain(item) for item in value]
        return items if fields is None else dict(zip(fields, items, strict=True))
    return value

"""All plain attributes of the operators of a compiled model, from a rule file of any kind."""

from __future__ import annotations

import json
from math import nan
from typing import TYPE_CHECKING, Any

from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import Status, because
from opdiff.read.rules.atc_document import to_document
from opdiff.read.rules.description import ModelKind, read_description, require_kind
from opdiff.read.rules.message_fields import MessageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Parameter = str | int | float | bool | tuple[Any, ...]

_MAX_NBYTES = 2 << 30
_LISTS = ("i", "f", "b", "s")


def read_parameters(path: str) -> dict[str, Mapping[str, Parameter]]:
    """Return the attributes of each operator by its name; of equal names the first operator counts.

    Raises:
        InputError: the file cannot be read, or does not describe a model.
    """
    document = _read_document(path)
    try:
        return _parameters(document)
    except (AttributeError, TypeError) as error:
        raise InputError(path, because("rules.not_atc_json", error=str(error))) from error


def _parameters(document: Any) -> dict[str, Mapping[str, Parameter]]:  # noqa: ANN401  JSON
    found: dict[str, Mapping[str, Parameter]] = {}
    for graph in document.get("graph", ()):
        for operator in graph.get("op", ()):
            found.setdefault(str(operator.get("name", "")), _attributes(operator.get("attr", ())))
    return found


def _read_document(path: str) -> Any:  # noqa: ANN401  JSON
    kind = require_kind(path)
    try:
        if kind is ModelKind.JSON:
            return json.loads(read_input(path, _MAX_NBYTES))
        return to_document(read_description(path, kind).messages)
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("rules.not_json", error=str(error))) from error
    except MessageError as error:
        raise InputError(path, error.reason) from error


def _attributes(entries: Any) -> dict[str, Parameter]:  # noqa: ANN401  JSON
    found: dict[str, Parameter] = {}
    for entry in entries:
        value = _value(entry.get("value") or {})
        if value is not None:
            found.setdefault(str(entry.get("key", "")), value)
    return found


def _value(value: dict[str, Any]) -> Parameter | None:
    """Return a string, number, truth value, or tuple of them; `None` for other kinds."""
    for key in ("i", "b", "s", "dt"):
        if key in value:
            found: Parameter = value[key]
            return found
    if "f" in value:
        return _number(value["f"])
    if "list" in value:
        items = value["list"] or {}
        key = next((key for key in _LISTS if items.get(key)), "")
        return tuple(map(_number, items[key])) if key == "f" else tuple(items.get(key, ()))
    if "list_list_int" in value:
        rows = value["list_list_int"].get("list_list_i", ())
        return tuple(tuple((row or {}).get("list_i", ())) for row in rows)
    return None


def _number(value: float | str) -> float:
    """Return a float, which ATC writes as a string."""
    try:
        return float(value)
    except ValueError:
        return nan

"""Rules of a compiled model as the JSON that ATC would write: `opdiff rules`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.rules.atc_document import listed, to_document
from opdiff.read.rules.description import ModelKind, read_description, require_kind
from opdiff.read.rules.message_fields import MessageError

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason

_INDENT = 2


class ModelRules(Struct, frozen=True):
    """The rules of a model as JSON, the numbers of its graphs and operators, and notes about its file."""

    content: bytes
    graphs: int
    operators: int
    notes: tuple[Reason, ...] = ()


def make_rules(path: str) -> ModelRules:
    """Return the rules of a model as ATC would write them.

    Raises:
        InputError: the file cannot be read, does not describe a model, or is such JSON already.
    """
    kind = require_kind(path)
    if kind is ModelKind.JSON:
        raise InputError(path, because("workflows.json_already"))
    description = read_description(path, kind)
    try:
        document = to_document(description.messages)
    except MessageError as error:
        raise InputError(path, error.reason) from error
    graphs = listed(document, "graph")
    operators = sum(len(listed(graph, "op")) for graph in graphs)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, indent=_INDENT)
    return ModelRules(f"{text}\n".encode(), len(graphs), operators, description.notes)


def write_rules(rules: ModelRules, path: str) -> None:
    """Write the rules; the file appears whole or not at all."""
    with open_atomic(path) as file:
        file.write(rules.content)

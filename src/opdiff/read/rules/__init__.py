"""Readers of rule files and graph texts.

A rule file is anything that describes a compiled model: an offline model, the JSON that ATC or AMCT makes of it, or a
graph text. The first bytes decide.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.rules.atc_json import read_atc_json
from opdiff.read.rules.model import Model, to_rules
from opdiff.read.strangers import find_stranger

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile
    from opdiff.read.rules.description import ModelKind
    from opdiff.read.rules.model import Description


def read_rules(path: str) -> RuleFile:
    """Read a rule file of any kind.

    Raises:
        InputError: the file cannot be read, or is no rule file.
    """
    return to_rules(read_model(path)[0], path)


def read_model(path: str) -> tuple[Model, ModelKind]:
    """Return the model that a file of any kind describes, and the kind of the file.

    Raises:
        InputError: the file cannot be read, or does not describe a model.
    """
    from opdiff.read.rules.description import ModelKind, read_description, require_kind

    kind = require_kind(path)
    try:
        if kind is ModelKind.JSON:
            return read_atc_json(path), kind
        return _parse(path, read_description(path, kind)), kind
    except InputError as error:
        stranger = find_stranger(path)
        if stranger is None:
            raise
        raise InputError(path, because("rules.stranger", seems=stranger.seems)) from error


def _parse(path: str, description: Description) -> Model:
    from opdiff.read.rules.message_fields import MessageError
    from opdiff.read.rules.model_message import parse_model

    try:
        models = [parse_model(message) for message in description.messages]
    except MessageError as error:
        raise InputError(path, error.reason) from error
    graphs = tuple(graph for model in models for graph in model.graphs)
    return Model(models[0].name, graphs, models[0].attributes, description.header, description.notes)


def read_rule_directory(path: str) -> tuple[tuple[RuleFile, ...], tuple[InputError, ...]]:
    """Read every `*.json` directly in a directory, by name; the errors are those of files that are not rule files.

    Raises:
        InputError: the directory cannot be listed or has no such file, or none of them is a rule file.
    """
    try:
        names = [item.name for item in filesystem.list_folder(path) if item.name.endswith(".json")]
    except OSError as error:
        raise InputError(path, because("core.cannot_list", error=error.strerror)) from error
    if not names:
        raise InputError(path, because("rules.none_in_directory"))
    rules: list[RuleFile] = []
    errors: list[InputError] = []
    for name in names:
        try:
            rules.append(read_rules(os.path.join(path, name)))
        except InputError as error:
            errors.append(error)
    if not rules:
        raise errors[0]
    return tuple(rules), tuple(errors)

"""Readers of rule files and graph texts.

A rule file is the JSON that ATC or AMCT makes of a model, or the offline model (`.om`) itself; the first bytes decide.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.read.rules.atc_json import read_atc_json
from opdiff.read.rules.model import to_rules
from opdiff.read.rules.om import MAGIC, read_om

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile


def read_rules(path: str) -> RuleFile:
    """Read a rule file of any kind.

    Raises:
        InputError: the file cannot be read, or is no rule file.
    """
    return to_rules(read_om(path), path) if _is_offline_model(path) else read_atc_json(path)


def _is_offline_model(path: str) -> bool:
    # A pipe cannot be looked into without taking bytes from it.
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error


def read_rule_directory(path: str) -> tuple[tuple[RuleFile, ...], tuple[InputError, ...]]:
    """Read every `*.json` directly in a directory, by name; the errors are those of files that are not rule files.

    Raises:
        InputError: the directory cannot be listed or has no such file, or none of them is a rule file.
    """
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".json"))
    except OSError as error:
        raise InputError(path, f"cannot be listed: {error.strerror}") from error
    if not names:
        raise InputError(path, "holds no .json rule file")
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

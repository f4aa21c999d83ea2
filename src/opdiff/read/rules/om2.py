"""Offline models of the second kind (OM2): zip archives with the graphs as JSON. See docs/formats/om.md."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from opdiff.core.errors import InputError
from opdiff.core.filesystem import open_input
from opdiff.core.reasons import Status, because
from opdiff.read.rules.model_schema import MESSAGES, FieldError, encode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zipfile import ZipInfo

    from opdiff.read.rules.model_schema import Tree

_MAX_MEMBERS = 100_000
_MAX_MEMBER_NBYTES = 1 << 30
_ENCRYPTED = 1
_COMMAND_LINE = "atc_cmdline"
_LIST_FIELDS = {
    "list_string": ("s", "VT_LIST_STRING"), "list_int": ("i", "VT_LIST_INT"), "list_float": ("f", "VT_LIST_FLOAT"),
    "list_bool": ("b", "VT_LIST_BOOL"), "list_bytes": ("bt", "VT_LIST_BYTES"),
    "list_tensor_desc": ("td", "VT_LIST_TENSOR_DESC"), "list_tensor": ("t", "VT_LIST_TENSOR"),
    "list_graph": ("g", "VT_LIST_GRAPH"), "list_named_attrs": ("na", "VT_LIST_NAMED_ATTRS"),
    "list_data_type": ("dt", "VT_LIST_DATA_TYPE"),
}  # fmt: skip
_VALUE_FIELDS = {
    "bytes": "bt", "expression": "expression", "func": "func", "tensor_desc": "td", "tensor": "t", "graph": "g",
}  # fmt: skip


def read_om2(path: str) -> bytes:
    """Return the message of the model that a zip archive describes.

    Raises:
        InputError: the archive cannot be read, is damaged, or has no description of a graph.
    """
    try:
        with open_input(path) as file, ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise InputError(path, because("rules.too_many_members", count=len(members)))
            graph = next((member for member in members if _is_graph(member.filename)), None)
            if graph is None:
                raise InputError(path, because("rules.zip_without_graph"))
            document = _read_json(path, archive, graph)
            manifest = next((member for member in members if member.filename == "manifest.json"), None)
            return _encode(path, document, _read_json(path, archive, manifest) if manifest else {})
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(path, because("rules.not_zip", error=str(error))) from error


def _is_graph(name: str) -> bool:
    return ("/debug/ge_visual_" in name and name.endswith(".json")) or name.endswith("/debug/visual.json")


def _read_json(path: str, archive: ZipFile, member: ZipInfo) -> Mapping[str, object]:
    if member.file_size > _MAX_MEMBER_NBYTES:
        raise InputError(path, because("rules.member_size", member=member.filename, nbytes=member.file_size))
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
        raise InputError(path, because("rules.member_encrypted", member=member.filename))
    with archive.open(member) as file:
        content = file.read(member.file_size + 1)
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise InputError(path, because("rules.member_nested", member=member.filename)) from error
    except ValueError as error:
        raise InputError(path, because("rules.member_not_json", member=member.filename, error=str(error))) from error
    if not isinstance(document, dict):
        raise InputError(path, because("rules.member_not_object", member=member.filename))
    return document


def _encode(path: str, document: Mapping[str, object], manifest: Mapping[str, object]) -> bytes:
    model = document.get("model")
    if document.get("format") != "ge_visual_json" or not isinstance(model, dict):
        raise InputError(path, because("rules.unknown_graph_form"))
    command = manifest.get("atc_command")
    attributes = model.get("attr")
    if isinstance(command, str) and isinstance(attributes, dict | None):
        model["attr"] = {_COMMAND_LINE: command, **(attributes or {})}
    try:
        return encode("ModelDef", _tree("ModelDef", model))
    except FieldError as error:
        raise InputError(path, because("rules.graph_damaged", error=error.reason)) from error
    except RecursionError as error:
        raise InputError(path, because("rules.graph_nested")) from error


def _tree(message: str, fields: object) -> Tree:
    """Return the tree of a message; maps, which are objects in the JSON, become entries."""
    if not isinstance(fields, dict):
        raise FieldError(message, fields)
    tree: dict[str, list[object]] = {}
    for field in MESSAGES[message]:
        value = fields.get(field.name)
        if value is None:
            continue
        if field.kind == "AttrEntry" and isinstance(value, dict):
            tree[field.name] = [{"key": [key], "value": [_attribute(item)]} for key, item in value.items()]
        else:
            values = value if isinstance(value, list) else [value]
            tree[field.name] = [_tree(field.kind, item) for item in values] if field.kind in MESSAGES else values
    return tree


def _attribute(value: object) -> Tree:
    if isinstance(value, list):
        return _list_of_lists(value)
    if isinstance(value, dict):
        return _typed(str(value.get("type", "")), value.get("value"))
    # A truth value is a number, too.
    kinds: tuple[tuple[type, str], ...] = ((bool, "b"), (int, "i"), (float, "f"), (str, "s"))
    return next(({name: [value]} for kind, name in kinds if isinstance(value, kind)), {})


def _typed(kind: str, value: object) -> Tree:
    if kind in _LIST_FIELDS and isinstance(value, list):
        name, list_type = _LIST_FIELDS[kind]
        message = next(field.kind for field in MESSAGES["ListValue"] if field.name == name)
        items = [_tree(message, item) for item in value] if message in MESSAGES else value
        return {"list": [{name: items, "val_type": [list_type]}]}
    if kind in _VALUE_FIELDS and value is not None:
        name = _VALUE_FIELDS[kind]
        message = next(field.kind for field in MESSAGES["AttrDef"] if field.name == name)
        return {name: [_tree(message, value) if message in MESSAGES else value]}
    return {"list": [{}]}


def _list_of_lists(rows: list[object]) -> Tree:
    lists = [row if isinstance(row, list) else [row] for row in rows]
    if any(isinstance(item, float) for row in lists for item in row):
        return {"list_list_float": [{"list_list_f": [{"list_f": row} for row in lists]}]}
    return {"list_list_int": [{"list_list_i": [{"list_i": row} for row in lists]}]}

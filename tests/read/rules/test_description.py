"""Kinds of files that describe a model, by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from model_files import MODEL, ModelDef, om_file
from opdiff.core.errors import InputError
from opdiff.read.rules import read_model, read_rules
from opdiff.read.rules.description import ModelKind, find_kind
from opdiff.read.rules.model_message import parse_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (om_file(b"")[:8], ModelKind.OM),
        (b"PK\3\4", ModelKind.OM2),
        (b'{"graph": []}', ModelKind.JSON),
        (b"\n\n [", ModelKind.JSON),
        (b"", ModelKind.JSON),
        (b"\xef\xbb\xbf{", ModelKind.JSON),
        ('{"graph"'.encode("utf-16"), ModelKind.JSON),
        ('{"graph"'.encode("utf-32-be"), ModelKind.JSON),
        (b"graph {\n  name", ModelKind.TEXT),
        (b'# made by hand\nname: "a"', ModelKind.TEXT),
        (b"op {", ModelKind.TEXT),
        (b"attr<", ModelKind.TEXT),
        (b"ir_version: 6", ModelKind.ONNX_TEXT),
        (b"\n\3net", ModelKind.MESSAGE),
        (b"\n{" + b"n" * 123, ModelKind.MESSAGE),
        (b"\x93NUMPY", None),
        (b"readable graph", None),
    ],
)
def test_kinds(tmp_path: Path, start: bytes, kind: ModelKind | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(start)
    assert find_kind(str(path)) is kind


@pytest.mark.parametrize("name", ["net", "n" * 91, "n" * 123], ids=len)
def test_a_bare_message_is_a_rule_file(tmp_path: Path, name: str) -> None:
    message = ModelDef(name=name, graph=MODEL.graph)
    path = tmp_path / "net.air"
    path.write_bytes(message.SerializeToString())
    assert read_model(str(path)) == (parse_model(message.SerializeToString()), ModelKind.MESSAGE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\1\2\3", r"it should be an offline model \(.om, .om2\), its JSON by ATC, a graph text"),
        (b"\n\3net", "there is no graph in it"),
        (b"\n\xff", "a number does not end"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_rules(str(path))

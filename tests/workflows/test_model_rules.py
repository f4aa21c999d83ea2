"""`opdiff rules`: the JSON of a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from google.protobuf import text_format

from model_files import MODEL, om_file
from opdiff.read.rules import read_rules

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.om"
    path.write_bytes(om_file(MODEL.SerializeToString()))
    return path


def test_the_rules_of_a_model_are_written(model: Path, tmp_path: Path, opdiff: Command) -> None:
    output = tmp_path / "rules.json"
    outcome = opdiff("rules", model, "-o", output)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"result: {output} (1 graph, 2 operators)\n", "")
    assert read_rules(str(output)).graphs == read_rules(str(model)).graphs
    assert list(tmp_path.iterdir()) == [model, output] or list(tmp_path.iterdir()) == [output, model]


def test_a_text_gives_the_same_rules(model: Path, tmp_path: Path, opdiff: Command) -> None:
    text = tmp_path / "ge_proto_00000062_Build.txt"
    text.write_text(text_format.MessageToString(MODEL))
    documents = [opdiff("rules", path, "-o", "-").json for path in (model, text)]
    assert documents[0] == documents[1]


def test_an_existing_file_is_replaced_only_if_asked(model: Path, tmp_path: Path, opdiff: Command) -> None:
    output = tmp_path / "rules.json"
    output.write_text("mine")
    outcome = opdiff("rules", model, "-o", output)
    assert outcome.code == 2
    assert f"{output} exists; choose another file, or add --force" in outcome.err
    assert output.read_text() == "mine"
    assert opdiff("rules", model, "-o", output, "--force").code == 0
    assert json.loads(output.read_text())["name"] == "net"


def test_a_note_about_the_file_is_printed(tmp_path: Path, opdiff: Command) -> None:
    path = tmp_path / "flow.om"
    path.write_bytes(om_file(MODEL.SerializeToString(), model_type=3, large=True))
    outcome = opdiff("rules", path, "-o", "-")
    assert outcome.err == "opdiff: the file is a flow of models; only its root graph was read\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"graph": []}', "this is JSON already"),
        (b"nothing", "not a rule file; it looks like a text file"),
        (b"\n\3net\x3a\xff", "byte"),
    ],
    ids=["JSON", "other", "damaged"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str, opdiff: Command) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    outcome = opdiff("rules", path, "-o", tmp_path / "rules.json")
    assert (outcome.code, outcome.out) == (3, "")
    assert message in outcome.err
    assert not (tmp_path / "rules.json").exists()

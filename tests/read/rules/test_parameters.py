"""Attributes of compiled operators, from offline models, the JSON of ATC and graph texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from model_files import ModelDef, attr, om_file
from opdiff.core.errors import InputError
from opdiff.read.rules import parameters
from opdiff.read.rules.atc_document import to_document
from opdiff.read.rules.parameters import read_parameters

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ModelDef(
    name="net",
    graph=[{"name": "g", "op": [
        {"name": "norm", "type": "LayerNorm", "attr": [
            attr("epsilon", f=1e-5), attr("axis", i=-1), attr("flag", b=True), attr("mode", s=b"Round"),
            attr("pads", list={"i": [0, 1], "val_type": 2}), attr("scales", list={"f": [0.5, 2.0], "val_type": 3}),
            attr("rows", list_list_int={"list_list_i": [{"list_i": [1, 2]}, {}]}), attr("none", list={"val_type": 2}),
            attr("data", t={"data": b"1"}),
        ]},
        {"name": "norm", "type": "Relu"},
    ]}],
).SerializeToString()  # fmt: skip
TEXT = """op {
  name: "norm"
  type: "LayerNorm"
  attr { key: "epsilon" value { f: 1e-05 } }
  attr { key: "axis" value { i: -1 } }
}
"""


def write_model(folder: Path, form: str) -> str:
    path = folder / f"net.{form}"
    contents = {"om": om_file(MODEL), "json": json.dumps(to_document([MODEL])).encode(), "txt": TEXT.encode()}
    path.write_bytes(contents[form])
    return str(path)


@pytest.mark.parametrize("form", ["om", "json"])
def test_plain_attributes_are_read(tmp_path: Path, form: str) -> None:
    assert read_parameters(write_model(tmp_path, form)) == {
        "norm": {
            "epsilon": 1e-5, "axis": -1, "flag": True, "mode": "Round", "pads": (0, 1), "scales": (0.5, 2.0),
            "rows": ((1, 2), ()), "none": (),
        }
    }  # fmt: skip


def test_graph_texts_have_attributes(tmp_path: Path) -> None:
    assert read_parameters(write_model(tmp_path, "txt"))["norm"] == {"epsilon": 1e-5, "axis": -1}


@pytest.mark.parametrize(
    "content", ["{", '{"graph": [1]}', '{"graph": 5}', '{"graph": [{"op": [{"attr": [{"value": 1}]}]}]}']
)
def test_a_file_without_a_model_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        read_parameters(str(tmp_path / "x.json"))


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "_MAX_NBYTES", 10)
    with pytest.raises(InputError, match="more than the limit of 10"):
        read_parameters(write_model(tmp_path, "json"))

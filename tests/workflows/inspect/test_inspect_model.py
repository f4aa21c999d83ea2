"""`opdiff inspect` of a compiled model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from model_files import CONV, INSERTED, ModelDef, attr, om_file

if TYPE_CHECKING:
    from typing import Any

    from command_line import Command

REAL = Path(__file__).parents[4] / "shared" / "real" / "originals"
X = {"name": "x", "dtype": 1, "shape": {"dim": [1, -1]}, "layout": "ND"}
MODEL = ModelDef(
    name="net", graph=[
        {"name": "net_0", "op": [
            {"name": "\x1b[31mx", "type": "Data", "output_desc": [X]}, CONV, INSERTED,
            {"name": "end", "type": "NetOutput", "input": ["conv1conv1_relu:0", "x:-1"], "input_desc": [X]},
        ]},
        {"name": "branch", "op": [{"name": "d", "type": "Data"}]},
    ],
    attr=[
        attr("atc_cmdline", s=b"/home/someone/atc --model=/home/someone/net.onnx"), attr("soc_version", s=b"Ascend310"),
        attr("framework_type", s=b"Onnx"), attr("atc_version", s=b"7.6"),
    ],
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "net.om"
    found.write_bytes(om_file(MODEL.SerializeToString(), models=3))
    return found


def test_text(path: Path, opdiff: Command) -> None:
    outcome = opdiff("inspect", path)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith(f"{path}: offline model, ")
    for line in (
        "  model: net", "  processor: Ascend310", "  framework: Onnx", "  command line: atc --model=net.onnx",
        "  versions: ATC 7.6, platform 1.11.z.0, file 2 with 3 models", "  graphs: 2",
        "  operators: 5 (1 fused from several originals, 1 without an original)",
        "  operators by type: Data 2, Cast 1, Conv2D 1, NetOutput 1", "  fusion passes: ConvReluPass 1, UbPass 1",
    ):  # fmt: skip
        assert line in lines
    tables = [line.split() for line in lines]
    assert ["branch", "1", "0", "0", "1", "0"] in tables
    assert [r"\x1b[31mx", "DT_FLOAT", "ND", "[1,-1]"] in tables
    assert ["conv1conv1_relu:0", "DT_FLOAT", "ND", "[1,-1]"] in tables
    assert "someone" not in outcome.out.replace(str(path), "")


def test_json(path: Path, opdiff: Command) -> None:
    report: Any = opdiff("inspect", path, "--json").json
    assert (report["kind"], report["header"]["models"], report["notes"]) == ("offline model", 3, [])
    assert report["origin"]["command_line"] == ["atc", "--model=net.onnx"]
    assert report["passes"] == [["ConvReluPass", 1], ["UbPass", 1]]
    root, branch = report["graphs"]
    assert (root["operators"], root["fused"], root["inserted"], branch["operators"]) == (4, 1, 1, 1)
    tensor = {"dtype": "DT_FLOAT", "shape": [1, -1], "layout": "ND"}
    assert root["inputs"] == [{"name": "\x1b[31mx", **tensor}]
    assert root["outputs"] == [{"name": "conv1conv1_relu:0", **tensor}]


def test_notes_about_the_file(tmp_path: Path, opdiff: Command) -> None:
    path = tmp_path / "flow"
    path.write_bytes(om_file(MODEL.SerializeToString(), model_type=3, large=True))
    assert "  note: the file is a flow of models; only its root graph was read" in opdiff("inspect", path).out


@pytest.mark.parametrize("name", ["rules.json", "graph.txt", "graph.pbtxt", "net.om"])
def test_other_files_with_such_names_are_refused(tmp_path: Path, name: str, opdiff: Command) -> None:
    path = tmp_path / name
    path.write_text("nothing of the kind")
    outcome = opdiff("inspect", path)
    assert (outcome.code, outcome.out) == (3, "")
    assert "neither a dump nor a compiled model; it looks like a text file." in outcome.err


@pytest.mark.skipif(not REAL.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize(
    ("name", "kind", "operators", "output"),
    [
        ("om/a3c_a.om", "offline model", 26, "trans_Cast_32:0"),
        ("om/faceboxes.om", "offline model", 155, None),
        ("om/iatsim.om", "offline model", 340, "trans_Cast_343:0"),
        ("tdnn.json", "JSON of ATC or AMCT", 132, "trans_Cast_95:0"),
        ("resnet50_Build.txt", "graph text", 170, "trans_Cast_170:0"),
    ],
)
def test_real_models(name: str, kind: str, operators: int, output: str | None, opdiff: Command) -> None:
    report = json.loads(opdiff("inspect", REAL / name, "--json").out)
    (graph,) = report["graphs"]
    assert (report["kind"], graph["operators"]) == (kind, operators)
    assert sum(count for _, count in graph["op_types"]) == operators
    assert graph["inputs"]
    assert output in (None, graph["outputs"][0]["name"])

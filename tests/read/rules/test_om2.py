"""Offline models of the second kind: archives made after the format page."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dump_files import zip_file
from model_files import MODEL
from opdiff.core.errors import InputError
from opdiff.read.rules import read_model
from opdiff.read.rules.description import ModelKind
from opdiff.read.rules.model_message import parse_model

CONV = {
    "name": "conv1conv1_relu", "type": "Conv2D", "id": 3, "input": ["x:0", "w:0", "", "data:-1"],
    "attr": {
        "_datadump_original_op_names": {"type": "list_string", "value": ["conv1", "conv1_relu"]},
        "pass_name": "ConvReluPass", "pass_name_ub": {"type": "list_string", "value": ["UbPass"]},
        "_datadump_is_multiop": True, "strides": {"type": "list_int", "value": [1, 1]}, "epsilon": 0.5,
        "weights": {"type": "bytes", "value": "12345"}, "ranges": [[1, 2], [3]], "shares": [[0.5]],
        "nested": {"type": "tensor_desc", "value": {"name": "x", "dtype": "DT_FLOAT"}},
        "descs": {"type": "list_tensor_desc", "value": [{"name": "x"}]},
    },
    "output_desc": [{
        "dtype": "DT_FLOAT16", "shape": {"dim": [1, 4, -1, 8, 16]}, "layout": "NC1HWC0",
        "attr": {
            "_datadump_origin_name": "conv1_relu", "_datadump_origin_output_index": 0,
            "_datadump_origin_format": "NCHW", "origin_shape": {"type": "list_int", "value": [1, 64, 8, 8]},
        },
    }],
}  # fmt: skip
INSERTED = {"name": "trans_Cast_0", "type": "Cast", "attr": {"_datadump_original_op_names": {}}}
DOCUMENT: dict[str, Any] = {
    "format": "ge_visual_json",
    "format_version": 1,
    "model": {"name": "net", "attr": {"atc_version": "7.6"}, "graph": [{"name": "net_0", "op": [CONV, INSERTED]}]},
}
MANIFEST = {"om2_version": "0", "model_num": 1, "atc_command": "atc --model=a.onnx"}
GRAPH = "data/model_net/debug/ge_visual_00000000_graph_1.json"


def archive(tmp_path: Path, members: dict[str, object], method: int = zipfile.ZIP_DEFLATED) -> str:
    path = tmp_path / "net.om2"
    texts = {name: content if isinstance(content, str) else json.dumps(content) for name, content in members.items()}
    path.write_bytes(zip_file(*texts.items(), method=method))
    return str(path)


@pytest.mark.parametrize("graph", [GRAPH, "data/model_net/debug/visual.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_is_read_as_the_message_of_its_model(tmp_path: Path, graph: str, method: int) -> None:
    model, kind = read_model(archive(tmp_path, {"manifest.json": MANIFEST, graph: DOCUMENT}, method))
    assert kind is ModelKind.OM2
    expected = parse_model(MODEL.SerializeToString())
    assert (model.name, model.graphs) == (expected.name, expected.graphs)
    assert model.attributes == {"atc_version": "7.6", "atc_cmdline": "atc --model=a.onnx"}


@pytest.mark.parametrize(
    ("members", "method", "message"),
    [
        ({"manifest.json": MANIFEST}, zipfile.ZIP_STORED, "without the graph of a model"),
        ({GRAPH: "{"}, zipfile.ZIP_STORED, "graph_1.json is not valid JSON"),
        ({GRAPH: "[" * 200_000}, zipfile.ZIP_STORED, "nested too deeply"),
        ({GRAPH: "[]"}, zipfile.ZIP_STORED, "is not a JSON object"),
        ({GRAPH: DOCUMENT}, zipfile.ZIP_BZIP2, "compressed by an unknown method"),
        ({GRAPH: {**DOCUMENT, "format": "other"}}, zipfile.ZIP_STORED, "in an unknown form"),
        ({GRAPH: {**DOCUMENT, "model": {"graph": [{"op": ["a"]}]}}}, zipfile.ZIP_STORED, "field OpDef cannot be 'a'"),
        ({GRAPH: {**DOCUMENT, "model": {"graph": [{"name": {}}]}}}, zipfile.ZIP_STORED, "field name cannot be 'dict'"),
    ],
)  # fmt: skip
def test_other_archives_are_refused(tmp_path: Path, members: dict[str, object], method: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_model(archive(tmp_path, members, method))


def test_a_truncated_archive(tmp_path: Path) -> None:
    path = Path(archive(tmp_path, {GRAPH: DOCUMENT}))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="not a valid zip archive"):
        read_model(str(path))

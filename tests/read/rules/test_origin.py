"""How a model was compiled, without the directories of the machine that compiled it."""

from __future__ import annotations

import pytest

from opdiff.core.graph import ModelOrigin
from opdiff.read.rules.model import Model, find_origin, split_command_line


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ()),
        ("/usr/bin/atc.bin --model=/home/u/a.onnx --output /u/b", ("atc.bin", "--model=a.onnx", "--output", "b")),
        ('atc --model="/home/John Doe/a.onnx"', ("atc", "--model=a.onnx")),
        ("atc --input_shape=in/x:1,3 --out_nodes in/y:0", ("atc", "--input_shape=in/x:1,3", "--out_nodes", "in/y:0")),
        ("atc --input_shape=x:1 /home/u", ("atc", "--input_shape=x:1", "u")),
        ("atc --conf=/a/b,/c/d;e/f", ("atc", "--conf=b,d;f")),
        (r"atc --model='C:\u\a.onnx'", ("atc", "--model=C:a.onnx")),
        ("atc --note='not closed /home/u", ("atc", "--note='not", "closed", "u")),
    ],
)  # fmt: skip
def test_command_lines(text: str, arguments: tuple[str, ...]) -> None:
    assert split_command_line(text) == arguments


def test_versions_are_attributes_of_the_model() -> None:
    attributes = {
        "atc_cmdline": "atc --a=1", "framework_type": "Onnx", "atc_version": "7.6", "opp_version": "7.7",
        "soc_version": "Ascend310B4",
    }  # fmt: skip
    origin = ModelOrigin("net", ("atc", "--a=1"), "Onnx", "7.6", "7.7", "Ascend310B4")
    assert find_origin(Model("net", (), attributes)) == origin
    assert find_origin(Model("net", (), {"atc_version": 7})) == ModelOrigin("net")


@pytest.mark.parametrize(
    ("command", "value"),
    [(("--a=1",), "1"), (("--a", "1"), "1"), (("--a",), ""), (("--ab=1",), ""), ((), "")],
)
def test_options(command: tuple[str, ...], value: str) -> None:
    assert ModelOrigin(command_line=command).option("--a") == value

"""`opdiff demo`: a sample, and its comparison."""

from __future__ import annotations

import json
import os
import re
import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from command_line import Capture, run
from opdiff.sample import FAULTS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_sample_is_made_and_compared(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(capsys, "demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(os.listdir(tmp_path / "opdiff-demo")) == ["golden", "npu", "result", "rules", "sample.json"]
    assert f"Sample written to {tmp_path}/opdiff-demo:\n" in outcome.out
    assert "opdiff-demo/golden: golden tensors\n" in outcome.out
    lines = outcome.out.splitlines()
    table = [re.split(r" {2,}", line.strip()) for line in lines[lines.index("Compared: 59 of 59 operators.") + 2 :][:3]]
    assert table == [
        ["1 context/pool (MaxPoolV3)", "permuted", "99%"],
        ["2 local · conv1 + conv1_relu (Conv2D)", "scale", "1%"],
        ["3 gate/conv (Conv2D)", "overflow", "0%"],
    ]
    for fault in FAULTS.values():
        assert f"\n  {fault.operator}: {fault.description}\n" in outcome.out


def proposals(text: str) -> list[list[str]]:
    """The arguments of the commands that are proposed."""
    lines = [line.removeprefix("next: opdiff ") for line in text.splitlines() if line.startswith("next: opdiff ")]
    return list(map(shlex.split, lines))


@pytest.mark.parametrize(
    ("arguments", "programs"),
    [
        ((), ["op", "compare", "inspect"]),
        (("--onnx",), ["golden", "compare"]),
        (("--caffe",), ["golden", "compare"]),
        (("--torchair",), ["op", "compare"]),
        (("--stages",), ["stages"]),
    ],
)
def test_proposed_commands_work(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    programs: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    proposed = proposals(run(capsys, "demo", "my sample", *arguments).out)
    assert [words[0] for words in proposed] == programs
    assert [run(capsys, *words).code for words in proposed] == [0] * len(programs)


def test_a_second_sample_replaces_the_first_and_no_other_files(tmp_path: Path, capsys: Capture) -> None:
    assert [run(capsys, "demo", tmp_path / "s").code for _ in range(2)] == [0, 0]
    (tmp_path / "precious").write_bytes(b"precious")
    outcome = run(capsys, "demo", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{tmp_path} has files that do not belong to a sample" in outcome.err
    assert run(capsys, "demo", tmp_path, "--force").code == 0
    assert (tmp_path / "precious").read_bytes() == b"precious"


# Samples that begin with a model file

NEEDS_TENSORFLOW = pytest.mark.skipif(find_spec("tensorflow") is None, reason="needs TensorFlow (extra golden-tf)")


@pytest.mark.parametrize("framework", ["onnx", "caffe", pytest.param("tensorflow", marks=NEEDS_TENSORFLOW)])
def test_a_model_leads_to_the_culprit_and_to_a_clean_run(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    monkeypatch.chdir(tmp_path)
    made = run(capsys, "demo", f"--{framework}")
    golden, first = proposals(made.out)
    assert run(capsys, *golden).code == 0
    found = run(capsys, *first, "--remedies", "remedies", "--json").json
    culprit = found["findings"][0]
    assert (found["verdict"], culprit["operator"], culprit["kind"]) == ("wrong", "conv1conv1_relu", "bias")
    assert culprit["proved"]
    switches = json.loads((tmp_path / "remedies" / "fusion_switch.cfg").read_text())
    assert switches == {"Switch": {"UBFusion": {"TbeCommonRules2FusionPass": "off"}}}
    folder = f"opdiff-demo-{framework}"
    fixed = (f"{folder}/dump_fixed", f"{folder}/golden", "--rules", f"{folder}/net_fixed.om")
    second = run(capsys, "compare", *fixed, "--json", "--fail-on", "suspicious").json
    assert (second["verdict"], second["findings"]) == ("clean", [])


def test_files_of_a_model_are_listed(tmp_path: Path, capsys: Capture) -> None:
    outcome = run(capsys, "demo", tmp_path / "net", "--caffe")
    listed = re.findall(r"^  (\S.*?)  ", outcome.out, re.MULTILINE)
    assert sorted(name for line in listed for name in line.split(", ")) == sorted(os.listdir(tmp_path / "net"))
    assert run(capsys, "demo", tmp_path / "net", "--caffe").code == 2
    assert run(capsys, "demo", tmp_path / "net", "--caffe", "--force").out == outcome.out


def test_samples_have_directories_of_their_own(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("", "--onnx", "--caffe", "--tensorflow", "--torchair", "--stages")
    assert [run(capsys, "demo", *option.split()).code for option in options] == [0] * len(options)
    kinds = ("caffe", "onnx", "stages", "tensorflow", "torchair")
    assert sorted(os.listdir(tmp_path)) == ["opdiff-demo", *(f"opdiff-demo-{kind}" for kind in kinds)]
    both = run(capsys, "demo", "--onnx", "--caffe")
    assert both.code == 2
    assert "--onnx, --caffe cannot be combined; choose one sample" in both.err


def test_unwritable_directory(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_bytes(b"")
    outcome = run(capsys, "demo", tmp_path / "file" / "below")
    assert outcome.code == 3
    assert "Not a directory" in outcome.err
    assert "Traceback" not in outcome.err

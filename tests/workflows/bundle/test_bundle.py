"""An operator as an archive: it has all data of the operator, runs by itself, and tells nothing about the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from device_runs import DeviceRun, Fused
from onnx_models import Array, files_of, golden, model, node, value, weight
from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (1, 3, 8, 8)


@pytest.fixture
def device(tmp_path: Path) -> DeviceRun:
    """A run in which the second of two convolutions is 10 % too large."""
    random = np.random.default_rng(5)
    nodes = [
        node("Conv", "x w1", "c1", "conv1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1", "relu1"),
        node("Conv", "r1 w2", "c2", "conv2", pads=[1, 1, 1, 1]),
    ]
    weights = [weight("w1", _normal(random, 0.3, 16, 3)), weight("w2", _normal(random, 0.1, 8, 16))]
    made = model(nodes, inputs=[value("x", SHAPE)], weights=weights)
    operators = [
        Fused("conv1relu1", "Conv2D", ("conv1", "relu1")),
        Fused("conv2", "Conv2D", ("conv2",), spoil=lambda array: array * 1.1),
    ]
    inputs = {"x": random.normal(0, 1, SHAPE).astype(np.float32)}
    found = DeviceRun(tmp_path, made, inputs, operators).write()
    golden(found.model, tmp_path / "golden", inputs=inputs)
    return found


def _normal(random: np.random.Generator, spread: float, *channels: int) -> Array:
    return random.normal(0, spread, (*channels, 3, 3)).astype(np.float32)


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_bundle_runs_by_itself(device: DeviceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("bundle", "conv2", device.npu, tmp_path / "golden", "-fr", device.rules, "--model", device.model)
    outcome = run(capsys, *arguments, "-o", tmp_path / "op.zip")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    with zipfile.ZipFile(tmp_path / "op.zip") as archive:
        archive.extractall(tmp_path / "op")
    command = [sys.executable, str(tmp_path / "op" / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    name, distance = done.stdout.split(",")[0].split(": relative distance ")
    assert name == "c2"
    assert float(distance) == pytest.approx(0.1, rel=0.02)
    readme = (tmp_path / "op" / "README.md").read_text()
    assert "Verdict: **guilty**" in readme
    assert "Cause: scale" in readme


def test_arrays_are_those_of_the_operator(
    device: DeviceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "bundle", "conv2", device.npu, tmp_path / "golden", "-fr", device.rules, "-o", tmp_path / "op.zip")
    found = entries(tmp_path / "op.zip")
    assert set(found) == {
        "README.md", "operator.json", "golden_input_0.npy", "golden_output_0.npy", "target_input_0.npy",
        "target_output_0.npy",
    }  # fmt: skip
    (tmp_path / "o.npy").write_bytes(found["target_output_0.npy"])
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), device.tensors["c2"])
    (tmp_path / "g.npy").write_bytes(found["golden_output_0.npy"])
    np.testing.assert_array_equal(np.load(tmp_path / "g.npy"), files_of(tmp_path / "golden")["conv2.0"])
    record = json.loads(found["operator.json"])
    assert (record["operator"], record["type"], record["model"]) == ("conv2", "Conv2D", None)
    assert record["tensors"]["target_output_0.npy"]["layout"] == "NC1HWC0"


def test_bundle_tells_nothing_about_the_machine(
    device: DeviceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("bundle", "conv2", device.npu, tmp_path / "golden", "-fr", device.rules, "--model", device.model)
    for name in ("a.zip", "b.zip"):
        run(capsys, *arguments, "-o", tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    private = [str(tmp_path), os.uname().nodename]
    assert [
        name for name, data in entries(tmp_path / "a.zip").items() for text in private if text.encode() in data
    ] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conv9", "{npu}"), "the dump has no operator conv9; did you mean conv2?"),
        (("conv2", "{npu}", "--model", "{model}"), "--model needs the rules (-fr)"),
        (("conv2", "{npu}/missing"), "no such file or directory"),
    ],
    ids=["operator", "no rules", "no directory"],
)
def test_wrong_commands_are_explained(
    device: DeviceRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    given = [each.format(npu=device.npu, model=device.model) for each in arguments]
    outcome = run(capsys, "bundle", *given, "-o", tmp_path / "op.zip")
    assert outcome.code in (ExitCode.USAGE, ExitCode.UNUSABLE_INPUT)
    assert message in outcome.err
    assert not (tmp_path / "op.zip").exists()


def test_operator_that_cannot_be_computed_is_bundled_without_model(
    device: DeviceRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replaced = [
        replace(operator, has_inputs=False, is_dumped=operator.name == "conv2") for operator in device.operators
    ]
    (tmp_path / "lost").mkdir()
    lost = DeviceRun(tmp_path / "lost", device.made, device.inputs, replaced).write()
    arguments = ("bundle", "conv2", lost.npu, "-fr", lost.rules, "--model", lost.model)
    assert run(capsys, *arguments, "-o", tmp_path / "op.zip").code == ExitCode.OK
    found = entries(tmp_path / "op.zip")
    assert set(found) == {"README.md", "operator.json", "target_output_0.npy"}
    assert "its input r1 was not dumped" in json.loads(found["operator.json"])["note"]

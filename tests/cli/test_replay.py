"""`opdiff replay` on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import Capture, run
from device_runs import DeviceRun, Fused
from onnx_models import golden, model, node, value, weight

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
NODES = [node("MatMul", "x w", "a", "mm"), node("Relu", "a", "b", "relu"), node("Neg", "b", "c", "neg")]
MODEL = model(NODES, [value("x", [4, 8])], weights=[weight("w", np.random.default_rng(1).random((8, 4), np.float32))])
OPERATORS = (Fused("mm", "MatMulV2", ("mm",)), Fused("relu", "Relu", ("relu",)), Fused("neg", "Neg", ("neg",)))


@pytest.fixture
def device(tmp_path: Path) -> DeviceRun:
    """A run whose Relu adds a tenth."""
    faulty = Fused("relu", "Relu", ("relu",), spoil=lambda array: array + 0.1)
    return DeviceRun(tmp_path, MODEL, {"x": X}, (OPERATORS[0], faulty, OPERATORS[2])).write()


def test_every_operator_without_golden_data(device: DeviceRun, capsys: Capture) -> None:
    done = run(capsys, "replay", device.npu, "--model", device.model, "-fr", device.rules)
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    verdicts = {line[0]: line[2] for line in lines if line and line[0] in ("mm", "relu", "neg")}
    assert verdicts == {"mm": "innocent", "relu": "guilty", "neg": "innocent"}
    assert "worst element" in done.out
    assert done.out.endswith("3 operators: 2 innocent, 1 guilty, 0 not replayable\n")
    named = run(capsys, "replay", device.npu, "--model", device.model, "-fr", device.rules, "--op", "neg", "--json")
    assert [item["operator"] for item in named.json] == ["neg"]


def test_suspects_of_a_comparison_with_golden_data(device: DeviceRun, capsys: Capture) -> None:
    golden(device.model, device.folder / "golden", inputs={"x": X})
    sides = device.npu, device.folder / "golden"
    done = run(capsys, "replay", *sides, "--model", device.model, "-fr", device.rules, "--json", "-")
    assert done.code == 0, done.err
    assert [(item["operator"], item["verdict"]) for item in done.json] == [("relu", "guilty")]
    run(capsys, "compare", *sides, "-fr", device.rules, "-o", device.folder / "out")
    saved = run(capsys, "replay", "--saved", device.folder / "out", "--model", device.model, "--json", "-")
    assert saved.json == done.json


def test_a_clean_comparison_has_nothing_to_replay(tmp_path: Path, capsys: Capture) -> None:
    device = DeviceRun(tmp_path, MODEL, {"x": X}, OPERATORS).write()
    golden(device.model, tmp_path / "golden", inputs={"x": X})
    arguments = ("replay", device.npu, tmp_path / "golden", "--model", device.model, "-fr", device.rules)
    done = run(capsys, *arguments)
    assert (done.code, done.out) == (0, "the comparison suspects no operator; --all replays every operator\n")
    assert run(capsys, *arguments, "--lang", "zh").out == "比对结果中没有可疑算子\uff1b使用 --all 可重算所有算子\n"
    everything = run(capsys, *arguments, "--all", "--json", tmp_path / "all.json")
    assert "3 operators: 3 innocent, 0 guilty, 0 not replayable" in everything.out
    assert (tmp_path / "all.json").read_text().count('"innocent"') == 3


def test_nothing_replayable_is_unusable_input(tmp_path: Path, capsys: Capture) -> None:
    hidden = [Fused(item.name, item.op_type, item.originals, has_inputs=False) for item in OPERATORS[:1]]
    device = DeviceRun(tmp_path, MODEL, {"x": X}, hidden).write()
    done = run(capsys, "replay", device.npu, "--model", device.model, "-fr", device.rules)
    assert done.code == 3
    assert "its input x is an input of the model whose values were not dumped" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{npu}", "--model", "{model}"), "replay needs -fr FILE"),
        (("--model", "{model}", "-fr", "{rules}"), "replay needs a target directory"),
        (("{npu}", "{npu}", "--saved", "x", "--model", "{model}"), "--saved takes the place of the golden directory"),
    ],
)
def test_missing_arguments(device: DeviceRun, capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    paths = {"npu": device.npu, "rules": device.rules, "model": device.model}
    done = run(capsys, "replay", *(argument.format(**paths) for argument in arguments))
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_file_that_changes_the_limits_is_named(device: DeviceRun, capsys: Capture) -> None:
    limits = device.folder / "wide.toml"
    limits.write_text("[dtype.float32]\nnoise = 0.01\n")
    words = ("replay", device.npu, "--model", device.model, "-fr", device.rules, "--limits", limits)
    named = f"The limits are not the defaults: {limits} changes them.\n"
    assert run(capsys, *words).out.endswith(named)
    assert named in run(capsys, *words, "--json", "-").err

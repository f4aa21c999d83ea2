"""Suspects of a comparison that are computed again: proved, withdrawn, and both saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest

from command_line import run
from onnx_models import golden, weight, write
from opdiff.core.judgement import ErrorKind, Origin
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import ComparisonResult, compare
from opdiff.workflows.compare.rejudging import judge_again
from opdiff.workflows.compare.saved import load_saved
from opdiff.workflows.limits_file import find_limits
from residual_network import changed, device_run, image, run_without_residual

if TYPE_CHECKING:
    from pathlib import Path

    from device_runs import DeviceRun
    from opdiff.core.comparison import Comparison


def compared(device: DeviceRun, **options: Any) -> Comparison:
    wanted = {"model": str(device.model), "replay": 5, "fusion_rules": str(device.rules), **options}
    sides = str(device.npu), str(device.folder / "golden")
    (result,) = compare(CompareOptions(*sides, **wanted), lambda _done, _total: None)
    assert isinstance(result, ComparisonResult)
    assert not result.defects
    return result.comparison


@pytest.fixture
def device(tmp_path: Path) -> DeviceRun:
    return run_without_residual(tmp_path)


def test_a_guilty_suspect_is_proved_with_its_cause(device: DeviceRun) -> None:
    judgement = compared(device).judgement
    (finding,) = judgement.findings
    assert (finding.operator, finding.kind, finding.is_proved) == ("c2a1r2", ErrorKind.OPERAND, True)
    assert [reason.code for reason in finding.evidence[:2]] == ["replay.cause", "judge.proved"]
    advice = " ".join(map(str, judgement.advice))
    assert "c2a1r2 (Conv2D) is proved to be at fault: " in advice
    assert "a1 (Add) is left out: the operand t4 is missing; correcting for it reduces the error from" in advice


def test_without_replay_nothing_is_proved(device: DeviceRun) -> None:
    comparison = compared(device, replay=0)
    assert comparison.replays == ()
    assert [finding.is_proved for finding in comparison.judgement.findings] == [False]


def test_an_innocent_suspect_is_withdrawn(tmp_path: Path) -> None:
    clean = device_run(tmp_path)
    other = onnx.load(str(clean.model))
    (weights,) = (item for item in other.graph.initializer if item.name == "wf")
    weights.CopyFrom(weight("wf", 1.3 * onnx.numpy_helper.to_array(weights)))
    golden(write(tmp_path / "other.onnx", other), tmp_path / "golden", inputs=image())
    blamed = compared(clean, replay=0)
    assert [finding.operator for finding in blamed.judgement.findings] == ["fc"]
    judgement = compared(clean).judgement
    assert (judgement.findings, judgement.first_bad, judgement.worst) == ((), "", "")
    advice = " ".join(map(str, judgement.advice))
    assert "Innocent: fc." in advice
    assert "No operator is found to be at fault, although tensors are bad" in advice
    assert not {"judge.within_noise", "judge.compared_within_noise"} & {sentence.code for sentence in judgement.advice}
    assert Origin.CREATED not in {verdict.origin for verdict in judgement.verdicts}


def test_without_suspects_the_largest_errors_are_replayed(tmp_path: Path) -> None:
    clean = device_run(tmp_path)
    golden(clean.model, tmp_path / "golden", inputs=image())
    comparison = compared(clean, replay=1)
    assert [replay.verdict for replay in comparison.replays] == ["innocent"] * 2
    assert compared(clean, model="").replays == ()
    assert comparison.judgement.findings == ()


def test_all_operators_are_replayed_on_request(device: DeviceRun) -> None:
    comparison = compared(device, replay=None)
    verdicts = {replay.operator: replay.verdict.value for replay in comparison.replays}
    assert verdicts == dict.fromkeys(("c1b1r1", "p1", "gap", "fc", "sm"), "innocent") | {"c2a1r2": "guilty"}


def test_the_time_is_limited(device: DeviceRun) -> None:
    comparison = compared(device, replay_seconds=0.0)
    assert len(comparison.replays) == 1
    assert "after 0 s, only 1 suspect had been computed again" in str(comparison.notes[-1])


def test_a_model_that_cannot_be_used_costs_a_note(device: DeviceRun) -> None:
    comparison = compared(device, model=str(device.rules))
    assert str(comparison.notes[-1]).startswith("suspects could not be computed again: ")
    assert [finding.is_proved for finding in comparison.judgement.findings] == [False]


def test_without_the_model_types_and_attributes_decide(tmp_path: Path) -> None:
    made = device_run(tmp_path, changed("gap", spoil=lambda array: array * 1.2))
    golden(made.model, tmp_path / "golden", inputs=image())
    judgement = compared(made, model="").judgement
    (finding,) = judgement.findings
    assert (finding.operator, finding.kind, finding.is_proved) == ("gap", ErrorKind.SCALE, True)


@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_operators_are_computed_by_as_many_threads_as_wanted(
    device: DeviceRun, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    used = set()
    session = onnxruntime.InferenceSession

    def spy(data: bytes, options: Any, **others: Any) -> Any:
        used.add(options.intra_op_num_threads)
        return session(data, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spy)
    if not is_short:
        monkeypatch.setattr("opdiff.workflows.replay.operator_replay._MAX_SHORT_NBYTES", -1)
    by_default = compared(device)
    assert used == ({0, 1} if is_short else {0})  # the types of the whole model are found by all cores
    used.clear()
    assert compared(device, workers=1).judgement == by_default.judgement
    assert used == {1}


def test_the_command_saves_and_answers(device: DeviceRun, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(device.folder / "x.npy", image()["x"])
    inputs = ("--model", device.model, "--input", device.folder / "x.npy", "-fr", device.rules)
    done = run(capsys, "compare", device.npu, *inputs, "-o", device.folder / "out", "--json", "-")
    assert done.code == 0, done.err
    assert [(item["operator"], item["kind"], item["proved"]) for item in done.json["findings"]] == [
        ("c2a1r2", "operand", True)
    ]
    saved = load_saved([str(device.folder / "out")])
    assert judge_again(saved, find_limits("")).judgement.findings == saved.judgement.findings
    assert saved.replays[0].cause is not None
    judged = run(capsys, "judge", device.folder / "out")
    assert "a1 (Add) is left out" in judged.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--replay", "3"), "--replay needs the rules of the target's model: -fr FILE"),
        (("--model", "m.onnx", "--replay", "3"), "--replay needs the rules of the target's model: -fr FILE"),
        (("--model", "m.onnx", "--replay", "0"), "'0' is not a number from 1 to 9999, all or none"),
    ],
)
def test_options_that_do_not_go_together(
    device: DeviceRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(device.folder)
    sides = ("npu",) if "--model" in arguments else ("npu", "golden")
    done = run(capsys, "compare", *sides, *arguments)
    assert (done.code, message in done.err) == (2, True), done.err

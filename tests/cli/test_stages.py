"""`opdiff stages` on the command line: output, files, answer for machines, exit codes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from command_line import Capture, run
from opdiff.report.stages_report import StagesAnswer
from opdiff.sample.stages import write_stage_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.sample.stages import StageSample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> StageSample:
    return write_stage_sample(str(tmp_path_factory.mktemp("stages")), ["fusion"])


def words(sample: StageSample, *more: object) -> tuple[object, ...]:
    rules = ("-qfr", sample.quant_rules, "-cfr", sample.fusion_off_rules, "-fr", sample.fusion_on_rules)
    return ("stages", sample.original, sample.quantized, sample.fusion_off, sample.fusion_on, *rules, *more)


def test_the_result_and_its_files(sample: StageSample, tmp_path: Path, capsys: Capture) -> None:
    done = run(
        capsys, *words(sample, "-o", tmp_path, "--json", tmp_path / "answer.json", "--remedies", tmp_path / "fix")
    )
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "stages:"
    assert "1-2 quantization  0.0166 (match)" in done.out
    assert "3-4 fusion        0.174 (significant)" in done.out
    assert "operator at fault: block2/conv1block2/conv1_dequant_layerblock2/conv1_relu" in done.out
    assert "The accuracy is lost in fusion (stage 3 to 4, relative error 0.174)." in done.out
    folders = ["1-2_quantization", "1-3", "1-4", "2-3_conversion", "3-4_fusion"]
    assert sorted(os.listdir(tmp_path)) == [*folders, "answer.json", "fix", "fusion_switch_all_off.cfg"]
    for folder in folders:
        kinds = sorted(name.partition("_")[0] for name in os.listdir(tmp_path / folder))
        assert kinds == ["report", "result", "result"]
    switches = json.loads((tmp_path / "fusion_switch_all_off.cfg").read_text())
    assert switches == {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
    assert sorted(os.listdir(tmp_path / "fix")) == ["fusion_switch.cfg", "fusion_switch_all_off.cfg"]
    answer = msgspec.json.decode((tmp_path / "answer.json").read_bytes(), type=StagesAnswer)
    assert (answer.verdict, answer.culprit) == ("wrong", 2)
    assert [stage.kind for stage in answer.stages] == ["original", "quantized", "fusion-off", "offline"]
    step = answer.steps[2]
    assert (step.loss, step.possible_changes, step.golden, step.target) == ("node", ["fusion"], 3, 4)
    assert step.findings[0].originals == ["block2/conv1", "block2/conv1_dequant_layer", "block2/conv1_relu"]
    assert step.since_first is not None
    assert step.since_first.agreement == "significant"


def test_the_answer_on_standard_output_is_alone_there(sample: StageSample, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, *words(sample, "-o", tmp_path, "--no-html", "--json", "-"))
    assert json.loads(done.out)["schema"] == "opdiff-stages"
    assert done.err.startswith("stages:")


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--fail-on", "wrong"), 1, "gate violated: there are tensors that are wrong"),
        (("--stage", "original=nowhere"), 2, "this is none of the directories"),
        (("--stage", "something"), 2, "is not KIND=DIR with one of the kinds original"),
        (("-fr", "nowhere"), 3, "nowhere: no such file or directory"),
        (("-o", "file"), 3, "file"),
    ],
)
def test_exit_codes(
    sample: StageSample,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = run(capsys, *words(sample, "--no-html", *more))
    assert done.code == code
    assert message in done.err


def test_nothing_to_compare_is_unusable_input(sample: StageSample, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "stages", sample.original, sample.fusion_on, "-o", tmp_path)
    assert done.code == 3
    assert "needs a rule file: add -fr or -qfr or -fr with -qfr" in done.out.replace("\n ", "")


@pytest.mark.parametrize("step", ["quantization", "conversion", "fusion", "version"])
def test_the_demo_finds_its_fault(tmp_path: Path, capsys: Capture, step: str) -> None:
    done = run(capsys, "demo", tmp_path / "staged", "--stages", step)
    assert (done.code, done.err) == (0, "")
    named = "the change of version" if step == "version" else step
    assert f"The accuracy is lost in {named}" in done.out
    assert run(capsys, "demo", tmp_path / "staged", "--stages").code == 2


@pytest.mark.parametrize("more", [(), ("-q",)], ids=["", "quiet"])
def test_a_file_that_changes_the_limits_is_named(
    sample: StageSample, tmp_path: Path, capsys: Capture, more: tuple[str, ...]
) -> None:
    limits = tmp_path / "wide.toml"
    limits.write_text("[dtype.float16]\nnoise = 0.01\n")
    answer = tmp_path / "answer.json"
    done = run(capsys, *words(sample, "-o", tmp_path, "--no-html", "--limits", limits, "--json", answer, *more))
    named = f"The limits are not the defaults: {limits} changes them."
    assert named in " ".join(done.out.split())
    assert named in json.loads(answer.read_text())["notes"]


def test_a_step_of_other_fusion_without_rules(sample: StageSample, tmp_path: Path, capsys: Capture) -> None:
    """The step is not judged; the switches for the conversion are written."""
    folders = (sample.fusion_off, sample.fusion_on)
    done = run(capsys, "stages", *folders, "-o", tmp_path / "out", "--no-html", "--remedies", tmp_path / "fix")
    told = done.out.replace("\n  ", " ")
    assert done.code == 3
    assert "Stages 1 and 2 (fusion) cannot be judged. It may hold a loss. No operator can be judged: " in told
    assert "No step could be judged." in told
    assert "at fault" not in told
    assert f"remedy: {tmp_path / 'fix' / 'fusion_switch_all_off.cfg'}" in done.out

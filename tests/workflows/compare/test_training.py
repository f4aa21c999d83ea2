"""Training dumps with a directory of rule files: every device, model and step has its own result."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from command_line import run
from made_dumps import Json, assert_measured, describe, numbers, perturbed, read_result, rule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from made_dumps import Case

GOLDEN = numbers(4, 6)
TIME = "20240101120000"
CONV = rule("conv", outputs=(describe("conv", 0),))


def step_folder(case: Case, step: int, *, device: int = 0, model: str = "train_7_11", model_id: int = 1) -> Path:
    return case.target / TIME / str(device) / model / str(model_id) / str(step)


def write_step(case: Case, step: int, **location: int | str) -> None:
    """Write a step; every step of every device has different errors."""
    folder = step_folder(case, step, **location)  # type: ignore[arg-type]  # a table of both kinds
    case.npu("conv", perturbed(GOLDEN, seed=step), folder=folder)


def write_rules(case: Case, **files: tuple[str, Json]) -> Path:
    for file, (graph, operator) in files.items():
        case.rules(operator, file=f"rules/{file}.json", graph=graph)
    return case.root / "rules"


@pytest.fixture(autouse=True)
def _golden(case: Case) -> None:
    case.npy("conv", GOLDEN)


def compared(case: Case, **files: tuple[str, Json]) -> str:
    """Compare with the rules of each graph; return what is printed."""
    outcome = case.run("-fr", write_rules(case, **files))
    assert outcome.code == 0, outcome
    return outcome.out


def names(case: Case) -> list[str]:
    return [re.sub(r"_[0-9]{14}(?=[._])", "", path.name) for path in case.results()]


def test_every_step_of_every_device_in_numeric_order(case: Case) -> None:
    for device in (1, 0):
        for step in (10, 9, 2):
            write_step(case, step, device=device)
    out = compared(case, net=("train_7_11", CONV))
    expected = [(device, step) for device in (0, 1) for step in (2, 9, 10)]
    assert sorted(names(case)) == sorted(f"{device}_train_7_11_{step}_result.csv" for device, step in expected)
    printed = re.findall(r"result: .*/([01])_train_7_11_([0-9]+)_result_[0-9]{14}\.csv", out)
    assert [(int(device), int(step)) for device, step in printed] == expected
    for device, step in expected:
        (path,) = case.results(f"{device}_train_7_11_{step}_result_*.csv")
        assert_measured(read_result(path).row("conv:output:0"), perturbed(GOLDEN, seed=step), GOLDEN)


def test_each_model_uses_the_rules_of_its_graph(case: Case) -> None:
    case.npy("other", numbers(4, 6, seed=5))
    write_step(case, 0, model="train_7_11")
    write_step(case, 0, model="train_7_21")
    renamed = rule("conv", originals=("other",), outputs=(describe("other", 0),))
    compared(case, one=("train_7_11", CONV), two=("train_7_21", renamed))
    found = {path.name[:12]: read_result(path).row("conv:output:0")["GoldenTensor"] for path in case.results()}
    assert found == {"0_train_7_11": "conv:output:0", "0_train_7_21": "other:output:0"}


def test_models_of_the_same_name_and_step_have_separate_results(case: Case) -> None:
    write_step(case, 3, model_id=1)
    write_step(case, 3, model_id=2)
    compared(case, net=("train_7_11", CONV))
    assert len(case.results("0_train_7_11_3_result_*.csv")) == 2


def test_rules_of_another_run_are_found_by_the_number_of_the_graph(case: Case) -> None:
    write_step(case, 1, model="train_7_11")
    out = compared(case, net=("train_6_11", CONV))
    assert "the rules are for train_6_11, the dumps are from train_7_11" in out
    assert names(case) == ["0_train_7_11_1_result.csv"]


def test_a_model_without_rules_does_not_stop_the_others(case: Case) -> None:
    write_step(case, 1)
    write_step(case, 1, model="unknown")
    out = compared(case, net=("train_7_11", CONV))
    folder = step_folder(case, 1, model="unknown")
    assert f"{folder}: not compared: no rule file has a graph named unknown or with its graph number" in out
    assert names(case) == ["0_train_7_11_1_result.csv"]


def mixed(case: Case, folder: Path) -> None:
    case.npu("conv", GOLDEN, folder=folder)
    case.npy("conv", GOLDEN, folder=folder)


def only_debug(case: Case, folder: Path) -> None:
    case.add(folder, f"Opdebug.Node_OpDebug.1.3.{TIME}00", b"nothing")


def arrays(case: Case, folder: Path) -> None:
    case.npy("conv", GOLDEN, folder=folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(mixed, "1 NPU dumps and 1 golden files are mixed here", id="mixed"),
        pytest.param(only_debug, "no files with data of tensors here", id="debug files only"),
        pytest.param(arrays, "arrays (.npy) of an original model", id="arrays"),
    ],
)
def test_a_bad_step_does_not_stop_the_others(case: Case, spoil: Callable[[Case, Path], None], message: str) -> None:
    write_step(case, 1)
    write_step(case, 3)
    spoil(case, step_folder(case, 2))
    out = compared(case, net=("train_7_11", CONV))
    assert names(case) == ["0_train_7_11_1_result.csv", "0_train_7_11_3_result.csv"]
    assert f"{step_folder(case, 2)}: not compared: " in out
    assert message in out


@pytest.mark.parametrize(
    ("files", "more", "code", "message"),
    [
        pytest.param({}, (), 3, "holds no .json rule file", id="no rules"),
        pytest.param({"net": ("other", CONV)}, (), 3, "no rule file has a graph named train_7_11", id="no match"),
        pytest.param({"net": ("train_7_11", CONV)}, ("-cfr",), 2, "only inference takes -cfr", id="-cfr"),
        pytest.param({"net": ("train_7_11", CONV)}, ("-qfr",), 2, "only inference takes -qfr", id="-qfr"),
    ],
)
def test_rejected_options(
    case: Case, files: dict[str, tuple[str, Json]], more: tuple[str, ...], code: int, message: str
) -> None:
    write_step(case, 1)
    (case.root / "rules").mkdir()
    words = [word for option in more for word in (option, case.rules(CONV))]
    assert message in case.refused("-fr", write_rules(case, **files), *words, code=code)


def test_directory_without_training_folders_is_rejected(case: Case) -> None:
    case.npu("conv", GOLDEN)
    message = case.refused("-fr", write_rules(case, net=("train_7_11", CONV)))
    assert f"{case.root / 'rules'}: this is a directory of rule files, which is for training runs" in message
    assert f"{case.target} has no folders DEVICE/MODEL/MODEL_ID/STEP" in message


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        pytest.param("train_7_11", "", id="its graph"),
        pytest.param("train_6_11", "they were written at different times", id="its number"),
        pytest.param("resnet", "the rule file describes resnet, not train_7_11; it is used because", id="another name"),
    ],
)
def test_one_rule_file_for_all_steps_of_one_model(case: Case, graph: str, told: str) -> None:
    for step in (1, 2):
        write_step(case, step)
    out = case.run("-fr", case.rules(CONV, graph=graph)).out
    assert names(case) == ["0_train_7_11_1_result.csv", "0_train_7_11_2_result.csv"]
    for step, path in zip((1, 2), case.results(), strict=True):
        assert_measured(read_result(path).row("conv:output:0"), perturbed(GOLDEN, seed=step), GOLDEN)
    assert told in out
    assert ("the rule" in out) == bool(told)


def test_one_rule_file_of_several_models_compares_its_own(case: Case) -> None:
    write_step(case, 1)
    write_step(case, 1, model="train_7_21")
    done = case.run("-fr", case.rules(CONV, graph="train_7_11"))
    assert names(case) == ["0_train_7_11_1_result.csv"]
    assert "train_7_21/1/1: not compared: no rule file has a graph named train_7_21" in done.out


def test_one_rule_file_of_none_of_several_models_is_refused_with_a_command_that_runs(case: Case) -> None:
    for model in ("train_7_11", "train_7_21"):
        write_step(case, 1, model=model)
    message = case.refused("-fr", case.rules(CONV, graph="resnet"))
    assert "The rules are of resnet. Give a directory that has the rule file of each model: opdiff compare" in message
    rules = write_rules(case, one=("train_7_11", CONV), two=("train_7_21", CONV))
    command = shlex.split(message.rpartition(": ")[2].replace("RULES_DIR", str(rules)))
    assert run(case.capsys, *command[1:], "-o", case.out, "--no-html").code == 0
    assert names(case) == ["0_train_7_11_1_result.csv", "0_train_7_21_1_result.csv"]


@pytest.mark.parametrize("option", ["-cfr", "-qfr"])
def test_rules_of_inference_are_refused_for_steps_with_one_rule_file(case: Case, option: str) -> None:
    write_step(case, 1)
    write_step(case, 2)
    rules = case.rules(CONV, graph="train_7_11")
    message = case.refused("-fr", rules, option, rules, code=2)
    assert f"only inference takes {option}, with the directory of one dump as target" in message
    assert run(case.capsys, *shlex.split(message.rpartition(": ")[2])[1:], "-o", case.out).code == 0


def test_json_is_not_written_step_after_step(case: Case) -> None:
    write_step(case, 1)
    write_step(case, 2)
    message = case.refused("-fr", case.rules(CONV, graph="train_7_11"), "--json", case.root / "answer.json", code=2)
    assert "each step of a training run has its own" in message

"""A rule file of another model: the result says what it describes, and which file is needed."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from command_line import run
from made_dumps import describe, numbers, perturbed, rule

if TYPE_CHECKING:
    from pathlib import Path

    from made_dumps import Case, Json

X = numbers(3, 5)
NAMES = ("conv", "pool", "fc")
NETWORK = tuple(rule(name, outputs=(describe(name, 0),)) for name in NAMES)
QUANTIZED = tuple(rule(f"{name}_quant_layer", originals=(name,)) for name in NAMES)
OTHER = (rule("stem", outputs=(describe("stem", 0),)), rule("conv", outputs=(describe("conv", 0),)))
FOREIGN = OTHER[:1]


def write_sides(case: Case, folder: Path | None = None) -> None:
    for name in NAMES:
        case.npu(name, perturbed(X), folder=folder)
        case.npy(name, X)


@pytest.mark.parametrize("rules", [OTHER, FOREIGN], ids=["one operator in common", "none in common"])
def test_names_of_both_models_and_the_command_that_makes_the_file(case: Case, rules: tuple[Json, ...]) -> None:
    step = case.target / "20240101120000" / "0" / "resnet" / "1" / "2"
    write_sides(case, step)
    done = case.run("-fr", case.rules(*rules))
    assert done.code == 3
    told = done.out.replace("\n  ", " ")
    assert told.startswith("The rule file does not belong to these dumps: it does not contain ")
    assert "\n-fr network.json describes the model model; the dump is of the model resnet.\n" in told
    assert "that ATC makes of it: atc --mode=1 --om=MODEL.om --json=MODEL.json\n" in told
    assert "\nFor a dump of a training run, that is the graph text" in told
    assert "next: " not in done.out


def test_the_file_of_the_same_folder_that_fits_is_the_next_command(case: Case) -> None:
    write_sides(case)
    case.rules(*FOREIGN, file="rules/another.json")
    case.rules(*NETWORK, file="rules/right.json")
    case.add(case.root / "rules", "notes.txt", b"no rules")
    done = case.run("-fr", case.rules(*OTHER, file="rules/given.json"), "--no-html")
    told = " ".join(done.out.split())
    assert f"{case.root}/rules/right.json has 2 of the 2 operators that the given file does not have." in told
    assert "atc" not in done.out
    (command,) = re.findall(r"^next: (.*)$", done.out, re.MULTILINE)
    judged = run(case.capsys, "judge", case.out)
    assert f"next: {command}\n" in judged.out
    compared = run(case.capsys, *shlex.split(command)[1:], "-o", case.root / "again")
    assert (compared.code, "Compared: 3 of 3 operators." in compared.out) == (0, True)


def test_quantization_rules_of_another_model(case: Case) -> None:
    for name in NAMES:
        case.npy(f"{name}_quant_layer", perturbed(X), folder=case.target)
        case.npy(name, X)
    done = case.run("-qfr", case.rules(*FOREIGN, file="given.json"))
    assert (done.code, "-qfr needs the JSON file that AMCT wrote" in done.out) == (3, True)
    assert "-fr needs" not in done.out
    case.rules(*QUANTIZED, file="right.json")
    done = case.run("-qfr", case.root / "given.json")
    assert f"next: opdiff compare {case.target} {case.golden} -qfr {case.root}/right.json\n" in done.out


def test_a_rule_file_that_is_gone_is_not_described(case: Case) -> None:
    write_sides(case)
    path = case.rules(*FOREIGN)
    case.run("-fr", path)
    path.unlink()
    judged = run(case.capsys, "judge", case.out)
    assert "describes the model" not in judged.out
    assert "-fr needs the compiled model that was dumped" in judged.out


def test_other_files_beside_it_cost_nothing(case: Case) -> None:
    write_sides(case)
    folder = case.root / "rules"
    given = case.add(folder, "given.json", b'{"graph": []}')
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "gone.json").symlink_to(folder / "nowhere.json")
    done = case.run("-fr", given)
    assert (done.code, "describes the model" in done.out, "next: " in done.out) == (3, False, False)
    right = case.rules(*NETWORK, file="rules/right.json")
    assert f"next: opdiff compare {case.target} {case.golden} -fr {right}\n" in case.run("-fr", given).out

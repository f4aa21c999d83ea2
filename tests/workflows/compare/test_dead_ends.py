"""Comparisons without a result: what each side has and lacks, the likeliest remedy, a next command."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import Outcome, run
from made_dumps import describe, rule

if TYPE_CHECKING:
    from made_dumps import Case

DATA = np.ones((2, 3))


def sentences(outcome: Outcome) -> str:
    """Return standard output as one line."""
    return " ".join(outcome.out.split())


def next_command(case: Case, outcome: Outcome) -> list[str]:
    """Run the command that was printed; return its words."""
    (command,) = re.findall(r"^next: (.*)$", outcome.out, re.MULTILINE)
    program, *words = shlex.split(command)
    assert program == "opdiff"
    assert run(case.capsys, *words).code == 0
    return words


def test_golden_data_under_other_names(case: Case) -> None:
    case.npu("conv", DATA)
    case.npy("model_conv", DATA)
    rules = case.rules(rule("conv", outputs=(describe("conv", 0),)))
    outcome = case.run("-fr", rules)
    assert outcome.code == 3
    shown = sentences(outcome)
    assert f"The target {case.target} has 1 operator (conv)." in shown
    assert f"The golden {case.golden} has 1 operator (model_conv)." in shown
    assert "The golden lacks 1 operator that it should have (conv)." in shown
    assert "The target lacks" not in shown
    assert (
        f"opdiff golden MODEL --for {rules} -o DIR makes it from the original model under the expected names." in shown
    )
    assert next_command(case, outcome) == ["inspect", str(case.golden)]
    judged = run(case.capsys, "judge", case.out)
    assert "The golden lacks 1 operator that it should have (conv)." in sentences(judged)
    assert next_command(case, judged) == ["inspect", str(case.golden)]


def test_two_npu_dumps_of_different_models(case: Case) -> None:
    for name in ("a", "b", "c", "d"):
        case.npu(name, DATA)
    case.npu_golden("other", DATA)
    outcome = case.run()
    shown = sentences(outcome)
    assert f"The target {case.target} has 4 operators (a, b, c, …)." in shown
    assert "The target lacks 1 operator that it should have (other)." in shown
    assert "The golden lacks 4 operators that it should have (a, b, c, …)." in shown
    assert "give the rule files of both (-fr and -cfr)." in shown
    assert next_command(case, outcome) == ["inspect", str(case.golden)]


def test_a_target_of_which_most_is_missing(case: Case) -> None:
    case.npu("z", DATA)
    case.npy("a", DATA)
    names = ("a", "b", "z")
    rules = case.rules(*(rule(name, outputs=(describe(name, 0),)) for name in names))
    outcome = case.run("-fr", rules)
    shown = sentences(outcome)
    assert "The target lacks 2 operators that it should have (a, b)." in shown
    assert "Probably the target is the dump of another model, or only a part of one" in shown
    assert next_command(case, outcome) == ["inspect", str(case.target)]


def test_rules_of_another_model_are_the_headline(case: Case) -> None:
    case.one(DATA, DATA)
    rules = case.rules(rule("conv9"), rule("conv10"))
    outcome = case.run("-fr", rules)
    assert sentences(outcome).startswith("The rule file does not belong to these dumps:")
    assert "nothing could be compared" not in outcome.out


def test_files_that_cannot_be_read(case: Case) -> None:
    rules = case.one(DATA, DATA)
    (path,) = case.target.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    outcome = case.run("-fr", rules)
    shown = sentences(outcome)
    assert re.search(r"\d of \d rows?: the target file of a cannot be read: ", shown)
    assert "Check that the files of both sides are complete and hold data." in shown
    assert next_command(case, outcome) == ["inspect", str(case.target)]


def test_a_comparison_of_one_tensor_has_a_way_already(case: Case) -> None:
    rules = case.one(DATA, DATA)
    case.npu("b", DATA)
    outcome = case.run("-fr", rules)
    assert "that it should have" not in outcome.out


@pytest.mark.parametrize("target", ["conv", "conv_quant_layer"])
def test_a_dump_and_arrays_without_a_model(case: Case, target: str) -> None:
    case.npu(target, DATA)
    case.npy("conv", DATA)
    outcome = case.run()
    assert (outcome.code, outcome.out) == (2, "")
    problem, command = outcome.err.splitlines()
    assert problem.startswith("opdiff: This comparison needs a rule file: add -fr")
    assert "If there is no .om, compile the model again with the same atc command; or repeat the run with " in problem
    assert command == f"next: opdiff compare {case.target} {case.golden} -fr MODEL.om"

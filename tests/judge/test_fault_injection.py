"""A part of the cases of `make faults` and `make deceptions`: faults are found, and no verdict is certain and wrong."""

from __future__ import annotations

import pytest

from fault_injection import deceptions
from fault_injection.evaluation import ALL_NETWORKS, Evaluation, Setting, iter_outcomes
from fault_injection.networks import NETWORKS
from fault_injection.realistic_networks import REALISTIC_NETWORKS


def test_operators_and_causes_are_found_and_correct_runs_have_no_findings() -> None:
    plain = Evaluation(NETWORKS, seeds=(22,), depths=("middle",), types=("bf16",))
    realistic = Evaluation(REALISTIC_NETWORKS, seeds=(21,), depths=("early", "late"), types=("fp16",))
    outcomes = [*iter_outcomes(plain), *iter_outcomes(realistic)]
    correct = [each for each in outcomes if not each.case.fault]
    assert len(correct) == len(ALL_NETWORKS)
    assert [each.message for each in correct if not each.is_found] == []
    faulty = [each for each in outcomes if each.case.fault]
    assert len(faulty) > 80
    assert sum(each.is_found for each in faulty) / len(faulty) >= 0.95
    assert sum(each.is_named for each in faulty) / len(faulty) >= 0.90


@pytest.mark.parametrize("setting", Setting)
def test_findings_are_proved_with_the_model(setting: Setting) -> None:
    """Replay finds causes that metrics leave open, and blames no operator without fault."""
    faults = ("scale", "foreign", "no activation", "rough function", "other padding", "other resize mode")
    wanted = Evaluation(("detection",), ("fp16",), (23,), ("middle",), faults, setting, with_model=True)
    found = list(iter_outcomes(wanted))
    assert len(found) >= len(faults)
    assert [each for each in found if not each.is_named or each.proved] == []


def test_no_verdict_is_certain_and_wrong_and_unsure_only_where_it_has_to_be() -> None:
    outcomes = list(deceptions.iter_outcomes(seed=5, step=41))
    assert len(outcomes) > 100
    assert [(*each.case[:2], each.message) for each in outcomes if each.result is deceptions.Result.WRONG] == []
    assert {each.case.group for each in outcomes if each.result is deceptions.Result.UNSURE} == {
        "golden data of another network",
        "graph mode: one side reduced",
        "graph mode: reordered and reduced",
        "graph mode: sides exchanged",
        "graph mode: two FX runs",
        "rules of another network",
        "sides exchanged",
    }

"""A part of the cases of `make faults`: operator and cause are found, and correct runs have no findings."""

from __future__ import annotations

import pytest

from fault_injection.evaluation import ALL_NETWORKS, Evaluation, Outcome, Setting, iter_outcomes
from fault_injection.networks import NETWORKS
from fault_injection.realistic_networks import REALISTIC_NETWORKS


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    plain = Evaluation(NETWORKS, seeds=(22,), depths=("middle",), types=("bf16",))
    realistic = Evaluation(REALISTIC_NETWORKS, seeds=(21,), depths=("early", "late"), types=("fp16",))
    return [*iter_outcomes(plain), *iter_outcomes(realistic)]


def test_correct_runs_have_no_findings(outcomes: list[Outcome]) -> None:
    correct = [each for each in outcomes if not each.case.fault]
    assert len(correct) == len(ALL_NETWORKS)
    assert [each.message for each in correct if not each.is_found] == []


def test_operators_and_causes_are_found(outcomes: list[Outcome]) -> None:
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

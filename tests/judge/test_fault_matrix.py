"""A part of the cases of `make faults`: operator and cause are found, and correct runs have no findings."""

from __future__ import annotations

import pytest

from fault_injection.evaluation import ALL_NETWORKS, Outcome, iter_outcomes
from fault_injection.networks import NETWORKS
from fault_injection.realistic_networks import REALISTIC_NETWORKS


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    found = list(iter_outcomes(NETWORKS, seeds=(22,), depths=("middle",), types=("bf16",)))
    return found + list(iter_outcomes(REALISTIC_NETWORKS, seeds=(21,), depths=("early", "late"), types=("fp16",)))


def test_correct_runs_have_no_findings(outcomes: list[Outcome]) -> None:
    correct = [each for each in outcomes if not each.case.fault]
    assert len(correct) == len(ALL_NETWORKS)
    assert [each.message for each in correct if each.message] == []


def test_operators_and_causes_are_found(outcomes: list[Outcome]) -> None:
    faulty = [each for each in outcomes if each.case.fault]
    assert len(faulty) > 80
    assert sum(each.is_found for each in faulty) / len(faulty) >= 0.95
    assert sum(each.is_named for each in faulty) / len(faulty) >= 0.90

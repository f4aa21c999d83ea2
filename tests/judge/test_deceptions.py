"""A part of the cases of `make deceptions`: no verdict is certain and wrong."""

from __future__ import annotations

import pytest

from fault_injection.deceptions import Outcome, Result, iter_outcomes


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(iter_outcomes(seed=5, step=41))


def test_no_verdict_is_certain_and_wrong(outcomes: list[Outcome]) -> None:
    assert len(outcomes) > 100
    assert [(*each.case[:2], each.message) for each in outcomes if each.result is Result.WRONG] == []


def test_verdicts_are_unsure_only_where_they_have_to_be(outcomes: list[Outcome]) -> None:
    unsure = {each.case.group for each in outcomes if each.result is Result.UNSURE}
    assert unsure == {
        "golden data of another network",
        "graph mode: one side reduced",
        "graph mode: reordered and reduced",
        "graph mode: sides exchanged",
        "graph mode: two FX runs",
        "rules of another network",
        "sides exchanged",
    }

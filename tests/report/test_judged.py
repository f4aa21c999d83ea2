"""Levels without a judgement: plain limits."""

from __future__ import annotations

import math

import pytest

from made_reports import BAD, GOOD, OFF, kept, not_compared, row, with_judgement
from opdiff.core.tensor import Slot
from opdiff.report.judged import is_hit, judged, levels_of


@pytest.mark.parametrize(
    ("figures", "level"),
    [
        ({"is_equal": True}, "exact"),
        ({"max_ulp": 1}, "rounding"),
        ({}, "noise"),
        (OFF, "suspicious"),
        ({"relative_euclidean_distance": 0.06}, "suspicious"),
        (BAD, "wrong"),
        ({"special_mismatches": 1}, "wrong"),
        ({"cosine": math.nan, "finite_cosine": 0.999}, "noise"),
        ({"cosine": math.nan, "finite_cosine": 0.9}, "wrong"),
        ({"cosine": None, "finite_cosine": None}, "noise"),
    ],
)
def test_plain_limits(figures: dict[str, object], level: str) -> None:
    assert levels_of(kept(row("a", **GOOD | figures))) == (level,)


def test_what_was_not_measured_is_not_comparable() -> None:
    assert levels_of(kept(not_compared("a"))) == ("not comparable",)


def test_errors_are_born_where_inputs_are_good() -> None:
    found = judged(
        kept(row("a", Slot.INPUT), row("a", **BAD), row("b", Slot.INPUT, **BAD), row("b", **BAD), row("c", **BAD))
    )
    assert found.origins == ("", "born", "", "inherited", "")
    assert found.first_bad == "a"
    assert found.is_plain


def test_a_judgement_comes_before_plain_limits() -> None:
    assert levels_of(with_judgement()) == ("exact", "wrong", "wrong", "noise")


@pytest.mark.parametrize(
    ("gate", "levels", "hit"),
    [
        ("wrong", ["noise", "suspicious"], False),
        ("wrong", ["wrong"], True),
        ("suspicious", ["noise", "suspicious"], True),
        ("suspicious", ["wrong"], True),
        ("suspicious", ["noise", "not comparable"], False),
    ],
)
def test_gates(gate: str, levels: list[str], hit: bool) -> None:
    assert is_hit(gate, levels) is hit

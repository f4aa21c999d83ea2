"""Intervals of shares and differences, and the documented limits."""

from __future__ import annotations

import numpy as np
import pytest

from opdiff.core.judgement import Outcome
from opdiff.judge.task_accuracy import difference_of, disagreement_of, outcome_of, share_of


@pytest.mark.parametrize(
    ("number", "total", "low", "high"),
    # Published examples: Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_of_shares_are_the_published_ones(number: int, total: int, low: float, high: float) -> None:
    share = share_of(number, total)
    assert (share.low, share.high) == pytest.approx((low, high), abs=5e-5)
    other = share_of(total - number, total)
    assert (other.low, other.high) == pytest.approx((1 - high, 1 - low), abs=5e-5)


@pytest.mark.parametrize(("accuracy", "lost", "gained"), [(0.8, 0.03, 0.01), (0.95, 0.01, 0.01), (0.5, 0.005, 0.0)])
def test_intervals_of_differences_hold_the_truth_usually(accuracy: float, lost: float, gained: float) -> None:
    shares = (accuracy - lost, lost, gained, 1 - accuracy - gained)
    draws = np.random.default_rng(0).multinomial(300, shares, 4000)
    intervals = [difference_of(int(draw[1]), int(draw[2]), 300) for draw in draws]
    held = np.mean([each.low <= lost - gained <= each.high for each in intervals])
    assert held >= 0.94


@pytest.mark.parametrize(
    ("lost", "gained", "total", "expected"),
    [
        (0, 0, 20, Outcome.UNSURE),
        (0, 0, 200, Outcome.CLEAN),
        (5, 0, 20, Outcome.WRONG),
        (1, 0, 20, Outcome.UNSURE),
        (30, 10, 1000, Outcome.SUSPICIOUS),
        (3, 1, 100, Outcome.UNSURE),
        (80, 10, 1000, Outcome.WRONG),
        (100, 90, 10_000, Outcome.CLEAN),
        (310, 10, 10_000, Outcome.WRONG),
        (10, 310, 10_000, Outcome.WRONG),
        (10, 200, 10_000, Outcome.SUSPICIOUS),
        (500, 500, 1000, Outcome.UNSURE),
    ],
)  # fmt: skip
def test_outcomes(lost: int, gained: int, total: int, expected: Outcome) -> None:
    assert outcome_of(difference_of(lost, gained, total)) is expected


def test_without_labels_the_disagreement_is_the_difference() -> None:
    loss = disagreement_of(share_of(980, 1000))
    assert loss.value == pytest.approx(0.02)
    assert loss.low == pytest.approx(1 - share_of(980, 1000).high)
    assert outcome_of(loss) is Outcome.SUSPICIOUS

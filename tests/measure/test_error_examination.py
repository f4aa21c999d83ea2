"""Facts about a sample of elements: located if the sample represents the tensors, otherwise nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.measure.error_examination import measure_sampled_facts

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.error_facts import ErrorFacts

SHAPE = (4, 16, 50)
GOLDEN = np.random.default_rng(0).normal(size=SHAPE)
PLACES = np.random.default_rng(1).choice(GOLDEN.size, 800, replace=False)


def sampled(target: AnyArray, error: float | None = None) -> ErrorFacts | None:
    whole = float(np.linalg.norm(target - GOLDEN) / np.linalg.norm(GOLDEN)) if error is None else error
    values = target.ravel()[PLACES], GOLDEN.ravel()[PLACES]
    return measure_sampled_facts(7, *values, np.unravel_index(PLACES, SHAPE), SHAPE, whole)


def test_the_slice_with_the_error_is_found() -> None:
    target = GOLDEN.copy()
    target[:, 5] += 1
    facts = sampled(target)
    assert facts is not None
    assert (facts.row, facts.count, facts.axis, facts.extent, facts.index) == (7, 800, 1, 16, 5)
    assert (facts.slice_share, facts.is_sample) == (1.0, True)
    assert facts.golden_share == pytest.approx(1 / 16, rel=0.5)


@pytest.mark.parametrize("place", [PLACES[0], np.setdiff1d(np.arange(GOLDEN.size), PLACES)[0]], ids=["in", "outside"])
def test_a_single_element_is_not_represented(place: int) -> None:
    target = GOLDEN.copy()
    target.ravel()[place] += 100
    assert sampled(target) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_values_without_finite_squares(value: float) -> None:
    assert sampled(np.full(SHAPE, value), 1.0) is None

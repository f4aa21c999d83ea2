"""Best classes: the definition, ties, NaN and infinities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opdiff.measure.topn import NO_CLASS, are_among, best_classes, scores_of

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

INF, NAN = np.inf, np.nan


def by_definition(row: list[float], k: int) -> list[int]:
    """Sort by score, then by class; a row with NaN has no order."""
    if any(np.isnan(row)):
        return [NO_CLASS] * k
    return sorted(range(len(row)), key=lambda number: (-row[number], number))[:k]


# Few different values, so that ties are usual.
TIED = st.sampled_from([-INF, -1, 0, 2, INF, NAN])


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(2, 12)), elements=TIED), st.data())
def test_the_best_classes_are_those_of_the_definition(scores: AnyArray, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, scores.shape[1]))
    best = best_classes(scores, k)
    assert best.classes.tolist() == [by_definition(row, k) for row in scores.tolist()]
    np.testing.assert_array_equal(best.has_nan, np.isnan(scores).any(axis=1))
    for number in range(k):
        expected = np.where(best.has_nan, NAN, scores_of(scores, best.classes[:, number]))
        np.testing.assert_array_equal(best.scores[:, number], expected)


@pytest.mark.parametrize(
    ("row", "expected"),
    [([1, 5, 5, 0], [1, 2]), ([0, 0, 0, 0], [0, 1]), ([-INF, -INF, -INF, 1], [3, 0]), ([INF, 1, INF, 2], [0, 2])],
    ids=["tie at the top", "all equal", "negative infinities", "infinities"],
)
def test_of_equal_scores_the_lower_class_is_better(row: list[float], expected: list[int]) -> None:
    assert best_classes(np.array([row], np.float64), 2).classes.tolist() == [expected]


def test_no_class_is_never_among_the_best() -> None:
    best = np.array([[1, 2], [NO_CLASS, NO_CLASS], [3, 4]])
    assert are_among(np.array([2, NO_CLASS, 2]), best).tolist() == [True, False, False]

"""Values of replayed operators."""

from __future__ import annotations

from math import inf

import pytest

from opdiff.core.replay import ReplayedOutput


@pytest.mark.parametrize(
    ("error", "limit", "excess"),
    [(0.0, 0.0, 0.0), (0.0, 1e-3, 0.0), (2e-3, 1e-3, 2.0), (1e-9, 0.0, inf)],
    ids=["nothing allowed and nothing found", "equal", "twice the limit", "nothing allowed"],
)
def test_excess_is_the_error_in_units_of_its_limit(error: float, limit: float, excess: float) -> None:
    assert ReplayedOutput("op:output:0", "op:0", error, limit).excess == excess

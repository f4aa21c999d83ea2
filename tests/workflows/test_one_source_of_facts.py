"""The same fact in every command: positions of infinities, and metrics of tensors that have some."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from dump_files import tensor
from made_dumps import Case, describe, numbers, rule
from opdiff.core import dtypes

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

GOLDEN = numbers(1, 20, 3, 4)


@pytest.fixture
def overflowed(case: Case) -> Case:
    """Two infinities in a tensor that is stored by channel tiles, where another order of elements applies."""
    target: AnyArray = GOLDEN.copy()
    target[0, 3, 2, 1] = target[0, 17, 0, 0] = np.inf
    target[0, 5, 1, 1] = 40.0
    case.npu("a", tensor(target, dtypes.FLOAT16, "NC1HWC0"))
    case.npy("a", GOLDEN)
    case.rules(rule("a", outputs=(describe("a", 0, layout="NCHW"),)))
    return case


def test_the_first_infinity_has_one_position(overflowed: Case) -> None:
    row = overflowed.compared("-fr", overflowed.root / "network.json").of("a")
    assert row["FirstSpecialMismatch"] == "[0,3,2,1]"
    (saved,) = overflowed.out.glob("result_*.json")
    assert "the first at [0, 3, 2, 1]" in run(overflowed.capsys, "judge", saved).out
    assert "2 infinite in 240, first at [0, 3, 2, 1]" in run(overflowed.capsys, "overflow", overflowed.target).out


def test_the_metrics_of_finite_elements_are_apart(overflowed: Case) -> None:
    rules = overflowed.root / "network.json"
    row = overflowed.compared("-fr", rules).of("a")
    sides = overflowed.target, overflowed.golden
    said = run(overflowed.capsys, "op", "a:output:0", *sides, "--rules", rules, "-o", overflowed.out).out
    assert row["CosineSimilarity"] == "NaN"
    assert re.search(r"\* output:0   float16 +nan +inf +inf\n", said)
    finite = re.search(r"238 finite elements +(\S+) +(\S+) +(\S+)\n", said)
    assert finite is not None
    assert float(finite[1]) == pytest.approx(float(row["FiniteCosine"]), rel=1e-4)
    assert float(finite[2]) == pytest.approx(40.0 - GOLDEN[0, 5, 1, 1], rel=1e-3)

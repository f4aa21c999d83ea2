"""Errors near the ends of float64, and unexpected errors of the judge: each concerns its own operator only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode
from opdiff.core.judgement import Level
from tensor_rows import judge_rows, numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row

GOLDEN = numbers(0, 4, 25).astype(np.float64)
OP_TYPES = ("Conv2D", "Softmax", "LayerNorm", "Relu", "Add", "Mul", "TopK", "Cast", "MaxPool", "AscendQuant", "Unheard")


def with_element(value: float) -> AnyArray:
    array = GOLDEN.copy()
    array[1, 2] = value
    return array


def chain(target: AnyArray, golden: AnyArray, op_type: str) -> tuple[list[Row], list[GraphNode]]:
    """Return three operators in a row, of which the second one has this target."""
    sides = {"a": (GOLDEN, GOLDEN), "b": (target, golden), "c": (target, golden)}
    rows = [row(name, *both, dtype=dtypes.FLOAT64, op_type=op_type) for name, both in sides.items()]
    return rows, [GraphNode("a", "Conv2D", ()), GraphNode("b", op_type, ("a:0",)), GraphNode("c", op_type, ("b:0",))]


@pytest.mark.parametrize("op_type", OP_TYPES)
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        pytest.param(with_element(1e160), GOLDEN, id="1e160"),
        pytest.param(with_element(1e200), GOLDEN, id="1e200"),
        pytest.param(with_element(-1.7e308), GOLDEN, id="largest float64"),
        pytest.param(GOLDEN, GOLDEN * 1e-160, id="golden times 1e-160"),
        pytest.param(GOLDEN, GOLDEN * 1e-307, id="golden times 1e-307"),
        pytest.param(GOLDEN * 1e300, GOLDEN * 1e-307, id="both ends"),
        pytest.param(GOLDEN * 1e307, GOLDEN * -1e307, id="large on both sides"),
    ],
)
def test_any_magnitude_of_error_is_judged(target: AnyArray, golden: AnyArray, op_type: str) -> None:
    rows, nodes = chain(target, golden, op_type)
    found = judge_rows(rows, *nodes)
    assert found.defects == ()
    assert [verdict.level for verdict in found.verdicts[:2]] == [Level.EXACT, Level.WRONG]
    assert found.worst == "b"


def test_an_unexpected_error_costs_the_verdicts_of_one_operator() -> None:
    rows, nodes = chain(with_element(3.0), GOLDEN, "Conv2D")
    metrics = rows[1].metrics
    assert metrics is not None
    broken = replace(rows[1], metrics=replace(metrics, worst_golden="no number"))
    found = judge_rows([rows[0], broken, rows[2]], *nodes)
    assert [verdict.level for verdict in found.verdicts] == [Level.EXACT, Level.NOT_COMPARABLE, Level.WRONG]
    assert found.verdicts[1].rule.code == "judge.defect"
    assert "TypeError" in found.defects[0]

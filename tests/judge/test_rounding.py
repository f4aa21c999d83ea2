"""Rounding that is large against a small result: cancelled sums, and operators that were not compared."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode, Row
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot
from tensor_rows import judge_rows, numbers, row

CENTRED = numbers(5, 64, 256)
CENTRED -= CENTRED.mean(-1, keepdims=True)


@pytest.mark.parametrize("op_type", ["ReduceMean", "LayerNormV4", "ReduceSum"])
@pytest.mark.parametrize(("error", "is_bad"), [(1e-8, False), (1e-5, True)], ids=["rounding", "fault"])
def test_a_sum_of_centred_values_may_be_off_by_the_rounding_of_its_terms(
    op_type: str, error: float, is_bad: bool
) -> None:
    golden = (1e-9 * numbers(6, 64, 1)).astype(np.float32)
    target = (golden + error * numbers(7, 64, 1)).astype(np.float32)
    given = [
        row("x", CENTRED, CENTRED, dtype=dtypes.FLOAT32),
        row("mean", target, golden, dtype=dtypes.FLOAT32, op_type=op_type),
    ]
    found = judge_rows(given, GraphNode("x", "Conv2D"), GraphNode("mean", op_type, ("x:0",)))
    assert [finding.operator for finding in found.findings] == ["mean"] * is_bad


@pytest.mark.parametrize("has_cast", [False, True], ids=["directly", "behind a conversion compared with itself"])
@pytest.mark.parametrize(("factor", "is_bad"), [(3.0, False), (3.3, True)], ids=["rounding", "fault"])
def test_an_operator_that_was_not_compared_rounds_too(has_cast: bool, factor: float, is_bad: bool) -> None:
    """A product in float16, of which nearly all is subtracted."""
    a = numbers(8, 32, 32).astype(np.float16)
    b = (3 * a.astype(np.float32) + 0.25 * numbers(9, 32, 32)).astype(np.float16)
    product = (np.float16(factor) * a).astype(np.float16)
    golden = (b.astype(np.float32) - 3 * a.astype(np.float32)).astype(np.float16)
    last = "cast" if has_cast else "product"
    given: list[Row] = [row("product", a, a, Slot.INPUT, op_type="Mul")]
    if has_cast:
        inserted = because("pair.inserted", op_type="Cast", index=0)
        given.append(replace(row("cast", product, product, op_type="Cast"), evidence=inserted))
    given += [row("rest", b, b, Slot.INPUT, op_type="Sub"), row("rest", b - product, golden, op_type="Sub")]
    nodes = [GraphNode("a", "Data"), GraphNode("b", "Data"), GraphNode("product", "Mul", ("a:0",))]
    nodes += [GraphNode("cast", "Cast", ("product:0",))] * has_cast
    found = judge_rows(given, *nodes, GraphNode("rest", "Sub", ("b:0", f"{last}:0")))
    assert bool(found.findings) == is_bad

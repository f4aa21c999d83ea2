"""Levels of tensors: faults that a cosine lets pass, rounding of cancelled sums, errors near the ends of float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode, Row
from opdiff.core.judgement import Level
from opdiff.core.tensor import Slot
from tensor_rows import judge_rows, numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

WAVE = np.sin(np.linspace(0, 6, 4096)).astype(np.float32)
ONE_LARGE_ROW = numbers(6, 16, 512) * np.where(np.arange(16) == 0, 100, 1)[:, np.newaxis].astype(np.float32)
GOLDEN = numbers(0, 4, 25).astype(np.float64)
OP_TYPES = ("Conv2D", "Softmax", "LayerNorm", "Relu", "Add", "Mul", "TopK", "Cast", "MaxPool", "AscendQuant", "Unheard")


def changed(array: AnyArray, where: Any, values: Any) -> AnyArray:
    """Return an array with other values at some positions."""
    made = array.copy()
    made[where] = values
    return made


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        pytest.param(numbers(1, 64, 64) * 2, numbers(1, 64, 64), id="doubled"),
        pytest.param(numbers(2, 64, 64) + 50, numbers(3, 64, 64) + 50, id="common offset"),
        pytest.param(changed(numbers(4, 256, 256), (7, 9), 30), numbers(4, 256, 256), id="one outlier"),
        pytest.param(changed(numbers(5, 16384), slice(None, None, 100), 0), numbers(5, 16384), id="zeroed"),
        pytest.param(
            changed(ONE_LARGE_ROW, slice(1, None), numbers(7, 15, 512)), ONE_LARGE_ROW, id="all but the largest channel"
        ),
        pytest.param(np.rint(numbers(8, 128, 128) * 10) / np.float32(10), numbers(8, 128, 128), id="coarse steps"),
        pytest.param(np.roll(WAVE, 40), WAVE, id="shifted"),
        pytest.param(np.clip(numbers(9, 128, 128), -2.2, 2.2), numbers(9, 128, 128), id="clipped"),
        pytest.param(0.5 + 0.04 * numbers(10, 64, 64), 0.5 + 0.04 * numbers(11, 64, 64), id="positive"),
    ],
)
def test_faults_invisible_to_the_cosine(target: AnyArray, golden: AnyArray) -> None:
    """Nine faults that a cosine of 0.99 lets pass and the verdict does not, as docs/metrics/README.md lists them."""
    found = row("op", target, golden)
    assert found.metrics is not None
    assert found.metrics.cosine is not None
    assert found.metrics.cosine >= 0.99
    (verdict,) = judge_rows([found], GraphNode("op", "Conv2D")).verdicts
    assert verdict.level.is_bad, verdict


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16])
def test_rounding_is_not_a_fault(dtype: dtypes.DType) -> None:
    golden = numbers(1, 64, 64)
    (verdict,) = judge_rows([row("op", golden, golden, dtype=dtype)], GraphNode("op", "Conv2D")).verdicts
    assert verdict.level == "rounding"


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
        given.append(replace(row("cast", product, product, op_type="Cast"), is_own_input=True))
    given += [row("rest", b, b, Slot.INPUT, op_type="Sub"), row("rest", b - product, golden, op_type="Sub")]
    nodes = [GraphNode("a", "Data"), GraphNode("b", "Data"), GraphNode("product", "Mul", ("a:0",))]
    nodes += [GraphNode("cast", "Cast", ("product:0",))] * has_cast
    found = judge_rows(given, *nodes, GraphNode("rest", "Sub", ("b:0", f"{last}:0")))
    assert bool(found.findings) == is_bad


def chain(target: AnyArray, golden: AnyArray, op_type: str) -> tuple[list[Row], list[GraphNode]]:
    """Return three operators in a row, of which the second one has this target."""
    sides = {"a": (GOLDEN, GOLDEN), "b": (target, golden), "c": (target, golden)}
    rows = [row(name, *both, dtype=dtypes.FLOAT64, op_type=op_type) for name, both in sides.items()]
    return rows, [GraphNode("a", "Conv2D", ()), GraphNode("b", op_type, ("a:0",)), GraphNode("c", op_type, ("b:0",))]


@pytest.mark.parametrize("op_type", OP_TYPES)
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        pytest.param(changed(GOLDEN, (1, 2), 1e160), GOLDEN, id="1e160"),
        pytest.param(changed(GOLDEN, (1, 2), 1e200), GOLDEN, id="1e200"),
        pytest.param(changed(GOLDEN, (1, 2), -1.7e308), GOLDEN, id="largest float64"),
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
    rows, nodes = chain(changed(GOLDEN, (1, 2), 3.0), GOLDEN, "Conv2D")
    metrics = rows[1].metrics
    assert metrics is not None
    broken = replace(rows[1], metrics=replace(metrics, worst_golden="no number"))
    found = judge_rows([rows[0], broken, rows[2]], *nodes)
    assert [verdict.level for verdict in found.verdicts] == [Level.EXACT, Level.NOT_COMPARABLE, Level.WRONG]
    assert found.verdicts[1].rule.code == "judge.defect"
    assert "TypeError" in found.defects[0]

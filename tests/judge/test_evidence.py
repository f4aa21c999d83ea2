"""Evidence is checked on the elements: it is given only if it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core.comparison import GraphNode, ModelGraph
from opdiff.core.error_facts import Explanation, ExplanationKind
from opdiff.core.reasons import because
from opdiff.judge.comparison_judgement import judge
from opdiff.measure.error_examination import measure_error_facts
from tensor_rows import numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.judgement import Finding

NODES = (GraphNode("a", "Conv2D", ("x:0",)), GraphNode("b", "Add", ("a:0", "y:0")))
GOLDEN = numbers(1, 1, 32, 12, 8)


def finding(
    target: AnyArray,
    golden: AnyArray,
    *,
    examined: bool = True,
    op_type: str = "Conv2D",
    explanations: tuple[Explanation, ...] = (),
) -> Finding:
    """Return the finding about one operator."""
    facts = measure_error_facts(0, target, golden)
    assert facts is not None
    facts = replace(facts, explanations=explanations)
    graph = ModelGraph((GraphNode("a", op_type, ("x:0",)),))
    judged = judge([row("a", target, golden, op_type=op_type)], [graph], facts=(facts,) if examined else ())
    return judged.findings[0]


def codes(found: Finding) -> list[str]:
    return [reason.code for reason in found.evidence]


def with_outliers(target: AnyArray) -> AnyArray:
    changed = target.copy()
    changed.reshape(-1)[::1000] += 60
    return changed


def test_a_few_elements_and_the_error_of_the_others() -> None:
    found = finding(with_outliers(GOLDEN), GOLDEN)
    assert (found.kind, codes(found)) == ("outliers", ["judge.few_carry", "judge.others_error", "judge.worst_element"])
    assert (found.evidence[0].fact("count"), found.evidence[1].fact("rest")) == (4, 0.0)


@pytest.mark.parametrize("examined", [True, False])
def test_large_elements_among_many_wrong_ones_are_no_outliers(*, examined: bool) -> None:
    wrong = (GOLDEN * (1 + 0.5 * np.sign(numbers(2, *GOLDEN.shape)))).astype(np.float32)
    assert finding(with_outliers(wrong), GOLDEN, examined=examined).kind != "outliers"


def test_one_channel_is_located() -> None:
    target = GOLDEN.copy()
    target[:, 7] = -target[:, 7]
    found = finding(target, GOLDEN)
    assert found.kind == "channel"
    assert str(found.evidence[0]) == "100% of the squared error is in slice 7 of the 32 along axis 1"


def test_a_wrong_channel_of_quantized_values_is_not_permuted() -> None:
    golden = np.round(GOLDEN[:, :6] * 2) / 2
    target = golden.copy()
    # The same few steps in another order.
    target[:, 3] = golden[:, 3, ::-1, ::-1]
    assert finding(target, golden, op_type="AscendDequant").kind == "quantization"


def test_as_many_elements_as_a_channel_has_are_no_channel() -> None:
    target = GOLDEN.copy()
    target.reshape(-1)[5::31] += 3
    assert finding(target, GOLDEN).kind != "channel"
    assert "slice" not in " ".join(map(str, finding(target, GOLDEN).evidence))


def test_a_slope_that_does_not_explain_the_target_is_no_scale() -> None:
    golden = np.zeros((1, 4, 16, 16), np.float32)
    golden[..., 3] = 1.0
    target = np.full_like(golden, 1 / 16) + 0.002 * numbers(3, *golden.shape)
    for examined in (True, False):
        assert finding(target, golden, examined=examined, op_type="SoftmaxV2").kind != "scale"


def test_a_scale_is_told_with_what_it_leaves() -> None:
    found = finding(GOLDEN * 0.2, GOLDEN)
    assert (found.kind, codes(found)) == ("scale", ["judge.scaled", "judge.linear_fit"])


def test_permuted_values_are_compared_after_sorting() -> None:
    found = finding(GOLDEN[:, ::-1].copy(), GOLDEN)
    assert (found.kind, codes(found)) == ("permuted", ["judge.same_values", "judge.reordered"])
    assert finding(with_statistics_of(GOLDEN), GOLDEN).kind != "permuted"


def test_a_storage_order_that_explains_the_error_is_the_first_evidence_of_permuted_values() -> None:
    order = because("workflows.axis_reversed", axis="axis 1")
    explanation = Explanation(ExplanationKind.REVERSED_AXIS, order, 0.9, 1e-4, GOLDEN.size, GOLDEN.size)
    found = finding(GOLDEN[:, ::-1].copy(), GOLDEN, explanations=(explanation,))
    assert (found.kind, codes(found)) == ("permuted", ["judge.stored_order", "judge.same_values"])
    text = "axis 1 is reversed: relative error 0.9 before, 0.0001 in the right order"
    assert str(found.evidence[0]) == text
    # Padding took the place of values, so that the statistics differ.
    unknown = finding(np.roll(GOLDEN * np.sign(GOLDEN), 7), GOLDEN)
    explained = finding(np.roll(GOLDEN * np.sign(GOLDEN), 7), GOLDEN, explanations=(explanation,))
    assert (unknown.kind, explained.kind, codes(explained)[0]) == ("unknown", "permuted", "judge.stored_order")
    scaled = finding(GOLDEN * 0.2, GOLDEN, explanations=(explanation,))
    assert (scaled.kind, codes(scaled)[-1]) == ("scale", "judge.stored_order")


def with_statistics_of(golden: AnyArray) -> AnyArray:
    """Return other values with the same mean, standard deviation, minimum and maximum."""
    low, high = golden.min(), golden.max()
    inner = golden.size - 2
    size = np.sqrt(((golden.astype(np.float64) ** 2).sum() - low**2 - high**2) / inner)
    surplus = (golden.sum() - low - high) / size
    signs = np.where(np.arange(inner) < (inner + surplus) / 2, 1, -1)
    values: AnyArray = np.concatenate([[low, high], size * np.random.default_rng(4).permutation(signs)])
    return values.reshape(golden.shape).astype(np.float32)


def test_an_output_that_equals_an_input_is_not_foreign_memory() -> None:
    other = numbers(5, *GOLDEN.shape)
    rows = [row("a", GOLDEN, GOLDEN), row("b", GOLDEN, other, op_type="Add", golden_name="b")]
    found = judge(rows, [ModelGraph(NODES)]).findings[0]
    assert (found.operator, found.kind, str(found.evidence[0].fact("tensor"))) == ("b", "operand", "a:output:0")


def test_errors_of_any_magnitude_have_facts() -> None:
    large = measure_error_facts(0, GOLDEN.astype(np.float64) * 1e200, GOLDEN.astype(np.float64) * 1.1e200)
    assert large is not None
    assert large.count == GOLDEN.size
    assert measure_error_facts(0, GOLDEN, GOLDEN) is None
    nothing = np.full((3, 4), np.nan)
    assert measure_error_facts(0, nothing, nothing) is None

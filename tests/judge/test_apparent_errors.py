"""Errors that look like faults and are none, and faults that look like noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode, Row
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import Status, because
from opdiff.core.tensor import Slot
from tensor_rows import judge_rows, numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

A, B = numbers(1, 1, 16, 16, 16), numbers(2, 1, 16, 16, 16)


def noise(seed: int, part: float) -> AnyArray:
    made: AnyArray = 1 + part * np.random.default_rng(seed).normal(0, 1, A.shape)
    return made


def integers(name: str, op_type: str, error: float) -> list[Row]:
    golden = np.rint(1e4 * A).astype(np.int32)
    target = np.rint(golden + error * np.random.default_rng(3).normal(0, 1, A.shape)).astype(np.int32)
    weights = np.ones(16, np.int8)
    return [
        row(name, weights, weights, Slot.INPUT, op_type=op_type, dtype=dtypes.INT8),
        row(name, target, golden, op_type=op_type, dtype=dtypes.INT32),
    ]


@pytest.mark.parametrize(
    ("op_type", "error", "level"),
    [
        pytest.param("Conv2D", 20.0, "noise", id="accumulators"),
        pytest.param("Conv2D", 5000.0, "wrong", id="wrong accumulators"),
        pytest.param("GatherV2", 20.0, "wrong", id="indices"),
    ],
)
def test_integers_are_exact_unless_they_are_quantized_quantities(op_type: str, error: float, level: str) -> None:
    found = judge_rows(integers("c", op_type, error), GraphNode("c", op_type, ("q:0",)))
    assert found.verdicts[1].level == level


def test_the_error_of_a_small_difference_is_noise() -> None:
    nodes = [
        GraphNode("a", "Conv2D", ("x:0",)),
        GraphNode("b", "Conv2D", ("x:0",)),
        GraphNode("d", "Sub", ("a:0", "b:0")),
        GraphNode("e", "Conv2D", ("d:0",)),
    ]
    near = A + 3e-3 * B
    left, right = (A * noise(3, 2e-4)).astype(np.float32), (near * noise(4, 2e-4)).astype(np.float32)
    rows = [
        row("a", left, A),
        row("b", right, near),
        row("d", left - right, A - near, op_type="Sub"),
        row("e", left - right, A - near),
    ]
    found = judge_rows(rows, *nodes)
    assert [verdict.level for verdict in found.verdicts[2:]] == ["noise"] * 2
    assert (found.verdicts[2].rule.code, found.outcome, found.findings) == ("judge.small_difference", "clean", ())
    assert found.outputs.agreement == "slight"


def test_a_good_reader_refutes_the_error_of_its_input() -> None:
    nodes = [GraphNode("a", "Conv2D", ("x:0",)), GraphNode("b", "Conv2D", ("a:0",)), GraphNode("c", "Relu", ("b:0",))]
    rows = [row("a", A, A * 1.5), row("b", B * noise(5, 3e-4), B), row("c", 0.9 * B, B, op_type="Relu")]
    found = judge_rows(rows, *nodes)
    assert [(finding.operator, finding.kind) for finding in found.findings] == [("c", "scale"), ("a", "pairing")]
    assert found.findings[1].evidence[0].fact("reader") == "b"
    assert found.findings[0].share == pytest.approx(1.0, abs=1e-4)


def test_a_slight_scale_of_many_elements_is_no_noise() -> None:
    quantized = "AscendDequant"
    nodes = [GraphNode("a", "Conv2D", ("x:0",)), GraphNode("b", quantized, ("a:0",))]
    good = [row("a", A * noise(6, 4e-4), A), row("b", A * noise(7, 8e-3), A, op_type=quantized)]
    assert judge_rows(good, *nodes).findings == ()
    bad = [good[0], row("b", 1.008 * A * noise(7, 8e-3), A, op_type=quantized)]
    found = judge_rows(bad, *nodes)
    assert [(each.level, each.rule.code) for each in found.verdicts[1:]] == [("suspicious", "judge.systematic_scale")]
    assert [finding.operator for finding in found.findings] == ["b"]


def test_a_run_in_which_all_operators_move_a_little_is_called_so() -> None:
    names = [f"n{number}" for number in range(12)]
    nodes = [GraphNode(name, "Conv2D", (f"{before}:0",)) for before, name in zip(["x", *names], names, strict=False)]
    factors = [np.cumprod([noise(n, part) for n in range(12)], axis=0) for part in (2e-4, 9e-4)]
    runs = [[row(name, A * factor, A) for name, factor in zip(names, each, strict=True)] for each in factors]
    still, moved = (judge_rows(run, *nodes) for run in runs)
    assert "judge.noisy_run" not in [sentence.code for sentence in still.advice]
    assert [sentence.code for sentence in moved.advice[:2]] == ["judge.outputs_match", "judge.noisy_run"]
    assert moved.findings == ()


@pytest.mark.parametrize(
    ("part", "sentences"),
    [
        pytest.param(2e-3, ["judge.outputs_match", "judge.noisy_run", "judge.within_noise"], id="noise"),
        pytest.param(2e-2, ["judge.outputs_significant", "judge.noisy_run", "judge.noisiest"], id="too much for noise"),
    ],
)
def test_operators_that_add_nothing_do_not_hide_that_others_move(part: float, sentences: list[str]) -> None:
    names = [f"n{number}" for number in range(21)]
    types = ["Conv2D" if number % 5 in (0, 2) else "TransData" for number in range(21)]
    sources = zip(["x", *names], names, types, strict=False)
    nodes = [GraphNode(name, op_type, (f"{before}:0",)) for before, name, op_type in sources]
    factors = np.cumprod([noise(n, part) if types[n] == "Conv2D" else np.ones_like(A) for n in range(21)], axis=0)
    given = [row(name, A * factors[n], A, op_type=types[n]) for n, name in enumerate(names)]
    found = judge_rows(given, *nodes)
    assert [sentence.code for sentence in found.advice[:3]] == sentences
    assert {finding.share for finding in found.findings} <= {None}


def test_without_a_graph_candidates_are_listed() -> None:
    found = judge_rows([row("a", A * 1.2, A), row("b", B + 1, B), row("c", A * 1.2, A)])
    assert because("judge.order_only", operators=("a", "b", "c")) in found.advice


def test_operators_without_edges_are_connected_by_equal_data() -> None:
    rows = [
        row("a", A * noise(8, 3e-4), A),
        row("b", B * 1.3, B, op_type="MatMul"),
        row("c", A * noise(8, 3e-4), A, Slot.INPUT, golden_name="c", index=0),
        row("c", A * noise(9, 3e-4), A),
        row("d", B * 1.3, B, Slot.INPUT, golden_name="d", index=0),
        row("d", B * 1.3, B),
    ]
    found = judge_rows(rows)
    assert [finding.operator for finding in found.findings] == ["b"]
    assert [verdict.origin for verdict in found.verdicts] == ["", "born", "", "", "inherited", "inherited"]


def test_an_input_of_unknown_origin_is_that_of_the_missing_operator() -> None:
    nodes = [GraphNode(name, "Conv2D", is_guess=True) for name in ("a", "x", "c")]
    vanished = Row(
        OpLabel(0, 0, "", "*", "x"), reason=because("pair.no_file", Status.NOT_DUMPED, side="target", name="x")
    )
    rows = [
        row("a", A * noise(8, 3e-4), A),
        row("c", B * 1.3, B, Slot.INPUT, golden_name="c"),
        row("c", B * 1.3, B),
        vanished,
    ]
    found = judge_rows(rows, *nodes)
    assert [(finding.operator, finding.missing) for finding in found.findings] == [("x", vanished.reason)]
    assert (found.coverage.operators, found.coverage.compared) == (3, 2)


@pytest.mark.parametrize(
    ("op_type", "survivors", "error", "level"),
    [
        pytest.param("Conv2D", 1, 0.01, "noise", id="one sum that nearly cancels"),
        pytest.param("Conv2D", 8, 0.01, "suspicious", id="all sums"),
        pytest.param("Conv2D", 1, 0.06, "wrong", id="large error"),
        pytest.param("Mul", 1, 0.01, "suspicious", id="no sum"),
    ],
)
def test_few_sums_may_nearly_cancel(op_type: str, survivors: int, error: float, level: str) -> None:
    golden = np.zeros((1, 8, 1, 1), np.float32)
    golden[0, :survivors] = 0.3
    found = judge_rows([row("c", golden * (1 + error), golden, op_type=op_type)], GraphNode("c", op_type, ("x:0",)))
    assert found.verdicts[0].level == level

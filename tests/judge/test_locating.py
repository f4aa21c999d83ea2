"""Origins of errors: branches, several faults, uncompared operators, guessed edges; findings proved by replay."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode, ModelGraph, Row, SideInfo
from opdiff.core.judgement import ErrorKind, Finding, Judgement, Level
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import Language, Status, because, catalogue, quoted, render
from opdiff.core.replay import Replay, ReplayedOutput, ReplayVerdict
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.advice import kind_name, remedies_of
from opdiff.judge.comparison_judgement import judge
from opdiff.judge.replay_verdicts import with_replays
from tensor_rows import judge_rows, numbers, row

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray


def noisy(x: AnyArray, seed: int = 99, part: float = 3e-4) -> AnyArray:
    made: AnyArray = (x * (1 + part * np.random.default_rng(seed).normal(0, 1, x.shape))).astype(np.float32)
    return made


A, B, C, D = (numbers(seed, 1, 16, 8, 8) for seed in range(4))
NODES = (
    GraphNode("a", "Conv2D", ("x:0",)),
    GraphNode("b", "Relu", ("a:0",)),
    GraphNode("c", "Conv2D", ("a:0",), ("c", "c_bn"), ("ConvBatchnormFusionPass",), ("TbeFusionPass",)),
    GraphNode("d", "Add", ("b:0", "c:0")),
    GraphNode("out", "NetOutput", ("d:0",)),
)


def rows(a: AnyArray, b: AnyArray, c: AnyArray, d: AnyArray) -> list[Row]:
    return [
        row("a", a, A),
        row("b", b, B, op_type="Relu"),
        row("c", c, C),
        row("d", d, D, op_type="Add"),
    ]


def test_a_correct_network_has_no_findings() -> None:
    found = judge_rows(rows(noisy(A), noisy(B), noisy(C), noisy(D)), *NODES)
    assert found.findings == ()
    assert [sentence.code for sentence in found.advice] == [
        "judge.outputs_match", "judge.within_noise", "judge.look_elsewhere", "judge.coverage",
    ]  # fmt: skip
    assert (found.outputs.tensor, found.coverage.compared, found.outcome) == ("d:output:0", 4, "clean")


def test_an_error_of_a_branch_is_inherited_downstream() -> None:
    found = judge_rows(rows(noisy(A), noisy(B), C * 1.1, D + 0.1 * C), *NODES)
    assert [(verdict.level, verdict.origin) for verdict in found.verdicts] == [
        ("noise", ""), ("noise", ""), ("wrong", "born"), ("wrong", "inherited"),
    ]  # fmt: skip
    (finding,) = found.findings
    assert (finding.operator, finding.kind, finding.path) == ("c", "scale", ("c", "d"))
    assert finding.share == 1.0
    assert (found.first_bad, found.worst) == ("c", "c")
    assert because("judge.hidden_faults", count=1) in found.advice
    assert "target = 1.09999" in str(finding.evidence[1])


def test_several_faults() -> None:
    found = judge_rows(rows(noisy(A), np.zeros_like(B), C * 1.1, D - B + 0.1 * C), *NODES)
    assert {finding.operator: finding.kind for finding in found.findings} == {"b": "memory", "c": "scale"}
    assert (found.worst, found.first_bad) == ("b", "b")
    assert found.findings[0].share is not None
    assert found.findings[0].share > 0.8


def test_a_second_fault_behind_the_first() -> None:
    found = judge_rows(rows(A * 1.03, B * 1.03, noisy(C, part=0.03), D * np.nan), *NODES)
    assert {finding.operator for finding in found.findings} == {"a", "d"}
    assert next(finding for finding in found.findings if finding.operator == "d").kind == "overflow"


def test_an_input_stands_in_for_an_output_that_was_not_compared() -> None:
    bad = A[:, ::-1].copy()
    given = [
        Row(OpLabel(0, 0, "Conv2D", "a", "a"), reason=quoted("no file")),
        row("b", bad, A, Slot.INPUT, op_type="Relu", golden_name="a"),
        row("b", B[:, ::-1].copy(), B, op_type="Relu"),
        row("c", bad, A, Slot.INPUT, golden_name="a"),
        *rows(A, B, C[:, ::-1].copy(), D * 1.5)[2:],
    ]
    found = judge_rows(given, *NODES)
    (finding,) = found.findings
    assert (finding.operator, finding.tensor, finding.kind, finding.share) == ("a", "b:input:0", "permuted", 1.0)
    assert finding.missing == quoted("no file")
    assert [verdict.origin for verdict in found.verdicts[1:]] == ["inherited"] * 5
    assert [found.advice[0].code, found.advice[1].code] == ["judge.outputs_significant", "judge.suspect"]


@pytest.mark.parametrize(("compared", "share"), [(4, 1.0), (3, 1.0), (1, None)])
def test_the_share_of_outputs_is_known_if_they_or_their_inputs_were_compared(
    compared: int, share: float | None
) -> None:
    given = rows(A * 1.1, B * 1.1, C * 1.1, D * 1.1)
    missing = [replace(row, metrics=None, reason=quoted("no file")) for row in given[compared:]]
    (finding,) = judge_rows([*given[:compared], *missing], *NODES).findings
    assert (finding.operator, finding.share) == ("a", share)


def test_an_output_whose_damaged_header_has_another_type_is_passed_through() -> None:
    target, golden = SideInfo(dtype="int8"), SideInfo(dtype="float32")
    label, key = OpLabel(0, 0, "Relu", "b", "b"), TensorKey("b", Slot.OUTPUT, 0)
    damaged = Row(label, key, target=target, golden=golden, reason=quoted("sizes differ"))
    found = judge_rows([row("a", noisy(A), A), damaged, *rows(A, B, noisy(C), noisy(D))[2:]], *NODES)
    assert (found.findings, found.defects) == ((), ())


def test_a_missing_operator_with_a_good_stand_in_is_not_a_suspect() -> None:
    given = [
        row("b", noisy(A), A, Slot.INPUT, op_type="Relu", golden_name="a"),
        *rows(A, noisy(B), noisy(C), noisy(D))[1:],
    ]
    found = judge_rows(given, *NODES)
    assert (found.findings, found.coverage.unseen, found.outcome) == ((), (), "clean")


def test_operators_behind_the_last_compared_tensor_are_not_acquitted() -> None:
    label = OpLabel(0, 0, "Add", "d", "d")
    found = judge_rows([*rows(noisy(A), noisy(B), noisy(C), D)[:3], Row(label, reason=quoted("no file"))], *NODES)
    assert (found.coverage.unseen, found.outcome) == (("d",), "unsure")
    codes = [sentence.code for sentence in found.advice]
    assert codes[0] == "judge.outputs_missing"
    assert "judge.compared_within_noise" in codes
    assert "judge.not_acquitted" in codes


def test_good_outputs_are_named_before_a_fault_inside() -> None:
    found = judge_rows(rows(noisy(A), noisy(B), C * 1.1, noisy(D)), *NODES)
    assert [sentence.code for sentence in found.advice[:2]] == ["judge.outputs_match", "judge.inner_fault"]


def test_the_larger_excess_comes_first_without_shares() -> None:
    nodes = [*NODES[:4], GraphNode("e", "Relu", ("d:0",)), GraphNode("out", "NetOutput", ("e:0",))]
    given = rows(A * 1.002, noisy(B), noisy(C), D * 2)
    found = judge_rows([*given, row("e", noisy(D), D, op_type="Relu")], *nodes)
    assert [(finding.operator, finding.share) for finding in found.findings] == [("d", None), ("a", None)]
    assert because("judge.named_fault", operator="a", kind=kind_name(ErrorKind.SCALE)) in [
        fault for sentence in found.advice if isinstance(faults := sentence.fact("faults"), tuple) for fault in faults
    ]


def test_rules_of_another_model_blame_no_operator() -> None:
    unknown = [
        Row(OpLabel(9, 0, "Conv2D", name, "*"), reason=because("pair.not_in_rules", Status.NOT_IN_RULES))
        for name in ("p", "q", "r", "s", "t")
    ]
    given = [*rows(noisy(A), noisy(B), C * 2, D * 2), *unknown]
    found = judge_rows(given, *NODES)
    assert (found.findings, found.outcome, found.advice[0].code) == ((), "unsure", "judge.rules_do_not_fit")
    assert found.advice[0].fact("examples") == ("p", "q", "r")
    forced = judge(given, [ModelGraph(NODES)], check_same_model=False)
    assert (forced.worst, forced.misfit, forced.advice[0].code) == ("c", None, "judge.low_coverage")


def test_an_uncompared_operator_is_named_with_the_next() -> None:
    given = [each for each in rows(noisy(A), noisy(B), C, D * 2) if each.key and each.key.op != "c"]
    (finding,) = judge_rows(given, *NODES).findings
    assert (finding.operator, finding.before) == ("d", ("c",))


def test_a_different_model_input() -> None:
    bad = row("a", A * 0.5, A, Slot.INPUT, golden_name="x")
    found = judge_rows([bad, *rows(numbers(7, *A.shape), B, C, D)], GraphNode("x", "Data"), *NODES)
    assert found.findings[0].kind == "input"


def test_an_input_that_changed_in_memory() -> None:
    changed = row("b", numbers(8, *A.shape), A, Slot.INPUT, op_type="Relu", golden_name="a")
    found = judge_rows([*rows(noisy(A), numbers(9, *B.shape), C, noisy(D)), changed], *NODES)
    assert (found.findings[0].operator, found.findings[0].tensor) == ("b", "b:input:0")
    assert found.findings[0].kind == "memory"


def test_a_wrong_pairing() -> None:
    found = judge_rows(rows(noisy(A), noisy(B), numbers(20, *C.shape), noisy(D)), *NODES)
    assert [finding.kind for finding in found.findings] == ["pairing"]


def test_without_a_graph_the_first_bad_operator_is_at_fault() -> None:
    found = judge_rows(rows(noisy(A), B * 1.2, C + 0.3, noisy(D)))
    assert (found.first_bad, found.findings[0].kind) == ("b", "scale")


def test_near_ties_of_indices_are_not_a_fault() -> None:
    indices = np.arange(8, dtype=np.int32)
    other = indices[::-1].copy()
    values = numbers(3, 8)
    node = GraphNode("t", "TopKV2")
    given = [
        row("t", values, values, op_type="TopKV2"),
        row("t", other, indices, op_type="TopKV2", index=1, dtype=dtypes.INT32),
    ]
    assert judge_rows(given, node).verdicts[1].level == "noise"
    given[0] = row("t", values * 3, values, op_type="TopKV2")
    assert judge_rows(given, node).verdicts[1].level == "wrong"


def test_indices_that_a_reader_stands_in_for_are_inherited_there() -> None:
    """The row is that of the reader, the fault that of the operator whose indices were not compared."""
    indices = np.arange(16, dtype=np.int32)
    nodes = GraphNode("top", "ArgMaxV2", ("x:0",)), GraphNode("reader", "GatherV2", ("top:0",))
    given = [row("reader", indices[::-1].copy(), indices, Slot.INPUT, op_type="GatherV2", dtype=dtypes.INT32)]
    found = judge_rows(given, *nodes)
    assert [(verdict.level, verdict.origin) for verdict in found.verdicts] == [("wrong", "inherited")]
    assert [(finding.operator, finding.kind) for finding in found.findings] == [("top", "indices")]


def test_a_cyclic_graph() -> None:
    nodes = GraphNode("a", "Conv2D", ("b:0",)), GraphNode("b", "Relu", ("a:0",))
    assert judge_rows(rows(A * 2, B, C, D), *nodes).worst == "a"


def test_rows_without_metrics() -> None:
    label = OpLabel(0, 0, "Conv2D", "a", "a")
    given = [
        Row(label, reason=quoted("no file")),
        Row(label, TensorKey("a", Slot.OUTPUT, 0), reason=quoted("torn")),
    ]
    found = judge(given, ())
    assert [verdict.level for verdict in found.verdicts] == ["not comparable"] * 2
    assert found.advice == (because("judge.nothing_compared"),)


def calls_for(rows: int) -> int:
    """Number of function calls to judge a chain of operators."""
    one = row("a", A * 1.1, A)
    nodes = [GraphNode(f"n{number}", "Conv2D", (f"n{number - 1}:0",)) for number in range(rows)]
    given = [replace(one, key=TensorKey(node.name, Slot.OUTPUT, 0)) for node in nodes]
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        judge(given, [ModelGraph(tuple(nodes))])
    finally:
        sys.setprofile(None)
    return calls


def test_judging_takes_linear_time() -> None:
    assert 0 < calls_for(800) < 2.2 * calls_for(400)


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_of_error_has_a_name_and_a_remedy(kind: ErrorKind) -> None:
    reasons = kind_name(kind), *remedies_of(kind, ("APass",), ("BPass",))
    assert [reason.code for reason in reasons if reason.code not in catalogue()] == []
    assert "APass, BPass" in render(reasons[-1], Language.CHINESE)


def test_advice_in_chinese_has_the_evidence() -> None:
    golden = numbers(1, 4, 8, 8)
    fault = judge_rows([row("a", 2 * golden, golden)], GraphNode("a", "Conv2D")).advice[0]
    assert re.search(r"缩放系数错误.*标杆张量的 [12.9]+ 倍", render(fault, Language.CHINESE))


GUILTY = Replay(
    "b", "Conv2D", ReplayVerdict.GUILTY, outputs=(ReplayedOutput("b:output:0", "b:0", error=0.1, limit=0.001),)
)


def finding(name: str, share: float | None) -> Finding:
    return Finding(name, "Conv2D", f"{name}:output:0", Level.WRONG, ErrorKind.SCALE, share=share)


@pytest.mark.parametrize(
    ("shares", "order"),
    [((0.9, 0.1), "ab"), ((0.5, 0.5), "ba"), ((None, 0.1), "ba"), ((0.9, None), "ba"), ((None, None), "ba")],
)
def test_proved_findings_come_after_larger_shares_only(shares: tuple[float | None, float | None], order: str) -> None:
    findings = (finding("a", shares[0]), finding("b", shares[1]))
    judged = with_replays(Judgement("", (), findings, worst="a"), (), (GUILTY,))
    assert "".join(found.operator for found in judged.findings) == order
    assert judged.worst == order[0]
    assert [found.is_proved for found in judged.findings] == [name == "b" for name in order]

"""Pairing of tensors in graph mode, and reasons of unpaired tensors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from graph_dumps import TIME, GraphCase, Table, floats
from opdiff.sample.graph_mode import ge_dump
from opdiff.sample.graph_text import TextNode
from opdiff.sample.names import DumpName

A, B, C = (np.random.default_rng(seed).uniform(1, 2, (3, 4)).astype(np.float32) for seed in range(3))
SMALL = floats([1, 2, 3])


def golden(table: Table, api: str) -> str:
    """Return the part of the golden file name between the node's target and the timestamp."""
    name = table.of(api)["golden_data_path"].rpartition("/")[2]
    return name.rpartition(".npy")[0].rpartition(".")[0] or name


def test_outputs_are_paired_by_their_number_in_the_graph_text(case: GraphCase) -> None:
    """The outputs of GE may be in another order than those of FX."""
    case.text(TextNode("Split", "Split", output_fx=("split-aten.split.OUTPUT.1", "split-aten.split.OUTPUT.0")))
    case.ge("Split", (), (A, B))
    case.node("split-aten.split", (), (B, A))
    assert case.table().results == {"Split.output.0": "PASS", "Split.output.1": "PASS"}


def test_output_without_fx_name_is_unpaired(case: GraphCase) -> None:
    """Real operators have outputs in another order than FX, and outputs that FX does not have."""
    case.text(TextNode("TopK", "TopK", output_fx=("topk-aten.topk.OUTPUT.0", "")))
    case.ge("TopK", (), (A, B))
    case.node("topk-aten.topk", (), (A, B))
    table = case.table()
    assert table.results == {"TopK.output.0": "PASS", "TopK.output.1": "FAIL"}
    assert table.of("TopK.output.1")["Err_message"] == "TopK:1 is made inside an FX operator; FX has no such tensor"


def test_inputs_are_paired_by_the_graph_text(case: GraphCase) -> None:
    """The converter swapped the arguments, and one of the inputs names its FX tensor."""
    case.text(
        TextNode("Mul", "Mul", output_fx=("mul-aten.mul.OUTPUT.0",)),
        TextNode("Sub", "Sub", ("Mul:0", "Exp:0"), ("", "exp-aten.exp.OUTPUT.0"), ("sub-aten.sub.OUTPUT.0",)),
    )
    case.ge("Sub", (A, B), (C,), op_type="Sub")
    case.node("mul-aten.mul", (), (A,))
    case.node("exp-aten.exp", (), (B,))
    case.node("sub-aten.sub", (B, A), (C,))
    table = case.table()
    assert table.results == {"Sub.input.0": "PASS", "Sub.input.1": "PASS", "Sub.output.0": "PASS"}
    assert golden(table, "Sub.input.0") == "mul-aten.mul.OUTPUT.0"
    assert table.of("Sub.input.0")["match_rule"] == "_fx_tensor_name mul-aten.mul.OUTPUT.0"
    assert golden(table, "Sub.input.1") == "exp-aten.exp.OUTPUT.0"


def test_other_inputs_are_paired_with_matching_arguments(case: GraphCase) -> None:
    """By shape if it is unique, otherwise by values, with low confidence."""
    case.text(TextNode("Conv", "Conv", ("x:0", "w:0", "b:0"), output_fx=("conv-aten.conv.OUTPUT.0",)))
    case.ge("Conv", (A, SMALL, B), (C,), op_type="Conv")
    case.node("conv-aten.conv", (A, None, 7, [1, 2], "text", SMALL, [B, C]), (C,))
    table = case.table()
    assert golden(table, "Conv.input.0") == "conv-aten.conv.INPUT.0"
    assert golden(table, "Conv.input.1") == "conv-aten.conv.INPUT.5"
    assert golden(table, "Conv.input.2") == "conv-aten.conv.INPUT.6.0"
    assert set(table.results.values()) == {"PASS"}
    assert [table.of(f"Conv.input.{index}")["confidence"] for index in range(3)] == ["0.6", "0.95", "0.6"]


def test_lists_of_more_than_ten_tensors_keep_their_order(case: GraphCase) -> None:
    parts = [np.full(3, number, np.float32) for number in range(1, 13)]
    case.text(TextNode("Cat", "Cat", tuple(f"x{n}:0" for n in range(12)), output_fx=("cat-aten.cat.OUTPUT.0",)))
    case.ge("Cat", tuple(parts), (np.concatenate(parts),))
    case.node("cat-aten.cat", (parts,), (np.concatenate(parts),))
    assert set(case.table().results.values()) == {"PASS"}


def test_missing_producer_is_replaced_by_the_argument(case: GraphCase) -> None:
    case.text(
        TextNode("Mul", "Mul", output_fx=("mul-aten.mul.OUTPUT.0",)),
        TextNode("Relu", "Relu", ("Mul:0",), output_fx=("relu-aten.relu.OUTPUT.0",)),
    )
    case.ge("Relu", (A,), (A,), op_type="Relu")
    case.node("relu-aten.relu", (A,), (A,))
    table = case.table()
    assert golden(table, "Relu.input.0") == "relu-aten.relu.INPUT.0"


def test_a_fused_operator_against_fx(case: GraphCase) -> None:
    case.text(
        TextNode("Add", "Add", ("x:0", "y:0"), output_fx=("add-aten.add.OUTPUT.0",)),
        TextNode("Mul_1", "Mul", ("Add:0", "Exp:0"), output_fx=("mul_1-aten.mul.OUTPUT.0",)),
        TextNode("Exp", "Exp", output_fx=("exp-aten.exp.OUTPUT.0",)),
    )
    case.ge("AddMul_1", (A, B, C), (A * C,), op_type="AutomaticBufferFusionOp")
    case.node("add-aten.add", (A, B), (A,))
    case.node("mul_1-aten.mul", (A, C), (A * C,))
    case.node("exp-aten.exp", (), (C,))
    table = case.table()
    assert set(table.results.values()) == {"PASS"}
    assert golden(table, "AddMul_1.input.1") == "add-aten.add.INPUT.1"
    assert golden(table, "AddMul_1.input.2") == "exp-aten.exp.OUTPUT.0"
    row = table.of("AddMul_1.output.0")
    assert row["match_rule"].endswith("(names of the graph, joined: Add, Mul_1)")
    assert (row["confidence"], row["golden_op_type"]) == ("0.8", "aten.mul")


def test_fused_operator_with_parts_missing_in_the_golden(case: GraphCase) -> None:
    """The input of a missing part is the output of its producer; its output has no counterpart."""
    case.text(
        TextNode("Exp", "Exp"),
        TextNode("Add", "Add", ("Exp:0", "y:0")),
        TextNode("Mul", "Mul", ("Add:0",)),
    )
    case.ge("AddMul", (A, B), (C,), op_type="Fused")
    case.ge("Exp", (), (A,), root=case.off, op_type="Exp")
    table = case.table(golden=case.off)
    assert table.of("AddMul.input.0")["match_rule"].startswith("output 0 of Exp, which Add reads")
    assert table.of("AddMul.input.1")["Err_message"] == ("the golden dump has neither input 1 of Add nor output 0 of y")
    assert table.of("AddMul.output.0")["Err_message"] == "the golden dump has no output 0 of Mul"


def test_inserted_conversions_are_compared_with_themselves(case: GraphCase) -> None:
    case.one(A, A)
    case.ge("trans_Cast_9", (A.astype(np.float16),), (A.astype(np.float16).astype(np.float32),), op_type="Cast")
    case.ge("trans_TransData_1", (A,), (B,), op_type="TransData")
    table = case.table()
    assert table.of("trans_Cast_9.output.0")["Result"] == "PASS"
    assert table.of("trans_Cast_9.output.0")["golden_data_path"].endswith(",inputs,0")
    assert table.of("trans_Cast_9.output.0")["confidence"] == "0.6"
    assert table.of("trans_TransData_1.output.0")["Result"] == "FAIL"


def test_unpaired_operators_have_a_row(case: GraphCase) -> None:
    case.text(
        TextNode("Add", "Add", output_fx=("add-aten.add.OUTPUT.0",)),
        TextNode("Shape", "Shape"),
        TextNode("x", "Data"),
        TextNode("Neg", "Neg", output_fx=("neg-aten.neg.OUTPUT.1",)),
    )
    for name in ("Add", "Shape", "x", "Neg", "PartitionedCall_0"):
        case.ge(name, (), (A,), op_type=name)
    case.node("neg-aten.neg", (), (A,))
    case.node("unused-aten.unused", (), (A,))
    table = case.table(code=3)
    reasons = {row["API Name"]: row["Err_message"] for row in table.rows}
    assert reasons["Add.output.0"] == "the golden dump has no FX operator add-aten.add"
    assert reasons["Shape"] == "the graph names no FX tensor for Shape: it is a helper that FX does not have"
    assert reasons["x"] == "x (Data) only carries data; FX has no such operator"
    assert reasons["Neg.output.0"] == "the golden dump has no output 1 of neg-aten.neg"
    assert reasons["PartitionedCall_0"].startswith("the graph has no operator PartitionedCall_0;")
    rows = [row for row in table.rows if row["API Name"] == "N/A"]
    assert [row["Data Name"][:28] for row in rows] == [
        "[N/A, neg-aten.neg.OUTPUT.0.",
        "[N/A, unused-aten.unused.OUT",
    ]
    assert all(row["cmp_fail_reason"] for row in table.rows)
    assert {row["Result"] for row in table.rows} == {"FAIL", "N/A"}


def test_largest_of_several_dumps_of_one_operator_is_used(case: GraphCase) -> None:
    case.one(A, A)
    case.ge("Add", (), (SMALL,))
    table = case.table()
    assert table.of("Add.output.0")["Result"] == "PASS"
    assert "was dumped 2 times in this token; the largest file is compared" in table.of("Add")["Err_message"]


def test_smaller_golden_dumps_of_one_operator_are_rows(case: GraphCase) -> None:
    case.text(TextNode("Add", "Add"))
    case.ge("Add", (), (A,))
    case.ge("Add", (), (A,), root=case.off)
    case.ge("Add", (), (SMALL,), root=case.off)
    table = case.table(golden=case.off)
    assert table.of("Add.output.0")["Result"] == "PASS"
    (other,) = [row for row in table.rows if row["API Name"] == "N/A"]
    assert "was dumped 2 times in this token; the largest file is compared" in other["Err_message"]


@pytest.mark.parametrize("executions", [1, 2])
def test_inputs_and_outputs_of_one_execution_are_joined(case: GraphCase, executions: int) -> None:
    case.one(A, A)
    folder = next(case.target.rglob("Add.Add.*")).parent
    shutil.rmtree(folder)
    case.node("add-aten.add.Tensor", (A,), ())
    for number in range(2 * executions):
        content = ge_dump([], [A]) if number % 2 else ge_dump([A], [])
        case.add(folder / str(DumpName("Add", "Add", 1, 6, TIME + number)), content)
    table = case.table()
    row = table.of("Add.output.0")
    assert row["Result"] == "PASS"
    assert f"{TIME + 1},outputs,0" in row["Data Name"]
    assert f"{TIME},inputs,0" in table.of("Add.input.0")["Data Name"]
    assert len([row for row in table.rows if "was dumped 2 times" in row["Err_message"]]) == executions - 1


def test_rows_are_in_the_order_of_time(case: GraphCase) -> None:
    nodes = [TextNode(f"Op_{n}", "Op", ("x:0",) * 12, output_fx=(f"op_{n}-aten.op.OUTPUT.0",)) for n in range(3)]
    case.text(*nodes)
    for number in (2, 0, 1):
        case.ge(f"Op_{number}", (SMALL,) * 12, (A,), op_type="Op", time=9 + number)
        case.node(f"op_{number}-aten.op", (SMALL,) * 12, (A,))
    rows = case.table().rows
    expected = [f"Op_{n}.{slot}" for n in range(3) for slot in (*(f"input.{k}" for k in range(12)), "output.0")]
    assert [row["API Name"] for row in rows] == expected
    assert [row["data_id"] for row in rows] == [str(number) for number in range(len(rows))]


def test_without_graph_text_operators_are_paired_by_name(case: GraphCase) -> None:
    case.ge("Add", (A,), (B,))
    case.ge("Add", (A,), (B,), root=case.off)
    outcome = case.run(golden=case.off)
    assert outcome.code == 0
    assert "there is no graph text: only operators of the same name are compared" in outcome.out


def test_stack_info_is_read_from_the_listing_next_to_the_graph_text(case: GraphCase) -> None:
    case.one(A, A)
    text = next(case.target.glob("*.txt"))
    text.with_suffix(".py").write_text('# File "model.py", line 3, in forward  x\nAdd_0 = ge.Add(x, node_name="Add")\n')
    assert case.table().of("Add.output.0")["Stack Info"] == 'File "model.py", line 3, in forward'

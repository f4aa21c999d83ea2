"""Pairing of tensors in real files: every relation between operators, and every form of file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dump_files import TIME, tensor
from made_dumps import Case, Json, assert_measured, describe, numbers, perturbed, rule
from opdiff.core import dtypes

A, B, C = (numbers(4, 6, seed=seed) for seed in range(3))
X, Y, Z = (perturbed(golden, seed=seed) for seed, golden in enumerate((A, B, C)))


def described(*origins: str) -> tuple[Json, ...]:
    return tuple(describe(origin, 0) if origin else describe() for origin in origins)


def test_one_to_one(case: Case) -> None:
    case.npy("a", A)
    case.npy("b", B)
    case.npu("a", X)
    case.npu("b", Y, inputs=(X,))
    result = case.compared("-fr", case.rules(rule("a"), rule("b", inputs=("a:0",))))
    assert result.pairs == [
        "a | a | a:output:0 = a:output:0",
        "b | b | b:input:0 = a:output:0",
        "b | b | b:output:0 = b:output:0",
    ]
    assert [row["Index"] for row in result.rows] == ["0", "1", "1"]
    assert_measured(result.row("a:output:0"), X, A)
    assert_measured(result.row("b:input:0"), X, A)
    assert_measured(result.row("b:output:0"), Y, B)


def test_renamed(case: Case) -> None:
    case.npy("scope/conv.1", A)
    case.npu("trans_conv", X)
    rules = case.rules(rule("trans_conv", originals=("scope/conv.1",), outputs=(describe(),)))
    result = case.compared("-fr", rules)
    assert result.pairs == ["trans_conv | scope/conv.1 | trans_conv:output:0 = scope/conv.1:output:0"]
    assert_measured(result.rows[0], X, A)


def test_many_to_one(case: Case) -> None:
    case.npy("conv", A)
    case.npy("relu", B)
    case.npu("convrelu", Y)
    rules = case.rules(rule("convrelu", originals=("conv", "relu"), outputs=described("relu")))
    result = case.compared("-fr", rules)
    assert result.pairs == ["convrelu | conv,relu | convrelu:output:0 = relu:output:0"]
    assert_measured(result.rows[0], Y, B)


def test_one_to_many(case: Case) -> None:
    case.npy("data", A)
    case.npy("fc", C)
    case.npu("data", X)
    case.npu("fc_1", Y, inputs=(X,))
    case.npu("fc_2", Z, inputs=(Y,))
    case.npu("fc_3", Z, inputs=(X,))
    rules = case.rules(
        rule("data"),
        rule("fc_1", originals=("fc",), inputs=("data:0",), outputs=described(""), part=True),
        rule("fc_2", originals=("fc",), inputs=("fc_1:0",), outputs=described("fc"), part=True),
        rule("fc_3", originals=("fc",), inputs=("data:0",), outputs=described("fc"), part=True),
    )
    result = case.compared("-fr", rules)
    group = "fc_1,fc_2,fc_3 | fc"
    assert result.pairs == [
        "data | data | data:output:0 = data:output:0",
        f"{group} | fc_2:input:0 = ?",
        f"{group} | fc_2:output:0 = fc:output:0",
        f"{group} | fc_3:input:0 = data:output:0",
        f"{group} | fc_3:output:0 = fc:output:0",
    ]
    assert "names no original tensor for output 0 of fc_1" in result.row("fc_2:input:0")["CompareFailReason"]
    assert_measured(result.row("fc_3:input:0"), X, A)
    assert_measured(result.row("fc_2:output:0"), Z, C)


def test_many_to_many(case: Case) -> None:
    case.npy("k", A)
    case.npy("l", B)
    case.npu("p", X)
    case.npu("q", Y, inputs=(X,))
    rules = case.rules(
        rule("p", originals=("k", "l"), outputs=described("k")),
        rule("q", originals=("k", "l"), inputs=("p:0",), outputs=described("l")),
    )
    result = case.compared("-fr", rules)
    assert result.pairs == [
        "p,q | k,l | p:output:0 = k:output:0",
        "p,q | k,l | q:input:0 = k:output:0",
        "p,q | k,l | q:output:0 = l:output:0",
    ]
    assert_measured(result.row("q:input:0"), X, A)
    assert_measured(result.row("q:output:0"), Y, B)


def test_l1_fusion_compares_the_first_and_the_last_operator(case: Case) -> None:
    for name, golden in zip("abc", (A, B, C), strict=True):
        case.npy(name, golden)
    # Not in the order of the rule file.
    case.npu("t3", Z, time=TIME + 30)
    case.npu("t1", X, time=TIME + 10)
    case.npu("t2", Y, time=TIME + 20)
    rules = case.rules(
        rule("t2", originals=("b",), outputs=described("b"), l1="7"),
        rule("t1", originals=("a",), outputs=described("a"), l1="7"),
        rule("t3", originals=("c",), outputs=described("c"), l1="7"),
    )
    result = case.compared("-fr", rules)
    assert result.pairs == [
        "t2,t1,t3 | b,a,c | t1:output:0 = a:output:0",
        "t2,t1,t3 | b,a,c | t3:output:0 = c:output:0",
    ]
    assert_measured(result.row("t3:output:0"), Z, C)


def test_several_outputs_each_with_its_own_original(case: Case) -> None:
    case.npy("split", A, B, C)
    case.npu("s", Z, X, Y)
    outputs = (describe("split", 2), describe("split", 0), describe("split", 1))
    result = case.compared("-fr", case.rules(rule("s", originals=("split",), outputs=outputs)))
    assert [row["GoldenTensor"] for row in result.rows] == ["split:output:2", "split:output:0", "split:output:1"]
    for row, (ours, theirs) in zip(result.rows, ((Z, C), (X, A), (Y, B)), strict=True):
        assert_measured(row, ours, theirs)


def test_more_outputs_than_described_are_not_compared_with_the_first(case: Case) -> None:
    case.npy("a", A)
    case.npu("a", X, Y)
    result = case.compared("-fr", case.rules(rule("a", outputs=(describe("a", 0),))))
    assert_measured(result.row("a:output:0"), X, A)
    row = result.row("a:output:1")
    assert (row["CosineSimilarity"], row["GoldenTensor"]) == ("NaN", "")
    assert row["CompareFailReason"]


def test_output_without_description_keeps_the_order_of_others(case: Case) -> None:
    case.npy("a", A, B)
    case.npu("a", X, Y)
    undescribed = {"dtype": "DT_FLOAT"}
    rules = case.rules(rule("a", originals=("x", "a"), outputs=(undescribed, describe("a", 1))))
    result = case.compared("-fr", rules)
    assert result.row("a:output:0")["GoldenTensor"] == ""
    assert_measured(result.row("a:output:1"), Y, B)


def test_inputs_are_traced_through_inserted_operators(case: Case) -> None:
    image = numbers(1, 20, 3, 4)
    half = tensor(image, dtypes.FLOAT16)
    stored = tensor(image, dtypes.FLOAT16, "NC1HWC0")
    case.npy("img", image)
    case.npy("conv", A)
    case.npu("cast_0", half, inputs=(image,), op_type="Cast")
    case.npu("trans_1", stored, inputs=(half,), op_type="TransData")
    case.npu("conv", X, inputs=(stored, Y))
    rules = case.rules(
        rule("img", "Data", outputs=(describe("img", 0, layout="NCHW"),)),
        rule("cast_0", "Cast", originals=(), inputs=("img:0",), outputs=(describe(),)),
        rule("trans_1", "TransData", originals=(), inputs=("cast_0:0",), outputs=(describe(),)),
        rule("conv", inputs=("trans_1:0", "weights:0", "control:-1"), outputs=(describe("conv", 0),)),
    )
    result = case.compared("-fr", rules)
    assert result.pairs == [
        "img | img | NaN = ?",
        "cast_0 | * | cast_0:input:0 = img:output:0",
        "cast_0 | * | cast_0:output:0 = img:output:0",
        "trans_1 | * | trans_1:input:0 = img:output:0",
        "trans_1 | * | trans_1:output:0 = img:output:0",
        "conv | conv | conv:input:0 = img:output:0",
        "conv | conv | conv:input:1 = ?",
        "conv | conv | conv:output:0 = conv:output:0",
    ]
    for key in ("cast_0:output:0", "trans_1:output:0", "conv:input:0"):
        assert result.row(key)["Equal"] == "YES", key
    assert result.row("conv:input:0")["Shape"] == "[1,20,3,4]"
    assert "NC1HWC0" in result.row("conv:input:0")["Conversion"]
    assert (
        "weights, which feeds input 1 of conv, is not in the rule file"
        in (result.row("conv:input:1")["CompareFailReason"])
    )


def test_an_input_of_a_producer_with_several_outputs(case: Case) -> None:
    case.npy("split", A, B)
    case.npu("split", X, Y)
    case.npu("use", X, inputs=(Y,))
    rules = case.rules(
        rule("split", outputs=(describe("split", 0), describe("split", 1))), rule("use", inputs=("split:1",))
    )
    row = case.compared("-fr", rules).row("use:input:0")
    assert row["GoldenTensor"] == "split:output:1"
    assert_measured(row, Y, B)


def test_operators_of_the_same_name_in_sub_graphs(case: Case) -> None:
    for name, golden in zip("abc", (A, B, C), strict=True):
        case.npy(name, golden)
    case.npu("end_main", X, inputs=(Y,))
    case.npu("end_sub", X, inputs=(Z,))
    rules = case.rules(
        rule("data", originals=("b",), outputs=described("b")),
        rule("end_main", originals=("a",), inputs=("data:0",), outputs=described("a")),
        sub=(
            rule("data", originals=("c",), outputs=described("c")),
            rule("end_sub", originals=("d",), inputs=("data:0",), outputs=described("d")),
        ),
    )
    result = case.compared("-fr", rules)
    assert_measured(result.row("end_main:input:0"), Y, B)
    assert_measured(result.row("end_sub:input:0"), Z, C)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_quantized_original_has_all_its_outputs_compared(case: Case, outputs: int) -> None:
    case.npy("s_quant", *(X, Y)[:outputs], folder=case.target)
    case.npy("s", *(A, B)[:outputs])
    descriptions = tuple(describe("s", index) for index in range(outputs))
    result = case.compared("-qfr", case.rules(rule("s_quant", originals=("s",), outputs=descriptions)))
    assert len(result.rows) == outputs
    for row, ours, theirs in zip(result.rows, (X, Y), (A, B), strict=False):
        assert_measured(row, ours, theirs)


def test_quantized_operators_have_no_row_of_their_own(case: Case) -> None:
    for name, golden in zip(("data", "c1"), (A, B), strict=True):
        case.npy(name, golden)
    integers = tensor(np.arange(24).reshape(4, 6), dtypes.INT8)
    case.npu("c1_quant_layer", integers, inputs=(X,), op_type="AscendQuant")
    case.npu("c1", tensor(np.arange(24).reshape(4, 6), dtypes.INT32), inputs=(integers,), op_type="Conv2D")
    case.npu("c1_dequant_layer", Y, inputs=(X,), op_type="AscendDequant")
    fusion = case.rules(
        rule("data", "Data"),
        rule("c1_quant_layer", "AscendQuant", inputs=("data:0",), outputs=(describe(dtype="DT_INT8"),)),
        rule("c1", "Conv2D", inputs=("c1_quant_layer:0",), outputs=(describe(dtype="DT_INT32"),)),
        rule("c1_dequant_layer", "AscendDequant", inputs=("c1:0",), outputs=(describe(dtype="DT_FLOAT16"),)),
        file="fusion.json",
    )
    originals = ("c1", "bn1")
    quant = case.rules(
        rule("data", "Input"),
        rule("c1_quant_layer", "Quant", originals=originals, inputs=("data:0",)),
        rule("c1", "Convolution", originals=originals, inputs=("c1_quant_layer:0",)),
        rule("c1_dequant_layer", "DeQuant", originals=originals, inputs=("c1:0",), outputs=(describe("c1", 0),)),
        file="quant.json",
    )
    result = case.compared("-fr", fusion, "-qfr", quant)
    tensors = {row["TensorIndex"]: row["GoldenTensor"] for row in result.rows if row["TensorIndex"] != "NaN"}
    assert tensors == {"c1_quant_layer:input:0": "data:output:0", "c1_dequant_layer:output:0": "c1:output:0"}
    assert result.row("c1_dequant_layer:output:0")["GroundTruth"] == "c1,bn1"
    assert_measured(result.row("c1_quant_layer:input:0"), X, A)
    assert_measured(result.row("c1_dequant_layer:output:0"), Y, B)


def test_two_npu_dumps_without_rules(case: Case) -> None:
    case.npu("late", Z, time=TIME + 9)
    case.npu("early", Y, inputs=(X,), time=TIME + 1, op_type="Add")
    case.npu("only_here", X, time=TIME + 5)
    case.npu_golden("early", B, inputs=(A,))
    case.npu_golden("late", C)
    case.npu_golden("only_there", C)
    result = case.compared()
    assert result.pairs == [
        "early | early | early:input:0 = early:input:0",
        "early | early | early:output:0 = early:output:0",
        "only_here | * | NaN = ?",
        "late | late | late:output:0 = late:output:0",
        "* | only_there | NaN = ?",
    ]
    assert result.rows[0]["OpType"] == "Add"
    assert result.of("only_here")["CompareFailReason"] == "the golden dump has no file for operator only_here"
    assert result.of("*")["CompareFailReason"] == "the target dump has no file for operator only_there"
    assert_measured(result.row("early:input:0"), X, A)
    assert_measured(result.row("late:output:0"), Z, C)


def test_two_npu_dumps_with_other_numbers_of_tensors(case: Case) -> None:
    case.npu("a", X, inputs=(X, Y))
    case.npu_golden("a", A, B, inputs=(A,))
    result = case.compared()
    assert [row["TensorIndex"] for row in result.rows] == ["a:input:0", "a:input:1", "a:output:0", "a:output:1"]
    assert "the golden dump has no input 1 of a" in result.row("a:input:1")["CompareFailReason"]
    assert "the target dump has no output 1 of a" in result.row("a:output:1")["CompareFailReason"]
    assert_measured(result.row("a:output:0"), X, A)


def test_fusion_on_against_off_keeps_every_operator(case: Case) -> None:
    """Inserted operators, parts of split ones and operators of one original all have their rows."""
    for name, golden in (("conv_a", A), ("r1", B), ("fc_off", C)):
        case.npu_golden(name, golden)
    case.npu("td_0", Y, inputs=(Y,), op_type="TransData")
    case.npu("td_1", Y, inputs=(Y,), op_type="TransData")
    case.npu("stem", Y, inputs=(X,))
    case.npu("fc_1", Z, inputs=(Y,))
    case.npu("fc_2", Z, inputs=(Y,))
    fusion_on = case.rules(
        rule("stem", originals=("c1", "r1"), outputs=described("r1")),
        rule("td_0", "TransData", originals=(), inputs=("stem:0",), outputs=described("")),
        rule("td_1", "TransData", originals=(), inputs=("stem:0",), outputs=described("")),
        rule("fc_1", originals=("fc",), inputs=("td_0:0",), outputs=described("fc"), part=True),
        rule("fc_2", originals=("fc",), inputs=("td_1:0",), outputs=described("fc"), part=True),
        file="on.json",
    )
    fusion_off = case.rules(
        rule("conv_a", originals=("c1",), outputs=described("c1")),
        rule("r1", outputs=described("r1")),
        rule("fc_off", originals=("fc",), outputs=described("fc")),
        file="off.json",
    )
    result = case.compared("-fr", fusion_on, "-cfr", fusion_off)
    assert result.pairs == [
        "stem | conv_a,r1 | stem:input:0 = ?",
        "stem | conv_a,r1 | stem:output:0 = r1:output:0",
        "td_0 | * | td_0:input:0 = r1:output:0",
        "td_0 | * | td_0:output:0 = r1:output:0",
        "td_1 | * | td_1:input:0 = r1:output:0",
        "td_1 | * | td_1:output:0 = r1:output:0",
        "fc_1,fc_2 | fc_off | fc_1:input:0 = r1:output:0",
        "fc_1,fc_2 | fc_off | fc_1:output:0 = fc_off:output:0",
        "fc_1,fc_2 | fc_off | fc_2:input:0 = r1:output:0",
        "fc_1,fc_2 | fc_off | fc_2:output:0 = fc_off:output:0",
    ]
    assert_measured(result.row("fc_2:output:0"), Z, C)
    assert_measured(result.row("td_0:output:0"), Y, B)


def test_doubts_about_rule_files_come_first(case: Case) -> None:
    case.npu("stem", X)
    case.npu_golden("stem", A)
    fused = rule("stem", originals=("c1", "r1"), outputs=described("r1"))
    added = rule("added", "Relu", originals=("r2",))
    rules = [case.rules(fused, file="on.json"), case.rules(fused, added, file="off.json")]
    answer = case.root / "answer.json"
    outcome = case.run("-fr", rules[0], "-cfr", rules[1], "--json", answer)
    doubt = (
        "warning: the model of -cfr (off.json) seems to be compiled with fusion on: of 1 fused operator of -fr, "
        "it fuses 1 in the same way"
    )
    assert outcome.out.splitlines()[0] == doubt
    assert json.loads(answer.read_text())["notes"] == [doubt]


def test_strides_moved_to_earlier_operators_are_compared_with_the_golden_positions(case: Case) -> None:
    golden = np.arange(2 * 8 * 8, dtype=np.float32).reshape(1, 2, 8, 8)
    case.npu("conv", golden[:, :, ::2, ::2])
    case.npy("c1", golden)
    outputs = (describe("c1", 0, layout="NCHW"),)
    plain = rule("conv", originals=("c1",), outputs=outputs)
    selected = rule("select", "ReadSelect", originals=("r1",), inputs=("conv:0",))
    row = case.compared("-fr", case.rules(plain, selected)).row("conv:output:0")
    assert (row["Shape"], row["CosineSimilarity"], row["CompareFailReason"]) == ("[1,2,4,4]", "1.000000", "")
    assert "reduced to one of every 2 rows and columns" in row["Conversion"]
    row = case.compared("-fr", case.rules(plain), code=3).row("conv:output:0")
    assert "shape" in row["CompareFailReason"]


def test_missing_files_are_rows_with_reasons(case: Case) -> None:
    case.npy("conv1_1", A)
    case.npy("b", B)
    case.npu("conv1", X)
    case.npu("b_1", Y)
    result = case.compared("-fr", case.rules(rule("conv1"), rule("b"), rule("image", "Data")), code=3)
    assert (
        "the golden dump has no file for operator conv1; the most similar name is conv1_1"
        in result.of("conv1")["CompareFailReason"]
    )
    assert "the target dump has no file for operator b" in result.of("b")["CompareFailReason"]
    assert "operators of type Data do not run on a device" in result.of("image")["CompareFailReason"]

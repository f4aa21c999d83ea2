"""Pairing of tensors in real files; `tests/pair` has every relation between operators on its own."""

from __future__ import annotations

import json

import numpy as np

from dump_files import TIME, tensor
from made_dumps import Case, Json, assert_measured, describe, numbers, perturbed, rule
from opdiff.core import dtypes

A, B, C = (numbers(4, 6, seed=seed) for seed in range(3))
X, Y, Z = (perturbed(golden, seed=seed) for seed, golden in enumerate((A, B, C)))


def described(*origins: str) -> tuple[Json, ...]:
    return tuple(describe(origin, 0) if origin else describe() for origin in origins)


def test_every_relation_in_one_network(case: Case) -> None:
    pairs = (X, A), (Y, B), (Z, C)
    originals = {"a": 0, "relu": 1, "fc": 2, "scope/conv.1": 0, "k": 1, "l": 2, "use": 1, "m": 0, "n": 2}
    for name, number in originals.items():
        case.npy(name, pairs[number][1])
    case.npy("split", A, B, C)
    case.npu("a", X)
    case.npu("convrelu", Y, inputs=(X,))
    case.npu("fc_1", Y, inputs=(Y,))
    case.npu("fc_2", Z, inputs=(Y,))
    case.npu("fc_3", Z, inputs=(X,))
    case.npu("renamed", X)
    case.npu("p", Y)
    case.npu("q", Z, inputs=(Y,))
    case.npu("s", Z, X, Y)
    case.npu("use", Y, inputs=(X,))
    # The first and the last part of L1 fusion that ran are compared.
    case.npu("l1_c", Z, time=TIME + 300)
    case.npu("l1_a", X, time=TIME + 100)
    case.npu("l1_b", Y, time=TIME + 200)
    case.npu("inside", X, inputs=(X,))
    rules = case.rules(
        rule("a"),
        rule("convrelu", originals=("conv", "relu"), inputs=("a:0",), outputs=described("relu")),
        rule("fc_1", originals=("fc",), inputs=("convrelu:0",), outputs=described(""), part=True),
        rule("fc_2", originals=("fc",), inputs=("fc_1:0",), outputs=described("fc"), part=True),
        rule("fc_3", originals=("fc",), inputs=("a:0",), outputs=described("fc"), part=True),
        rule("renamed", originals=("scope/conv.1",), outputs=described("")),
        rule("p", originals=("k", "l"), outputs=described("k")),
        rule("q", originals=("k", "l"), inputs=("p:0",), outputs=described("l")),
        rule("s", originals=("split",), outputs=(describe("split", 2), describe("split", 0), describe("split", 1))),
        rule("use", inputs=("s:1",)),
        rule("l1_b", originals=("relu",), outputs=described("relu"), l1="7"),
        rule("l1_a", originals=("m",), outputs=described("m"), l1="7"),
        rule("l1_c", originals=("n",), outputs=described("n"), l1="7"),
        # The operator that is read is that of the same graph.
        sub=(
            rule("a", originals=("m",), outputs=described("m")),
            rule("inside", originals=("gone",), inputs=("a:0",), outputs=described("gone")),
        ),
    )
    result = case.compared("-fr", rules)
    assert [f"{row['Index']} {pair}" for row, pair in zip(result.rows, result.pairs, strict=True)] == [
        "0 a | a | a:output:0 = a:output:0",
        "1 convrelu | conv,relu | convrelu:input:0 = a:output:0",
        "1 convrelu | conv,relu | convrelu:output:0 = relu:output:0",
        "2 fc_1,fc_2,fc_3 | fc | fc_2:input:0 = ?",
        "2 fc_1,fc_2,fc_3 | fc | fc_2:output:0 = fc:output:0",
        "2 fc_1,fc_2,fc_3 | fc | fc_3:input:0 = a:output:0",
        "2 fc_1,fc_2,fc_3 | fc | fc_3:output:0 = fc:output:0",
        "3 renamed | scope/conv.1 | renamed:output:0 = scope/conv.1:output:0",
        "4 p,q | k,l | p:output:0 = k:output:0",
        "4 p,q | k,l | q:input:0 = k:output:0",
        "4 p,q | k,l | q:output:0 = l:output:0",
        "5 s | split | s:output:0 = split:output:2",
        "5 s | split | s:output:1 = split:output:0",
        "5 s | split | s:output:2 = split:output:1",
        "6 use | use | use:input:0 = split:output:0",
        "6 use | use | use:output:0 = use:output:0",
        "7 l1_b,l1_a,l1_c | relu,m,n | l1_a:output:0 = m:output:0",
        "7 l1_b,l1_a,l1_c | relu,m,n | l1_c:output:0 = n:output:0",
        "8 a | m | a:output:0 = m:output:0",
        "9 inside | gone | inside:input:0 = m:output:0",
        "9 inside | gone | inside:output:0 = ?",
    ]
    measured = {f"{name}:output:0": pairs[number] for name, number in originals.items()}
    measured |= {f"split:output:{index}": pair for index, pair in enumerate(pairs)}
    for row in result.rows:
        if row["GoldenTensor"]:
            assert_measured(row, *measured[row["GoldenTensor"]])


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

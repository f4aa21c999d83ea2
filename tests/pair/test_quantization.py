"""Quantized models: operators without rows, and merging of two rule files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.tensor import Declared
from opdiff.pair import Rules
from opdiff.pair.groups import group_operators
from opdiff.pair.quantization import find_quantized
from pair.rule_files import dumped, npu, npy, op, out, paired, reasons, rules, summarize

if TYPE_CHECKING:
    from opdiff.core.graph import RuleOp


def typed(name: str, dtype: str, *inputs: str, **fields: Any) -> RuleOp:
    return op(name, inputs=inputs, outputs=(out(dtype=dtype),), **fields)


QUANT = typed("q_quant_layer", "DT_INT8", "x:0")


@pytest.mark.parametrize(
    ("operators", "found"),
    [
        ((QUANT, typed("c", "DT_INT32", "q_quant_layer:0")), {"c"}),
        ((QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), typed("d_dequant_layer", "DT_FLOAT16", "c:0")), {"c"}),
        ((QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), typed("r", "DT_INT32", "c:0")), {"c", "r"}),
        ((QUANT, typed("cd_dequant_layer", "DT_FLOAT16", "q_quant_layer:0")), set()),
        ((QUANT, typed("cd_dequant_layer", "DT_INT32", "q_quant_layer:0")), {"cd_dequant_layer"}),
        ((QUANT, typed("c", "DT_FLOAT16", "q_quant_layer:0", originals=("c", "d_dequant_layer"))), set()),
        ((QUANT, op("none", inputs=("q_quant_layer:0",))), {"none"}),
        ((QUANT, op("none", originals=("",), inputs=("q_quant_layer:0",))), set()),
        ((typed("q_quant_layer", "DT_FLOAT16"), typed("c", "DT_INT32", "q_quant_layer:0")), set()),
        ((typed("q_anti_quant_layer", "DT_INT8"), typed("c", "DT_INT32", "q_anti_quant_layer:0")), {"c"}),
        (
            (
                typed("q", "DT_INT8", op_type="AscendQuant"),
                typed("c", "DT_INT32", "q:0"),
                typed("d", "DT_FLOAT16", "c:0", op_type="AscendDequant"),
                typed("r", "DT_FLOAT16", "d:0"),
            ),
            {"c"},
        ),
        ((QUANT, typed("c", "DT_INT32", "q_quant_layer:9", "gone:0", "bad")), set()),
        ((typed("c", "DT_INT32", "q_quant_layer:0", sequence=2), typed("q_quant_layer", "DT_INT8", sequence=1)), {"c"}),
    ],
)
def test_operators_between_quantizing_and_dequantizing(operators: tuple[RuleOp, ...], found: set[str]) -> None:
    assert find_quantized(group_operators(rules(*operators))) == {("net", name) for name in found}


@pytest.mark.parametrize("dtype", ["DT_FLOAT", "DT_FLOAT16", "DT_BF16"])
def test_dequantizing_to_any_float_type_ends_the_quantized_part(dtype: str) -> None:
    given = (
        QUANT,
        typed("c", "DT_INT32", "q_quant_layer:0"),
        typed("d_dequant_layer", dtype, "c:0"),
        typed("relu", dtype, "d_dequant_layer:0"),
        typed("fc", dtype, "relu:0"),
    )
    assert find_quantized(group_operators(rules(*given))) == {("net", "c")}
    target = npu(*(dumped(operator.name) for operator in given), quantized=True)
    rows = paired(target, npy("relu", "fc", quantized=True), rules(*given))
    assert [row.label.target for row in rows] == ["q_quant_layer", "d_dequant_layer", "relu", "fc"]


def test_equal_names_in_two_graphs_are_two_operators() -> None:
    inside = (typed("c", "DT_FLOAT16", "x:0", originals=("other",)),)
    given = rules(QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), branch=inside)
    assert find_quantized(group_operators(given)) == {("net", "c")}
    rows = paired(npu(dumped("c"), quantized=True), npy("other", quantized=True), given)
    assert [summarize(row) for row in rows] == [
        "0 q_quant_layer q_quant_layer - = ?",
        "2 c other c:output:0 = other:output:0",
    ]


def test_a_repeated_name_does_not_end_the_search_in_its_graph() -> None:
    """The branch quantizes under the same names as the model, and has one more operator between."""
    inside = (QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), typed("extra", "DT_INT32", "c:0"))
    given = rules(QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), branch=inside)
    assert find_quantized(group_operators(given)) == {("net", "c"), ("branch", "c"), ("branch", "extra")}


def test_quantized_operators_have_no_rows_and_keep_their_group_number() -> None:
    given = rules(QUANT, typed("c", "DT_INT32", "q_quant_layer:0"), typed("d_dequant_layer", "DT_FLOAT16", "c:0"))
    target = npu(dumped("q_quant_layer"), dumped("c"), dumped("d_dequant_layer", 1), quantized=True)
    rows = paired(target, npy("q_quant_layer", "c", "d_dequant_layer", quantized=True), given)
    assert [summarize(row) for row in rows] == [
        "0 q_quant_layer q_quant_layer q_quant_layer:output:0 = q_quant_layer:output:0",
        "2 d_dequant_layer d_dequant_layer d_dequant_layer:output:0 = d_dequant_layer:output:0",
    ]


@pytest.mark.parametrize(
    ("operator", "keys"),
    [
        (op("a", "AscendQuant"), ["a:input:0"]),
        (op("a", "AscendDequant"), ["a:output:0"]),
        (op("a_dequant", "X"), ["a_dequant:output:0"]),
        (op("a_quant_layer", "Quant"), ["a_quant_layer:input:0", "a_quant_layer:output:0"]),
    ],
    ids=str,
)
def test_only_slots_without_quantized_values_are_compared(operator: RuleOp, keys: list[str]) -> None:
    rows = paired(npu(dumped(operator.name, 1), quantized=True), npy("x", quantized=True), rules(operator))
    assert [str(row.key) for row in rows] == keys


def test_quantized_inputs_are_not_compared_with_floats_of_the_quantized_model() -> None:
    """Fusion joined convolution and dequantization; the fake-quantized model has the values, not the integers."""
    given = (
        op("q_quant_layer", "AscendQuant", inputs=("x:0",), outputs=(out("q_quant_layer"),)),
        op("cd_dequantr", "Conv2D", inputs=("q_quant_layer:0",), originals=("c", "d", "r"), outputs=(out("r"),)),
    )
    operator = dumped("cd_dequantr", 1)
    int8 = replace(operator.inputs[0], spec=replace(operator.inputs[0].spec, dtype=dtypes.INT8))
    target = npu(replace(operator, inputs={0: int8}), quantized=True)
    rows = paired(target, npy("q_quant_layer", "r", quantized=True), rules(*given))
    assert reasons(rows)["cd_dequantr:input:0"].endswith("holds quantized values, the golden tensor floats")
    assert summarize(rows[-1]).endswith("cd_dequantr:output:0 = r:output:0")


def test_an_operator_dumped_with_quantized_values_only_has_a_reason() -> None:
    rows = paired(npu(dumped("a"), quantized=True), npy("x", quantized=True), rules(op("a", "AscendQuant")))
    assert reasons(rows) == {"a": "only the inputs of a can be compared, and the target file contains none"}


NAMES = ("c1", "bn1", "sc1")
AMCT = rules(
    op("data", "Input"),
    op("c1_quant_layer", "Quant", originals=("",), inputs=("data:0",), outputs=(out(),)),
    op("c1", "Convolution", originals=NAMES, inputs=("c1_quant_layer:0",), outputs=(out(),)),
    op("c1_dequant_layer", "DeQuant", originals=NAMES, inputs=("c1:0",), outputs=(out("sc1", layout="NCHW"),)),
    op("two", originals=("one",), outputs=(out("one", 3), out("one", 4))),
)
OFFLINE = rules(
    op("data", "Data"),
    op("c1_quant_layer", "AscendQuant", originals=("c1_quant_layer",), inputs=("data:0",)),
    op(
        "c1c1_dequant_layer",
        "Conv2D",
        originals=("c1", "c1_dequant_layer"),
        inputs=("c1_quant_layer:0",),
        outputs=(out("c1_dequant_layer", layout="NHWC", shape=(1, 2)),),
    ),
    op("two_and_more", originals=("two", "new"), outputs=(out("new"), out("two", 1), out("two", 7))),
)


def test_offline_rules_are_carried_on_through_the_quantization() -> None:
    target = npu(
        dumped("c1_quant_layer", 1), dumped("c1c1_dequant_layer"), dumped("two_and_more", outputs=3), quantized=True
    )
    golden = npy("data", "sc1", "new", dumped("one", outputs=5))
    rows = paired(target, golden, Rules(fusion=OFFLINE, quant=AMCT))
    assert [summarize(row) for row in rows] == [
        "0 data data - = ?",
        "1 c1_quant_layer * c1_quant_layer:input:0 = data:output:0",
        "2 c1c1_dequant_layer c1,bn1,sc1 c1c1_dequant_layer:output:0 = sc1:output:0",
        "3 two_and_more one two_and_more:output:0 = new:output:0",
        "3 two_and_more one two_and_more:output:1 = one:output:4",
        "3 two_and_more one two_and_more:output:2 = ?",
    ]
    assert getattr(rows[2], "declared", None) == Declared("NHWC", (1, 2))


def test_the_quantization_rules_alone_connect_too() -> None:
    target = npu(dumped("c1", 1), dumped("c1_dequant_layer", 1), quantized=True)
    rows = paired(target, npy("data", "sc1"), Rules(quant=AMCT))
    assert [summarize(row) for row in rows][2:-1] == [
        "2 c1,c1_dequant_layer c1,bn1,sc1 c1:input:0 = ?",
        "2 c1,c1_dequant_layer c1,bn1,sc1 c1:output:0 = ?",
        "2 c1,c1_dequant_layer c1,bn1,sc1 c1_dequant_layer:output:0 = sc1:output:0",
    ]


def test_all_outputs_of_a_quantized_original_are_compared() -> None:
    rows = paired(npy(dumped("two", outputs=2), "data"), npy("data", dumped("one", outputs=5)), Rules(quant=AMCT))
    assert [summarize(row) for row in rows][-2:] == [
        "3 two one two:output:0 = one:output:3",
        "3 two one two:output:1 = one:output:4",
    ]

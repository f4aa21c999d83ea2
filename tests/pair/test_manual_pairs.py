"""Pairings declared by the user."""

from __future__ import annotations

import pytest

from opdiff.core.errors import UsageError
from opdiff.core.pairing import ManualPair, Pairing, Unpaired, parse_key
from pair.rule_files import dumped, npu, npy, op, out, paired, rules, summarize

TARGET = npu(dumped("conv_1", 2), dumped("lost", op_type="Loss"), dumped("in_ner"))
GOLDEN = npy("conv_1", "Conv_0", dumped("many", outputs=3))
RULES = rules(op("conv_1"), op("in/ner", originals=("",)))


def by_hand(*lines: tuple[str, str]) -> tuple[ManualPair, ...]:
    return tuple(ManualPair(parse_key(target), parse_key(golden)) for target, golden in lines)


def with_pairs(*lines: tuple[str, str]) -> list[str]:
    return [summarize(row) for row in paired(TARGET, GOLDEN, RULES, manual=by_hand(*lines))]


def test_only_the_named_tensors_change() -> None:
    before = with_pairs()
    after = with_pairs(("conv_1:output:0", "many:output:2"), ("conv_1:input:1", "Conv_0"))
    assert [before[0], *before[3:]] == [after[0], *after[3:]]
    assert after[1:3] == [
        "0 conv_1 Conv_0 conv_1:input:1 = Conv_0:output:0",
        "0 conv_1 many conv_1:output:0 = many:output:2",
    ]


def test_an_operator_without_a_golden_name_gets_one_and_keeps_its_own() -> None:
    assert with_pairs(("in_ner", "many:output:1"))[3:-1] == ["1 in/ner many in/ner:output:0 = many:output:1"]


def test_a_tensor_without_a_row_gets_one() -> None:
    assert with_pairs(("lost", "Conv_0"))[4:] == ["2 lost * - = ?", "2 lost Conv_0 lost:output:0 = Conv_0:output:0"]
    quant = rules(op("conv_1", "AscendQuant"), op("in/ner"))
    rows = paired(TARGET, GOLDEN, quant, manual=(ManualPair(parse_key("conv_1"), parse_key("Conv_0"), "NHWC"),))
    assert [str(row.key) for row in rows[:-1]] == [
        "conv_1:input:0",
        "conv_1:input:1",
        "conv_1:output:0",
        "in/ner:output:0",
    ]
    assert isinstance(rows[2], Pairing)
    assert (rows[2].declared.layout, str(rows[2].evidence)) == ("NHWC", "paired by the user")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (("conv_2", "Conv_0"), "the target dump has no operator conv_2; the most similar name is conv_1"),
        (("conv_1", "Conv_1"), "the golden dump has no operator Conv_1; the most similar name is"),
        (("conv_1:output:4", "Conv_0"), "the target dump has no conv_1:output:4; available outputs: 0"),
        (("conv_1", "many:output:7"), "the golden dump has no many:output:7; available outputs: 0, 1, 2"),
        (("conv_1", "many:input:0"), "the golden dump has no many:input:0; available inputs: none"),
        (("zzz", "Conv_0"), "the target dump has no operator zzz"),
    ],
)
def test_unknown_names_are_refused(line: tuple[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        with_pairs(line)


def test_a_manual_pairing_of_a_quantized_operator_comes_last() -> None:
    given = rules(
        op("q_quant_layer", outputs=(out(dtype="DT_INT8"),)),
        op("c", inputs=("q_quant_layer:0",), outputs=(out(dtype="DT_INT32"),)),
    )
    target = npu(dumped("q_quant_layer"), dumped("c"), quantized=True)
    rows = paired(target, npy("x", "q_quant_layer", quantized=True), given, manual=by_hand(("c", "x")))
    assert summarize(rows[-1]) == "1 c x c:output:0 = x:output:0"


@pytest.mark.parametrize(
    ("line", "row", "reason"),
    [
        pytest.param(
            ("fine", "torn"),
            "0 fine torn fine:output:0 = ?",
            "paired by the user with torn:output:0, but the golden file of torn cannot be read: no header",
            id="golden",
        ),
        pytest.param(
            ("half:output:1", "gold"),
            "1 half gold half:output:1 = ?",
            "paired by the user with gold:output:0, but the target file of half cannot be read: half.1: cut off",
            id="target",
        ),
        pytest.param(
            ("half:output:1", "torn"),
            "1 half torn half:output:1 = ?",
            "paired by the user with torn:output:0, but the target file of half cannot be read: half.1: cut off; "
            "the golden file of torn cannot be read: no header",
            id="both",
        ),
    ],
)
def test_an_unreadable_pair_is_a_row(line: tuple[str, str], row: str, reason: str) -> None:
    target = npu(dumped("fine"), dumped("half", problem="half.1: cut off"))
    golden = npy("fine", "half", "gold", dumped("torn", outputs=0, problem="no header"))
    rows = paired(target, golden, rules(op("fine"), op("half")), manual=by_hand(line))
    assert [(summarize(item), str(item.reason)) for item in rows if isinstance(item, Unpaired) and item.key] == [
        (row, reason)
    ]


def test_a_readable_tensor_of_a_partly_unreadable_operator_can_be_paired() -> None:
    golden = npy("a", dumped("half", problem="half.1: cut off"))
    (row,) = paired(npu(dumped("a")), golden, rules(op("a")), manual=by_hand(("a", "half")))
    assert summarize(row) == "0 a half a:output:0 = half:output:0"

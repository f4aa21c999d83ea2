"""Groups and pairings for every relation of a compiled model to the original one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.core.pairing import Pairing
from opdiff.core.tensor import Declared
from opdiff.pair import PairOptions, Rules, pair
from opdiff.pair.groups import Relation, group_operators
from opdiff.pair.selection import Range
from pair.rule_files import dumped, npu, npy, op, out, paired, reasons, rules, summarize

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile, RuleOp

FUSED = op("stem", originals=("c1", "r1"), inputs=("data:0",), outputs=(out("r1", layout="NCHW", shape=(1, 8)),))
SPLIT = (
    op("fc_a", originals=("fc",), is_multiop=True, inputs=("data:0",), outputs=(out(),)),
    op("fc_b", originals=("fc",), is_multiop=True, inputs=("fc_a:0",), outputs=(out("fc"),)),
)
TILES = tuple(
    op(name, originals=(original,), l1_subgraph="7", inputs=("data:0",), outputs=(out(original),))
    for name, original in (("a0", "A"), ("a1", "A"), ("b0", "B"))
)


@pytest.mark.parametrize(
    ("operators", "relation"),
    [
        ((op("a"),), Relation.ONE_TO_ONE),
        ((op("a", originals=("b",)),), Relation.ONE_TO_ONE),
        ((op("a", originals=()),), Relation.ONE_TO_ONE),
        ((op("a", originals=("",)),), Relation.ONE_TO_ONE),
        ((FUSED,), Relation.MANY_TO_ONE),
        (SPLIT, Relation.ONE_TO_MANY),
        ((op("a", originals=("x", "y")), op("b", originals=("x", "y"))), Relation.MANY_TO_MANY),
        (TILES, Relation.L1_FUSION),
    ],
    ids=str,
)
def test_the_first_operator_decides_the_relation_of_a_group(operators: tuple[RuleOp, ...], relation: Relation) -> None:
    model = group_operators(rules(*operators))
    assert [group.relation for group in model.groups] == [relation]


@pytest.mark.parametrize(
    ("operators", "groups"),
    [
        ((op("a"), op("b"), op("a")), ["a", "b"]),
        ((op("a", originals=("k", "l")), op("b", originals=("l", "k"))), ["a", "b"]),
        ((op("a", originals=("ab", "c")), op("b", originals=("a", "bc"))), ["a", "b"]),
        ((op("a", originals=("x",)), op("b"), op("c", originals=("x",))), ["a,c", "b"]),
        ((op("a", originals=("",)), op("b", originals=("",)), op("c", originals=())), ["a", "b", "c"]),
    ],
    ids=str,
)
def test_groups_are_numbered_in_the_order_of_the_file(operators: tuple[RuleOp, ...], groups: list[str]) -> None:
    model = group_operators(rules(*operators))
    assert [group.target_names for group in model.groups] == groups
    assert [group.index for group in model.groups] == list(range(len(groups)))


DATA = op("data", "Data", outputs=(out(),))


@pytest.mark.parametrize(
    ("given", "target", "golden", "expected"),
    [
        pytest.param(
            rules(DATA, FUSED),
            npu(dumped("data"), dumped("stem", 1)),
            npy("data", "c1", "r1"),
            [
                "0 data data data:output:0 = data:output:0",
                "1 stem c1,r1 stem:input:0 = data:output:0",
                "1 stem c1,r1 stem:output:0 = r1:output:0",
            ],
            id="many to one",
        ),
        pytest.param(
            rules(DATA, *SPLIT),
            npu(dumped("data"), dumped("fc_a", 1), dumped("fc_b", 1)),
            npy("data", "fc"),
            [
                "0 data data data:output:0 = data:output:0",
                "1 fc_a,fc_b fc fc_b:input:0 = ?",
                "1 fc_a,fc_b fc fc_b:output:0 = fc:output:0",
            ],
            id="an inner part has no rows",
        ),
        pytest.param(
            rules(
                op("p", originals=("x", "y"), outputs=(out("x"),)), op("q", originals=("x", "y"), outputs=(out("y"),))
            ),
            npu(dumped("q"), dumped("p")),
            npy("x", "y"),
            ["0 p,q x,y p:output:0 = x:output:0", "0 p,q x,y q:output:0 = y:output:0"],
            id="many to many, in the order of the rules",
        ),
        pytest.param(
            rules(op("p", originals=("x", "y")), op("q", originals=("x", "y"), outputs=(out("y"),))),
            npu(dumped("q")),
            npy("y"),
            ["0 p,q x,y q:output:0 = y:output:0"],
            id="a part that was not dumped is passed over",
        ),
        pytest.param(
            rules(*SPLIT),
            npu(dumped("other")),
            npy("fc"),
            ["0 fc_a,fc_b fc - = ?", "1 other * - = ?"],
            id="nothing of a split operator was dumped",
        ),
        pytest.param(
            rules(*TILES),
            npu(dumped("a0", timestamp=3), dumped("a1", timestamp=1), dumped("b0", timestamp=9)),
            npy("A", "B"),
            ["0 a0,a1,b0 A,B a1:output:0 = A:output:0", "0 a0,a1,b0 A,B b0:output:0 = B:output:0"],
            id="L1 fusion: the first and the last that ran",
        ),
        pytest.param(
            rules(*TILES[:2]),
            npu(dumped("a0", timestamp=3), dumped("a1", timestamp=1)),
            npy("A"),
            ["0 a0,a1 A a0:output:0 = A:output:0"],
            id="L1 fusion of one original: the last that ran",
        ),
        pytest.param(rules(*TILES), npu(), npy("A"), ["0 a0,a1,b0 A,B - = ?"], id="L1 fusion: nothing was dumped"),
        pytest.param(
            rules(op("new", originals=("old",), outputs=(out(index=0), out(index=1)))),
            npu(dumped("new", outputs=2)),
            npy(dumped("old", outputs=2)),
            ["0 new old new:output:0 = old:output:0", "0 new old new:output:1 = old:output:1"],
            id="a renamed operator needs no names at its outputs",
        ),
        pytest.param(
            rules(op("new", originals=("old",))),
            npu(dumped("new", outputs=2)),
            npy(dumped("old", outputs=2)),
            ["0 new old new:output:0 = old:output:0", "0 new old new:output:1 = old:output:1"],
            id="nor descriptions",
        ),
        pytest.param(
            rules(op("s", originals=("s",), outputs=(out("s", 1), out("s", 0)))),
            npu(dumped("s", outputs=2)),
            npy(dumped("s", outputs=2)),
            ["0 s s s:output:0 = s:output:1", "0 s s s:output:1 = s:output:0"],
            id="outputs in another order",
        ),
        pytest.param(
            rules(DATA, op("a.b/c d\\e", outputs=(out(),))),
            npu(dumped("a_b_c_d_e")),
            npy("a_b_c_d_e"),
            ["0 data data - = ?", "1 a.b/c d\\e a.b/c d\\e a.b/c d\\e:output:0 = a.b/c d\\e:output:0"],
            id="names as files carry them",
        ),
        pytest.param(
            rules(op("net/conv.1", outputs=(out(),))),
            npu(dumped("net_conv_1")),
            npy("net_conv.1"),
            ["0 net/conv.1 net/conv.1 net/conv.1:output:0 = net/conv.1:output:0"],
            id="golden names that kept their dots",
        ),
    ],
)
def test_rows_of_every_relation(given: RuleFile, target: object, golden: object, expected: list[str]) -> None:
    assert [summarize(row) for row in paired(target, golden, given)] == expected  # type: ignore[arg-type]  # a table


def test_every_operator_has_rows_if_requested() -> None:
    options = PairOptions(every_operator=True)
    quant = op("q_quant_layer", outputs=(out(dtype="DT_INT8"),))
    given = Rules(fusion=rules(*SPLIT, *TILES, quant, op("c", inputs=("q_quant_layer:0",), outputs=(out(),))))
    target = npu(*(dumped(name) for name in ("fc_a", "a0", "a1", "b0", "c")))
    rows = pair(target, npy("A", "B", "fc", "c"), given, options)
    assert [str(row.key or row.label.op_type) for row in rows] == [
        *("fc_a:output:0", "Op", "a0:output:0", "a1:output:0", "b0:output:0", "Op", "c:output:0")
    ]


def test_a_pairing_has_the_declared_layout_and_shape() -> None:
    _, row = paired(npu(dumped("stem", outputs=1)), npy("r1"), rules(DATA, FUSED))
    assert isinstance(row, Pairing)
    assert row.declared == Declared("NCHW", (1, 8))
    assert str(row.evidence) == "stem is fused from c1, r1; output 0 is r1:0"


CAST = op("cast", "Cast", originals=("",), inputs=("data:0",), outputs=(out(),))
TRANS = op("trans", "TransData", originals=("",), inputs=("cast:0",), outputs=(out(),))


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("cast:input:0", "input 0 comes from data:0"),
        ("cast:output:0", "output 0 forwards data:0"),
        ("trans:output:0", "output 0 forwards data:0, received through cast"),
        ("last:input:0", "input 0 comes from data:0 through cast, trans"),
        ("last:input:1", "input 1 comes from new, whose output is old:0"),
        ("new:output:0", "new was compiled from old; output 0 is old:0"),
    ],
)
def test_every_pairing_has_its_evidence(name: str, evidence: str) -> None:
    new = op("new", originals=("old",))
    last = op("last", inputs=("trans:0", "new:0"), outputs=(out(),))
    target = npu(*(dumped(item, 2 if item == "last" else 1) for item in ("cast", "trans", "new", "last")))
    found = paired(target, npy("data", "old", "last"), rules(DATA, CAST, TRANS, new, last))
    assert {str(row.key): str(row.evidence) for row in found if isinstance(row, Pairing)}[name] == evidence


def test_an_original_cast_is_compared_with_its_own_golden_output() -> None:
    cast = op("to_int", "Cast", originals=("to_int",), inputs=("data:0",), outputs=(out("to_int"),))
    user = op("user", inputs=("to_int:0",))
    target = npu(dumped("to_int", 1), dumped("user", 1))
    rows = [summarize(row) for row in paired(target, npy("data", "to_int", "user"), rules(DATA, cast, user))]
    assert "1 to_int to_int to_int:output:0 = to_int:output:0" in rows
    assert "2 user user user:input:0 = to_int:output:0" in rows
    rows = [summarize(row) for row in paired(target, npy("data", "user"), rules(DATA, cast, user))]
    assert "1 to_int to_int to_int:output:0 = data:output:0" in rows


def test_producers_of_the_same_graph_come_first() -> None:
    given = rules(
        op("x", originals=("outer",), outputs=(out("outer"),)),
        body=(op("x", originals=("inner",), outputs=(out("inner"),)), op("y", inputs=("x:0",))),
        other=(op("z", inputs=("x:0",)),),
    )
    rows = [summarize(row) for row in paired(npu(dumped("y", 1, 0), dumped("z", 1, 0)), npy("outer", "inner"), given)]
    assert rows[-2:] == ["2 y y y:input:0 = inner:output:0", "3 z z z:input:0 = outer:output:0"]


def test_inputs_beyond_the_rule_file_are_not_paired() -> None:
    rows = paired(npu(dumped("a", 3, 0)), npy("x", "y"), rules(op("x"), op("y"), op("a", inputs=("x:0", "y:0"))))
    assert [summarize(row).rpartition(" = ")[2] for row in rows[2:]] == ["x:output:0", "y:output:0", "?"]


def test_every_failure_has_its_own_reason() -> None:
    given = rules(
        op("conv_1", inputs=("gone:0", "nonsense", "none:0", "few:1"), outputs=(out(),)),
        op("none", originals=("",), outputs=(out(),)),
        op("few", originals=("a", "b"), outputs=(out("a"),)),
        op("bare", originals=("a", "c")),
        op("broken"),
        op("empty"),
        op("absent_1"),
        op("w", "Const"),
        op("gold_3"),
        op("two"),
        op("bad"),
        op("cast", "Cast", originals=("",), outputs=(out(),)),
    )
    target = npu(
        dumped("conv_1", 5),
        dumped("few", outputs=2),
        dumped("bare"),
        dumped("broken", outputs=0, problem="cut off"),
        dumped("empty", outputs=0),
        dumped("absent_2"),
        dumped("gold_3"),
        dumped("two", outputs=2),
        dumped("bad"),
        dumped("cast"),
    )
    golden = npy("conv_1", "a", "gold_4", "two", dumped("bad", outputs=0, problem="no header"))
    assert reasons(paired(target, golden, given)) == {
        "conv_1:input:0": "gone, which feeds input 0 of conv_1, is not in the rule file",
        "conv_1:input:1": "the rule file gives input 1 of conv_1 as 'nonsense', not as `operator:output`",
        "conv_1:input:2": "the rule file names no original tensor for output 0 of none (Op)",
        "conv_1:input:3": "the rule file describes 1 output of few, but not output 1",
        "conv_1:input:4": "the rule file lists 4 inputs of conv_1, but not input 4",
        "none": "the target dump has no file for operator none",
        "few:output:1": "the rule file describes 1 output of few, but not output 1",
        "bare:output:0": "the rule file describes no outputs of bare (Op)",
        "broken": "the target file of broken cannot be read: cut off",
        "empty": "the target file of empty contains no tensors",
        "absent_1": "the target dump has no file for operator absent_1; the most similar name is absent_2",
        "w": "the target dump has no file for operator w; operators of type Const do not run on a device",
        "gold_3:output:0": "output 0 is gold_3:0, but the golden dump has no file for operator gold_3; "
        "the most similar name is gold_4",
        "two:output:1": "output 1 is two:1, but the golden dump has no file for output 1 of two; available outputs: 0",
        "bad:output:0": "output 0 is bad:0, but the golden file of bad cannot be read: no header",
        "cast:output:0": "cast only forwards its input, and the rule file lists 0 inputs of cast, but not input 0",
        "absent_2": "the rule file does not contain this operator; the most similar name is absent_1",
    }


def test_operators_without_rules_are_rows_at_the_end() -> None:
    given = rules(op("net/conv.1"), *SPLIT, branch=(op("inside"),))
    target = npu(
        dumped("net_conv_2", op_type="Conv2D"),
        dumped("net_conv_1"),
        dumped("fc_a"),
        dumped("fc_b"),
        dumped("inside"),
        dumped("zzz", op_type="Relu"),
    )
    rows = paired(target, npy("net_conv_1", "fc", "inside"), given)
    assert [summarize(row) for row in rows] == [
        "0 net/conv.1 net/conv.1 net/conv.1:output:0 = net/conv.1:output:0",
        "1 fc_a,fc_b fc fc_b:output:0 = fc:output:0",
        "2 inside inside inside:output:0 = inside:output:0",
        "3 net_conv_2 * - = ?",
        "4 zzz * - = ?",
    ]
    assert [row.label.op_type for row in rows[-2:]] == ["Conv2D", "Relu"]
    assert list(reasons(rows).values()) == [
        "the rule file does not contain this operator; the most similar name is net/conv.1",
        "the rule file does not contain this operator",
    ]


def test_a_selection_has_no_operators_without_rules() -> None:
    rows = paired(npu(dumped("a"), dumped("b")), npy("a"), rules(op("a", sequence=1)), selection=Range())
    assert [summarize(row) for row in rows] == ["0 a a a:output:0 = a:output:0"]


def test_an_unreadable_file_costs_only_its_own_tensors() -> None:
    target = npu(dumped("a", 0, 2, problem="a.output.2.npy: cut off"), dumped("b", 1, 0, problem="cut off"))
    rows = paired(target, npy(dumped("a", outputs=3), "b"), rules(op("a"), op("b", "AscendDequant")))
    assert [summarize(row) for row in rows] == [
        "0 a a a:output:0 = a:output:0",
        "0 a a a:output:1 = a:output:1",
        "0 a a - = ?",
        "1 b b - = ?",
    ]
    assert reasons(rows) == {
        "a": "the target file of a cannot be read: a.output.2.npy: cut off",
        "b": "the target file of b cannot be read: cut off",
    }


@pytest.mark.parametrize(
    ("originals", "cell"), [(("", "c"), "c"), (("a", "", "c"), "a,c"), (("", ""), "*"), (("",), "*"), ((), "*")]
)
def test_originals_without_a_name_are_not_listed(originals: tuple[str, ...], cell: str) -> None:
    (group,) = group_operators(rules(op("x", originals=originals))).groups
    assert group.golden_names == cell


@pytest.mark.parametrize("entry", ["a", ":0", "a:", "a:-2", "a:x", "a:²", "a:0:0", "a:99999999999999999999"])
def test_a_malformed_input_costs_only_its_row(entry: str) -> None:
    rows = paired(npu(dumped("b", 1)), npy("a", "b"), rules(op("a"), op("b", inputs=(entry,))))
    assert [summarize(row) for row in rows[1:]] == ["1 b b b:input:0 = ?", "1 b b b:output:0 = b:output:0"]
    # Names may have colons.
    told = "a:0, which feeds input 0 of b, is not in" if entry == "a:0:0" else f"as {entry!r}, not as `operator:output`"
    assert told in reasons(rows)["b:input:0"]


def test_a_cycle_of_casts_has_a_reason() -> None:
    circle = (
        op("c", "Cast", originals=("",), inputs=("d:0",), outputs=(out(),)),
        op("d", "TransData", originals=("",), inputs=("c:0",), outputs=(out(),)),
    )
    rows = paired(npu(dumped("c", 1), dumped("d", 1)), npy("x"), rules(*circle))
    assert all("lead back to" in reason for reason in reasons(rows).values())
    assert len(rows) == 4


def test_no_other_origin_stands_in_for_an_unreadable_golden_file() -> None:
    cast = op("cast", "Cast", inputs=("a:0",), outputs=(out("b"),))
    given = rules(op("a"), cast)
    found = [summarize(row) for row in paired(npu(dumped("cast")), npy("a"), given)]
    assert found[-1].endswith("cast:output:0 = a:output:0")
    rows = paired(npu(dumped("cast")), npy("a", dumped("b", 0, 0, problem="cut off")), given)
    assert "the golden file of b cannot be read: cut off" in reasons(rows)["cast:output:0"]

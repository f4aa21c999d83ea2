"""Two NPU dumps: paired by name without rules, or a model with fusion against the same model without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opdiff.core.errors import UsageError
from opdiff.core.pairing import Pairing
from opdiff.pair import Rules
from opdiff.pair.selection import Range
from opdiff.pair.target_graph import target_graph
from pair.rule_files import dumped, npu, op, out, paired, reasons, rules, summarize

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile
    from opdiff.core.pairing import PairingResult
    from opdiff.core.tensor import Tensor


def test_tensors_of_equal_names_and_numbers_are_paired_in_the_order_of_the_target() -> None:
    rows = paired(npu(dumped("b", 1, op_type="Add"), dumped("a")), npu(dumped("c"), dumped("a"), dumped("b", 1)))
    assert [summarize(row) for row in rows] == [
        "0 b b b:input:0 = b:input:0",
        "0 b b b:output:0 = b:output:0",
        "1 a a a:output:0 = a:output:0",
        "2 * c - = ?",
    ]
    assert [row.label.op_type for row in rows] == ["Add", "Add", "Op", ""]


def test_every_unpaired_tensor_has_its_reason() -> None:
    target = npu(
        dumped("left"),
        dumped("counts", 2, 1),
        dumped("fewer", 1, 1),
        dumped("torn", 0, 0, problem="cut off"),
        dumped("fine"),
        dumped("empty", 0, 0),
    )
    golden = npu(
        dumped("counts", 1, 1),
        dumped("fewer", 1, 3),
        dumped("torn"),
        dumped("fine", 0, 0, problem="no header"),
        dumped("empty", 0, 0),
    )
    assert reasons(paired(target, golden)) == {
        "left": "the golden dump has no file for operator left",
        "counts:input:1": "the golden dump has no input 1 of counts; the target has 2 inputs and the golden 1 input",
        "fewer:output:1": "the target dump has no output 1 of fewer; the target has 1 output and the golden 3 outputs",
        "fewer:output:2": "the target dump has no output 2 of fewer; the target has 1 output and the golden 3 outputs",
        "torn": "the target file of torn cannot be read: cut off",
        "fine": "the golden file of fine cannot be read: no header",
        "empty": "the files of empty contain no tensors",
    }


def test_an_unreadable_file_costs_only_its_own_tensors() -> None:
    target = npu(dumped("a", 1, 1, problem="a.output.1.npy: cut off"), dumped("b"))
    golden = npu(dumped("a", 1, 2), dumped("b", 1, 1, problem="b.output.0.npy: no header"))
    rows = paired(target, golden)
    assert [summarize(row) for row in rows] == [
        "0 a a a:input:0 = a:input:0",
        "0 a a a:output:0 = a:output:0",
        "0 a a a:output:1 = ?",
        "0 a a - = ?",
        "1 b b b:input:0 = ?",
        "1 b b b:output:0 = b:output:0",
        "1 b b - = ?",
    ]
    found = reasons(rows)
    assert found["a"] == "the target file of a cannot be read: a.output.1.npy: cut off"
    assert found["b"] == "the golden file of b cannot be read: b.output.0.npy: no header"


def test_unreadable_files_of_both_sides_are_both_reported() -> None:
    rows = paired(npu(dumped("a", 0, 0, problem="cut off")), npu(dumped("a", 0, 0, problem="no header")))
    both = "the target file of a cannot be read: cut off; the golden file of a cannot be read: no header"
    assert reasons(rows) == {"a": both}


def test_a_selection_needs_rules() -> None:
    with pytest.raises(UsageError, match="numbers in a rule file"):
        paired(npu(dumped("a")), npu(dumped("a")), selection=Range())


def test_operators_that_only_the_golden_dump_has_are_nodes_of_the_graph() -> None:
    def at(address: int) -> Tensor:
        tensor = dumped("t").outputs[0]
        return replace(tensor, spec=replace(tensor.spec, address=address))

    a = replace(dumped("a"), outputs={0: at(16)})
    x = replace(dumped("x"), inputs={0: at(16)}, outputs={0: at(32)})
    b = replace(dumped("b"), inputs={0: at(32)}, outputs={0: at(16)})
    stale = replace(dumped("stale"), outputs={0: at(32)})
    nodes = target_graph(npu(stale, a, b), npu(stale, a, x, b), None)
    assert [(node.name, node.inputs) for node in nodes] == [
        ("stale", ()), ("a", ()), ("x", ("a:0",)), ("b", ("x:0",)),
    ]  # fmt: skip


ON = rules(
    op("data", "Data", outputs=(out(),)),
    op("cast_0", "Cast", originals=("",), inputs=("data:0",), outputs=(out(),)),
    op("stem", originals=("c1", "r1"), inputs=("cast_0:0",), outputs=(out("r1", layout="NCHW"),)),
    op("td_0", "TransData", originals=("",), inputs=("stem:0",), outputs=(out(),)),
    op("p1", originals=("fc",), inputs=("td_0:0",), outputs=(out("fc", 1),)),
    op("p2", originals=("fc",), inputs=("p1:0",), outputs=(out("fc", 0),)),
    op("empty", originals=(), outputs=(out(),)),
    op("new", originals=("unknown",), outputs=(out("unknown"),)),
)
OFF = rules(
    op("data", "Data", outputs=(out(),), sequence=0),
    op("cast_7", "Cast", originals=("",), inputs=("data:0",), outputs=(out(),), sequence=1),
    op("conv_a", originals=("c1",), inputs=("cast_7:0",), outputs=(out("c1"),), sequence=2),
    op("r1", inputs=("conv_a:0",), sequence=3),
    op("fc_x", originals=("fc",), outputs=(out("fc", 0), out("fc", 1)), sequence=4),
)
TARGET = npu(*(dumped(name, 1) for name in ("cast_0", "stem", "td_0", "p1", "p2", "empty", "new")))
GOLDEN = npu(dumped("cast_7", 1), dumped("conv_a", 1), dumped("r1", 1), dumped("fc_x", outputs=2))


def compared(on: RuleFile = ON, off: RuleFile = OFF) -> tuple[PairingResult, ...]:
    return paired(TARGET, GOLDEN, Rules(fusion=on, fusion_off=off))


def test_every_operator_has_its_rows() -> None:
    assert [summarize(row) for row in compared()] == [
        "0 data data - = ?",
        "1 cast_0 * cast_0:input:0 = cast_7:input:0",
        "1 cast_0 * cast_0:output:0 = cast_7:input:0",
        "2 stem conv_a,r1 stem:input:0 = cast_7:input:0",
        "2 stem conv_a,r1 stem:output:0 = r1:output:0",
        "3 td_0 * td_0:input:0 = r1:output:0",
        "3 td_0 * td_0:output:0 = r1:output:0",
        "4 p1,p2 fc_x p1:input:0 = r1:output:0",
        "4 p1,p2 fc_x p1:output:0 = fc_x:output:1",
        "4 p1,p2 fc_x p2:input:0 = fc_x:output:1",
        "4 p1,p2 fc_x p2:output:0 = fc_x:output:0",
        "5 empty * empty:input:0 = ?",
        "5 empty * empty:output:0 = ?",
        "6 new * new:input:0 = ?",
        "6 new * new:output:0 = ?",
    ]


def test_the_layout_of_a_golden_npu_dump_is_not_declared() -> None:
    row = compared()[4]
    assert isinstance(row, Pairing)
    assert row.declared.layout == ""


def test_the_evidence_covers_both_models() -> None:
    evidence = {str(row.key): str(row.evidence) for row in compared() if isinstance(row, Pairing)}
    assert evidence["p1:output:0"].endswith("output 0 is fc:1; in the golden model this is output 1 of fc_x")
    assert evidence["cast_0:input:0"] == "input 0 comes from data:0; in the golden model cast_7 reads it as input 0"


def test_tensors_inside_a_fused_golden_operator_stay_unpaired() -> None:
    off = rules(op("all", originals=("c1", "r1", "fc"), outputs=(out("fc", 0),)))
    found = reasons(compared(off=off))
    assert found["stem:output:0"].endswith(
        "output 0 is r1:0, but the golden model has r1 inside all, none of whose outputs is r1:0"
    )
    assert found["new:output:0"].endswith("but no operator of the golden model was compiled from unknown")


def test_inserted_operators_are_not_paired_by_name() -> None:
    on = rules(op("x"), op("trans_0", "TransData", inputs=("x:0",), outputs=(out(),)))
    off = rules(op("x"), op("y"), op("trans_0", "TransData", inputs=("y:0",), outputs=(out(),)))
    golden = npu(dumped("x"), dumped("y"), dumped("trans_0", 1))
    rows = paired(npu(dumped("trans_0", 1)), golden, Rules(fusion=on, fusion_off=off))
    assert [summarize(row).rpartition(" = ")[2] for row in rows] == ["?", "x:output:0", "x:output:0"]


def test_no_reader_stands_in_for_an_unreadable_golden_output() -> None:
    on = rules(op("x"), op("y", inputs=("x:0",)))
    golden = npu(dumped("x", 0, 0, problem="cut off"), dumped("y", 1))
    rows = paired(npu(dumped("x"), dumped("y", 1)), golden, Rules(fusion=on, fusion_off=on))
    assert [summarize(row).rpartition(" ")[2] for row in rows] == ["?", "?", "y:output:0"]
    assert "the golden file of x cannot be read: cut off" in reasons(rows)["x:output:0"]

"""A model with fusion against the same model without fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.pairing import Pairing, Unpaired
from opdiff.pair import Rules
from pair.rule_files import dumped, npu, op, out, paired, rules, summarize

if TYPE_CHECKING:
    from opdiff.core.graph import RuleFile
    from opdiff.core.pairing import PairingResult

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
    reasons = {str(row.key): str(row.reason) for row in compared(off=off) if isinstance(row, Unpaired)}
    assert reasons["stem:output:0"].endswith(
        "output 0 is r1:0, but the golden model has r1 inside all, none of whose outputs is r1:0"
    )
    assert reasons["new:output:0"].endswith("but no operator of the golden model was compiled from unknown")


def test_inserted_operators_are_not_paired_by_name() -> None:
    on = rules(op("x"), op("trans_0", "TransData", inputs=("x:0",), outputs=(out(),)))
    off = rules(op("x"), op("y"), op("trans_0", "TransData", inputs=("y:0",), outputs=(out(),)))
    golden = npu(dumped("x"), dumped("y"), dumped("trans_0", 1))
    rows = paired(npu(dumped("trans_0", 1)), golden, Rules(fusion=on, fusion_off=off))
    assert [summarize(row).rpartition(" = ")[2] for row in rows] == ["?", "x:output:0", "x:output:0"]

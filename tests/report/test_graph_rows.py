"""Rows of graph mode as all reports have them."""

from __future__ import annotations

import pytest

from opdiff.core.graphmode import DataMode, Figures, GraphRow, SideFacts
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot
from opdiff.report.graph_rows import golden_key, report_row


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/d/mm_1-aten.mm.default.OUTPUT.0.20240130064151000993.npy", "mm_1-aten.mm.default:output:0"),
        ("/d/cat-aten.cat.default.INPUT.0.2.20240130064151000993.npy", "cat-aten.cat.default:input:0"),
        ("/d/mm-aten.mm.default.OUTPUT.1.20240130064151_min_max.npy", "mm-aten.mm.default:output:1"),
        ("/d/Add.Add_1.5.6.1706596911000000,outputs,0", "Add_1:output:0"),
        ("/d/Add.Add_1.5.6.1706596911000000_min_max.npz,inputs,12", "Add_1:input:12"),
        ("/d/something", "something:output:3"),
    ],
)
def test_golden_tensors_are_named_after_their_files(path: str, key: str) -> None:
    side = SideFacts(path, "")
    row = GraphRow(0, "Add", Slot.OUTPUT, 3, 0, DataMode.REAL, None, side)
    assert str(golden_key(side, row)) == key


def test_a_row_keeps_what_reports_show() -> None:
    target = SideFacts("/ge/Add.Add.1.2.3,outputs,0", "Add", Figures(dtype="float16", shape=(2, 3)))
    golden = SideFacts("/fx/add-aten.add.OUTPUT.0.1.npy", "aten.add", Figures(dtype="float32", shape=(3, 2)))
    row = GraphRow(
        1,
        "Add",
        Slot.OUTPUT,
        0,
        7,
        DataMode.REAL,
        target,
        golden,
        notes=(quoted("one"), quoted("two")),
        evidence=quoted("name"),
        confidence=0.9,
    )
    made = report_row(row, 4)
    assert (made.label.index, made.label.op_type, made.label.target, made.label.golden) == (4, "Add", "Add", "aten.add")
    assert (str(made.key), made.target_dtype, made.golden_dtype, made.shape) == (
        "Add:output:0", "float16", "float32", (2, 3),
    )  # fmt: skip
    assert (str(made.reason), str(made.evidence), made.confidence, made.metrics) == ("one; two", "name", 0.9, None)


def test_a_golden_operator_that_stands_alone_has_its_own_name_and_type() -> None:
    golden = SideFacts("/fx/add-aten.add.OUTPUT.0.1.npy", "aten.add")
    row = GraphRow(
        0, "add-aten.add", None, None, 0, DataMode.REAL, None, golden, reason=quoted("fused"), golden_only=True
    )
    made = report_row(row, 0)
    assert (made.key, made.golden_key, made.label.target, made.label.op_type) == (
        None,
        None,
        "add-aten.add",
        "aten.add",
    )
    assert (made.target_path, made.golden_path, str(made.reason)) == ("", golden.path, "fused")

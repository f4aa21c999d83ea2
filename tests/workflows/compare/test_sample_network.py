"""The sample network from end to end: without faults all tensors agree, and a faulty operator is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_dumps import Case, read_result
from opdiff.read.dump import read_dump
from opdiff.sample import FAULTS, write_sample

if TYPE_CHECKING:
    from made_dumps import Result

# Their outputs are indices, which nearly equal numbers may swap.
PLACES = "head/topk:output:1"


def write(case: Case, *faults: str) -> str:
    """Write the network as both sides of a case, and return its rule file."""
    case.target, case.golden = (case.root / "sample" / side for side in ("npu", "golden"))
    return write_sample(str(case.root / "sample"), faults=faults).rules


def compared(case: Case, *faults: str) -> Result:
    return case.compared("-fr", write(case, *faults), "--overflow")


def is_bad(row: dict[str, str]) -> bool:
    """Return whether a row shows a fault: by its cosine, norm ratio, or non-finite numbers."""
    if row["Equal"] == "" or row["TensorIndex"] == PLACES or "scalar" in row["CompareFailReason"]:
        return False
    cosine = float(row["CosineSimilarity"])
    return not cosine >= 0.999 or abs(float(row["NormRatio"]) - 1) > 0.01 or row["OverFlow"] == "YES"


def test_without_faults_every_tensor_has_a_row_and_agrees(case: Case) -> None:
    result = compared(case)
    measured = [row for row in result.rows if row["Equal"]]
    assert len(measured) > 100
    assert [row["TensorIndex"] for row in measured if is_bad(row)] == []
    keys = [row["TensorIndex"].replace("/", "_").replace(".", "_") for row in result.rows]
    # The first part of a split operator: its output does not exist in the original model.
    inner = {"merge_hswish_sigmoid"}
    dump = read_dump(str(case.target), with_rules=True)
    expected = {
        f"{name}:{slot}:{index}"
        for name, operator in dump.operators.items()
        for slot, tensors in (("input", operator.inputs), ("output", operator.outputs))
        for index in tensors
        if name not in inner
    }
    assert expected <= set(keys), sorted(expected - set(keys))
    assert len(keys) - keys.count("NaN") == len({key for key in keys if key != "NaN"})
    # Only constants are not compared.
    left = [row for row in result.rows if not row["Equal"]]
    assert all(row["CompareFailReason"] for row in left)
    tensors = [row["CompareFailReason"] for row in left if row["TensorIndex"] != "NaN"]
    assert tensors
    assert all("dynamic_const" in reason or "no original tensor" in reason for reason in tensors), tensors


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_bad_operator_is_the_faulty_one(case: Case, fault: str) -> None:
    result = compared(case, fault)
    bad = [row["NPUDump"] for row in result.rows if is_bad(row)]
    assert bad[0] == FAULTS[fault].operator


def test_the_summary_names_the_first_tensor_of_low_accuracy(case: Case) -> None:
    outcome = case.run("-fr", write(case, "permuted"), "-v")
    assert outcome.code == 0
    (path,) = case.results()
    assert f"result: {path}" in outcome.out
    low = [row for row in read_result(path).rows if row["Equal"] and float(row["CosineSimilarity"]) < 0.99]
    assert f"cosine below 0.99: {len(low)} tensors, first [{low[0]['Index']}] {low[0]['TensorIndex']};" in outcome.out

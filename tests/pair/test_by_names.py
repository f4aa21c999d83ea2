"""Two NPU dumps without rules, paired by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opdiff.core.errors import UsageError
from opdiff.core.pairing import Unpaired
from opdiff.pair.selection import Range
from opdiff.pair.target_graph import target_graph
from pair.rule_files import dumped, npu, paired, summarize

if TYPE_CHECKING:
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
    reasons = {
        str(row.key or row.label.target): str(row.reason) for row in paired(target, golden) if isinstance(row, Unpaired)
    }
    assert reasons == {
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
    assert [str(row.reason) for row in rows if isinstance(row, Unpaired) and row.key is None] == [
        "the target file of a cannot be read: a.output.1.npy: cut off",
        "the golden file of b cannot be read: b.output.0.npy: no header",
    ]


def test_unreadable_files_of_both_sides_are_both_reported() -> None:
    (row,) = paired(npu(dumped("a", 0, 0, problem="cut off")), npu(dumped("a", 0, 0, problem="no header")))
    assert isinstance(row, Unpaired)
    assert (
        str(row.reason)
        == "the target file of a cannot be read: cut off; the golden file of a cannot be read: no header"
    )


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

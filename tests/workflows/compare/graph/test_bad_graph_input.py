"""Damaged, unusual and missing input of graph mode: it costs one row or gives one message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from graph_dumps import GraphCase, read_table
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.sample.graph_text import TextNode

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

VALUES = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
FOLDER = "worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0"


@pytest.fixture
def pair(case: GraphCase) -> GraphCase:
    """Two operators; tests damage `Mul`."""
    case.text(
        TextNode("Add", "Add", output_fx=("add-aten.add.OUTPUT.0",)),
        TextNode("Mul", "Mul", output_fx=("mul-aten.mul.OUTPUT.0",)),
    )
    case.ge("Add", (), (VALUES,))
    case.ge("Mul", (), (VALUES,), op_type="Mul")
    case.node("add-aten.add", (), (VALUES,))
    case.node("mul-aten.mul", (), (VALUES,))
    return case


def message(pair: GraphCase, api: str = "Mul") -> str:
    """Return the message of the damaged row; check that the other one passes."""
    table = pair.table()
    assert table.of("Add.output.0")["Result"] == "PASS"
    row = table.of(api)
    assert row["Result"] == "FAIL"
    return row["Err_message"]


def target_file(pair: GraphCase) -> Path:
    return next(pair.target.rglob("Mul.Mul.*"))


def golden_file(pair: GraphCase) -> Path:
    return next(pair.fx.rglob("mul-*.npy"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "the file is empty"), (b"12345", "cannot be read"), (None, "cannot be read")],
)
def test_a_damaged_target(pair: GraphCase, content: bytes | None, problem: str) -> None:
    path = target_file(pair)
    path.write_bytes(path.read_bytes()[:-4] if content is None else content)
    assert problem in message(pair)


@pytest.mark.parametrize("size", [0, 20, 130])
def test_a_damaged_golden(pair: GraphCase, size: int) -> None:
    path = golden_file(pair)
    path.write_bytes(path.read_bytes()[:size])
    assert "the golden file cannot be read" in message(pair, "Mul.output.0")


@pytest.mark.parametrize(
    ("golden", "result", "told"),
    [
        (np.array([print, None], dtype=object), "FAIL", "unpickling Python objects"),
        (VALUES[:, :2], "FAIL", "the target has shape [2, 3], the golden [2, 2]"),
        (VALUES.astype(np.complex64), "FAIL", "complex"),
        (VALUES.reshape(3, 2), "PASS", "have different shapes and were compared element by element"),
        (VALUES.astype(np.int8), "PASS", "the element types differ in kind: target float32, golden int8"),
    ],
    ids=["objects", "fewer elements", "complex", "other shape", "integers"],
)
def test_another_golden_array(pair: GraphCase, golden: AnyArray, result: str, told: str) -> None:
    np.save(golden_file(pair), golden, allow_pickle=True)
    table = pair.table()
    row = table.of("Mul.output.0")
    assert (row["Result"], table.of("Add.output.0")["Result"]) == (result, "PASS")
    assert told in row["Err_message"]
    assert bool(row["cmp_fail_reason"]) == (result == "FAIL")


def test_complex_numbers_are_compared_by_their_parts(pair: GraphCase) -> None:
    np.save(golden_file(pair), VALUES * 1j)
    target_file(pair).unlink()
    pair.ge("Mul", (), (VALUES * 1j,), op_type="Mul")
    row = pair.table().of("Mul.output.0")
    assert (row["Result"], row["Cosine"], row["kl_divergence"]) == ("PASS", "1.0", "0.0")


def test_a_name_with_blanks_and_brackets(pair: GraphCase) -> None:
    name = "mul-<built-in function mul>"
    pair.text(
        TextNode("Add", "Add", output_fx=("add-aten.add.OUTPUT.0",)),
        TextNode("Mul", "Mul", output_fx=(f"{name}.OUTPUT.0",)),
    )
    pair.node(name, (), (VALUES,))
    assert pair.table().of("Mul.output.0")["Result"] == "PASS"


def test_formulas_in_cells_are_escaped(pair: GraphCase) -> None:
    name = "=1+1-aten.x"
    pair.text(TextNode("Mul", "Mul", output_fx=(f"{name}.OUTPUT.0",)))
    pair.node(name, (), (VALUES,))
    row = next(row for row in pair.table().rows if row["golden_op_type"] == "aten.x" or "=1+1" in row["Data Name"])
    assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())


def test_truncated_graph_text_costs_its_missing_operators(pair: GraphCase) -> None:
    text = next(pair.target.glob("*.txt"))
    text.write_text(text.read_text()[:-30])
    outcome = pair.run()
    assert outcome.code == 0
    assert "the text ends inside a block" in outcome.out
    (path,) = pair.out.glob("*.csv")
    table = read_table(path)
    assert table.results["Add.output.0"] == "PASS"
    assert table.of("Mul")["Err_message"].startswith("the graph has no operator Mul")


def test_fx_needs_a_graph_text(pair: GraphCase) -> None:
    next(pair.target.glob("*.txt")).unlink()
    assert "no graph text dynamo_original_graph_*.txt" in pair.refused()


def test_unusable_graph_text_is_named(pair: GraphCase) -> None:
    next(pair.target.glob("*.txt")).write_text("nothing")
    outcome = pair.run()
    assert outcome.code == 3
    assert "no operators are in this graph text" in outcome.out


def test_fx_as_target(pair: GraphCase) -> None:
    assert "this is an FX dump" in pair.refused(target=pair.fx, golden=pair.target)


def test_folders_without_dumps(pair: GraphCase, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no dump files of graph mode here" in pair.refused(golden=empty)
    assert "no dump files of graph mode here" in pair.refused(target=empty)
    (empty / "notes.doc").write_text("x")
    assert "(1 other files)" in pair.refused(golden=empty)
    assert "not a directory, but a file" in pair.refused(golden=empty / "notes.doc")
    assert "no such file or directory" in pair.refused(golden=empty / "nothing")


def test_no_common_rank(pair: GraphCase, tmp_path: Path) -> None:
    other = tmp_path / "other"
    pair.node("add-aten.add", (), (VALUES,), root=other, folder="worldsize8_global_rank5/graph_1/0")
    assert "no common rank: the target has 0, the golden 5" in pair.refused(golden=other)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-fr", "rules.json"), "-fr cannot be combined with --mode torchair"),
        (("--overflow", "-alg", "0"), "-overflow_detection, -alg cannot be combined with --mode torchair"),
        (("--rank", "x"), "argument --rank: 'x' is not a number"),
        (("--data_mode", "sha"), "argument --data-mode: invalid choice: 'sha'"),
    ],
)
def test_contradicting_options(pair: GraphCase, options: tuple[str, ...], problem: str) -> None:
    outcome = pair.run(*options)
    assert outcome.code == 2
    assert problem in outcome.err


def test_options_of_graph_mode_only(pair: GraphCase) -> None:
    outcome = run(pair.capsys, "compare", "-m", "offline_data", pair.target, pair.fx, "--rank", 0, "--data_mode", "md5")
    assert outcome.code == 2
    assert "--rank, --data_mode goes with --mode torchair only" in outcome.err


def test_links_to_other_directories_are_not_followed(pair: GraphCase, tmp_path: Path) -> None:
    path = golden_file(pair)
    outside = tmp_path / "outside.npy"
    path.rename(outside)
    path.symlink_to(outside)
    assert "the golden dump has no FX operator mul-aten.mul" in message(pair, "Mul.output.0")


def test_no_equal_tensor_stands_in_for_an_unreadable_golden_file(case: GraphCase) -> None:
    sample = write_graph_sample(str(case.root / "sample"), ranks=1, tokens=1)
    target, golden = Path(sample.target), Path(sample.golden)
    before = {row["API Name"]: row for row in case.table(target=target, golden=golden).rows}
    # The argument of the next node has the same numbers.
    (path,) = golden.rglob("mm-aten.mm.default.OUTPUT.0.*.npy")
    path.write_bytes(path.read_bytes()[:20])
    outcome = case.run(target=target, golden=golden)
    assert f"1 file left out, such as {path}" in " ".join(outcome.out.split())
    after = {row["API Name"]: row for row in read_table(max(case.out.glob("*.csv"))).rows}
    changed = [name for name, row in after.items() if row["Result"] != before[name]["Result"]]
    assert len(changed) == 1
    assert "the golden file cannot be read" in after[changed[0]]["Err_message"]


def test_an_unreadable_argument_of_the_golden_run_is_named(case: GraphCase) -> None:
    sample = write_graph_sample(str(case.root / "sample"), ranks=1, tokens=1)
    (path,) = Path(sample.golden).rglob("relu-aten.relu.default.INPUT.0.*.npy")
    path.write_bytes(b"")
    outcome = case.run(target=Path(sample.target), golden=Path(sample.golden))
    assert f"1 file left out, such as {path}: the file is empty" in " ".join(outcome.out.split())


def test_an_unreadable_part_of_a_fused_operator_is_the_reason(case: GraphCase) -> None:
    add = TextNode("Add", "Add", output_fx=("add-aten.add.OUTPUT.0",))
    mul = TextNode("Mul", "Mul", ("Add:0",), output_fx=("mul-aten.mul.OUTPUT.0",))
    case.text(add, mul)
    case.text(add, mul, root=case.off)
    case.ge("AddMul", (), (VALUES,), op_type="Mul")
    case.ge("Add", (), (VALUES,), root=case.off)
    case.ge("Mul", (VALUES,), (VALUES,), op_type="Mul", root=case.off).write_bytes(b"")
    row = case.table(golden=case.off, code=3).of("AddMul.output.0")
    assert "the golden file cannot be read: the file is empty" in row["Err_message"]

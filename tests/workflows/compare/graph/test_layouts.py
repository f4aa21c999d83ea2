"""Directory layouts of graph mode: every known layout, ranks, tokens, graphs and times."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from graph_dumps import STAMP, GraphCase, read_table
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.sample.graph_text import TextNode

if TYPE_CHECKING:
    from pathlib import Path

ONE = np.arange(1, 5, dtype=np.float32)
NODE = TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",))
FX = "add-aten.add.Tensor"


@pytest.mark.parametrize(
    ("version", "golden", "name"),
    [
        ("new", "fx/msprobe_fx_dump", "msprobe_cmp_report_rank0_"),
        ("new", "fx", "msprobe_cmp_report_rank0_"),
        ("7.1.0", "fx/msprobe_fx_dump/data_dump", "msprobe_cmp_report_rank0_"),
        ("7.1.0", "fx/msprobe_fx_dump", "msprobe_cmp_report_rank0_"),
        ("old", "data_dump", "msprobe_cmp_report_2"),
    ],
)
def test_every_layout_of_fx(
    version: str, golden: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=1, version=version)
    outcome = run(
        capsys, "compare", "-m", "torchair", "-tp", sample.target, "-gp", tmp_path / golden, "-o", tmp_path / "o"
    )
    assert outcome.code == 0, outcome
    assert "first bad token: 1\n" in outcome.out
    assert "first bad operator: MatMul_1 (MatMul_1.output.0)\n" in outcome.out
    (path,) = (tmp_path / "o").glob("*.csv")
    assert path.name.startswith(name)
    results = {(row["token_id"], row["API Name"]): row["Result"] for row in read_table(path).rows}
    assert {result for start, result in results.items() if start[0] == "0"} == {"PASS", "N/A"}
    assert results["1", "MatMul_1.input.0"] == "PASS"
    assert results["1", "MatMul_1.output.0"] == "FAIL"


@pytest.mark.parametrize("version", ["new", "old"])
def test_fusion_on_against_off(version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=1, version=version)
    outcome = run(capsys, "compare", sample.target, sample.fusion_off, "-m", "torchair", "-o", tmp_path / "o")
    assert outcome.code == 0
    assert outcome.out.startswith("GE with fusion on against GE with fusion off\n")
    (path,) = (tmp_path / "o").glob("*.csv")
    table = read_table(path)
    assert table.of("Add_1Mul_1.input.2", 0)["golden_data_path"].endswith("Mul.Mul_1.10.6.1706596911001266,inputs,1")
    assert table.of("Add_1Mul_1.output.0", 0)["Result"] == "PASS"
    assert table.of("Add_1Mul_1.output.0", 1)["Result"] == "FAIL"


def test_results_go_to_the_current_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = write_graph_sample(str(tmp_path / "a sample"), ranks=1, tokens=1)
    monkeypatch.chdir(tmp_path)
    args = ("compare", f"--target_path={sample.target}", f"--golden_path={sample.golden}", "--mode=torchair")
    assert run(capsys, *args).code == 0
    assert len(list(tmp_path.glob("msprobe_cmp_report_rank0_*.csv"))) == 1


def test_ranks_have_a_table_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=3)
    shutil.rmtree(tmp_path / "fx/msprobe_fx_dump/worldsize8_global_rank1")
    outcome = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "o")
    assert outcome.code == 0
    assert outcome.out.startswith("GE with fusion on against FX\n")
    assert "note: rank 1: only the target dump has it; not compared\n" in outcome.out
    names = sorted(path.name[: len("msprobe_cmp_report_rank0")] for path in (tmp_path / "o").glob("*.csv"))
    assert names == ["msprobe_cmp_report_rank0", "msprobe_cmp_report_rank2"]


def test_selection_of_rank_token_and_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=2, tokens=3)
    args = ("compare", sample.target, sample.golden, "-o", tmp_path / "o", "--rank", 1, "--token", 2, "--graph", 1)
    assert run(capsys, *args).code == 0
    (path,) = (tmp_path / "o").glob("*.csv")
    assert path.name.startswith("msprobe_cmp_report_rank1_")
    assert {row["token_id"] for row in read_table(path).rows} == {"2"}
    for option, problem in (
        (("--rank", 7), "there is no rank 7 here, only 0, 1"),
        (("--token", 9), "no token 9 is here"),
        (("--graph", 5), "no graph 5 to compare is here"),
    ):
        outcome = run(capsys, *args[:5], *option)
        assert outcome.code == 3
        assert problem in outcome.err


def test_several_ranks_against_none_must_be_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=2, version="7.1.0")
    outcome = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "o")
    assert outcome.code == 2
    assert "has none; choose one with --rank" in outcome.err


def test_tokens_of_one_side_are_reported(case: GraphCase) -> None:
    case.one(ONE, ONE)
    case.ge("Add", (), (ONE,), folder="worldsize1_global_rank0/20240130064151/0/graph_1_0/1/4")
    case.node(FX, (), (ONE,), folder="worldsize1_global_rank0/graph_1/9")
    table = case.table()
    assert table.of("Add.output.0")["Result"] == "PASS"
    assert table.of("Add", 4)["Err_message"] == "the golden dump does not have this token"
    assert "token 9: only the golden dump has it; not compared" in case.run().out


def test_graphs_are_paired_by_their_numbers(case: GraphCase) -> None:
    """More than ten graphs, whose names sort differently as strings."""
    for number in range(1, 13):
        values = ONE * number
        case.text(NODE, graph=number)
        case.ge("Add", (), (values,), folder=f"worldsize1_global_rank0/20240130064151/0/graph_{number}_0/{number}/0")
        case.node(FX, (), (values,), folder=f"worldsize1_global_rank0/graph_{number}/0")
    tables = case.tables()
    assert len(tables) == 12
    assert {table.of("Add.output.0")["MaxAbsErr"] for table in tables} == {"0.0"}
    assert any("_rank0_graph10_" in table.path.name for table in tables)


def test_graphs_without_numbers_are_paired_by_their_operators(case: GraphCase) -> None:
    case.text(NODE, graph=1)
    case.text(TextNode("Mul", "Mul", output_fx=("mul-aten.mul.Tensor.OUTPUT.0",)), graph=2)
    # The order of folders is reversed on both sides.
    case.ge("Mul", (), (ONE,), folder="worldsize1_global_rank0/20240130064151/0/ge_default_1/1/0", op_type="Mul")
    case.ge("Add", (), (ONE,), folder="worldsize1_global_rank0/20240130064151/0/ge_default_2/2/0")
    case.node("mul-aten.mul.Tensor", (), (ONE,), folder=f"data_dump/1/gm_{STAMP}_dump")
    case.node(FX, (), (ONE,), folder=f"data_dump/1/gm_{STAMP + 5}_dump")
    first, second = case.tables()
    assert (first.results, second.results) == ({"Add.output.0": "PASS"}, {"Mul.output.0": "PASS"})


def test_parts_of_a_split_graph_are_merged(case: GraphCase) -> None:
    case.text(NODE, TextNode("Mul", "Mul", output_fx=("mul-aten.mul.Tensor.OUTPUT.0",)))
    case.ge("Add", (), (ONE,), folder="worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0")
    case.ge("Mul", (), (ONE,), folder="worldsize1_global_rank0/20240130064151/0/graph_1_1/2/0", op_type="Mul")
    case.node(FX, (), (ONE,))
    case.node("mul-aten.mul.Tensor", (), (ONE,))
    assert case.table().results == {"Add.output.0": "PASS", "Mul.output.0": "PASS"}


def test_later_of_two_times_is_used(case: GraphCase) -> None:
    case.one(ONE, ONE)
    case.ge("Add", (), (ONE * 2,), folder="worldsize1_global_rank0/20240131064151/0/graph_1_0/1/0")
    outcome = case.run()
    assert "was dumped at 20240130064151 and again at 20240131064151; the later dump is compared" in outcome.out
    (table,) = (read_table(path) for path in case.out.glob("*.csv"))
    assert table.of("Add.output.0")["MaxRelativeErr"] == "1.0"


def test_graph_text_of_another_process_gives_a_note(case: GraphCase) -> None:
    case.one(ONE, ONE)
    case.text(NODE, pid=2, stamp=STAMP + 1)
    assert "texts of graph 1 of rank 0 from several processes: two runs may be mixed here" in case.run().out


def test_optimized_graph_text_replaces_a_missing_original(case: GraphCase) -> None:
    case.one(ONE, ONE)
    original = next(case.target.glob("dynamo_original*"))
    original.rename(str(original).replace("original", "optimized"))
    outcome = case.run()
    assert outcome.code == 0
    assert "the original graph is missing, the optimized one is used" in outcome.out


def test_rank_without_graph_text_uses_that_of_another_rank(case: GraphCase) -> None:
    case.one(ONE, ONE)
    case.ge("Add", (), (ONE,), folder="worldsize2_global_rank1/20240130064151/1/graph_1_0/1/0")
    case.node(FX, (), (ONE,), folder="worldsize2_global_rank1/graph_1/0")
    assert [table.results for table in case.tables()] == [{"Add.output.0": "PASS"}] * 2


def test_graph_without_text_is_reported_and_not_compared(case: GraphCase) -> None:
    case.one(ONE, ONE)
    case.ge("Add", (), (ONE * 3,), folder="worldsize1_global_rank0/20240130064151/0/graph_2_0/2/0")
    case.node(FX, (), (ONE * 3,), folder="worldsize1_global_rank0/graph_2/0")
    outcome = case.run()
    assert "note: rank 0: graph 2: there is no graph text for it; not compared\n" in outcome.out
    assert "note: rank 0: graph 2 of the golden dump: the target has no graph text for it\n" in outcome.out
    (table,) = (read_table(path) for path in case.out.glob("*.csv"))
    assert table.results == {"Add.output.0": "PASS"}


def test_devices_replace_missing_ranks(case: GraphCase) -> None:
    for device in range(2):
        case.text(NODE, rank=device)
        case.text(NODE, rank=device, root=case.off)
        for root in (case.target, case.off):
            case.ge("Add", (), (ONE + device,), folder=f"20240130064151/{device}/graph_1_0/1/0", root=root)
    case.node(FX, (), (ONE + 1,), folder=f"data_dump/1/gm_{STAMP}_dump")
    tables = case.tables(golden=case.off)
    assert [table.path.name[:24] for table in tables] == ["msprobe_cmp_report_rank0", "msprobe_cmp_report_rank1"]
    assert "choose one with --rank" in case.run().err
    assert case.table("--rank", 1).results == {"Add.output.0": "PASS"}


@pytest.mark.parametrize("part", ["worldsize8_global_rank1", "worldsize8_global_rank1/20240130064151/1/graph_1_0/1/1"])
def test_part_of_a_dump_uses_the_graph_texts_of_the_whole(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = write_graph_sample(str(tmp_path))
    args = ("compare", "-m", "torchair", f"{sample.target}/{part}", sample.golden, "-o", tmp_path / "o", "--rank", 1)
    outcome = run(capsys, *args)
    assert outcome.code == 0, outcome
    assert f"the graph texts of {sample.target} are used" in outcome.out
    assert "first bad operator: MatMul_1" in outcome.out


def test_failed_comparison_leaves_no_folder(case: GraphCase) -> None:
    case.ge("Add", (), (ONE,))
    case.node(FX, (), (ONE,))
    case.refused()
    assert not case.out.exists()


@pytest.mark.parametrize(
    ("tokens", "lines"),
    [
        (2, ["  rank     token 0   token 1", "  0              0         9"]),
        (14, ["  rank / token" + "".join(f"{n:5}" for n in range(12)), "  0               0" + "    9" * 11]),
    ],
)
def test_table_of_tokens_fits_a_terminal(
    tokens: int, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=1, tokens=tokens)
    output = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "o", "--no-html").out.splitlines()
    start = next(number for number, line in enumerate(output) if line.startswith("FAIL by rank and token"))
    assert output[start + 1 : start + 3] == lines
    assert max(map(len, lines)) <= 80

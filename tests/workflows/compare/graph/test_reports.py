"""Reports of graph mode: of all ranks and tokens, of saved comparisons, gates, and changes."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

import opdiff
from command_line import run
from graph_dumps import floats
from opdiff.core.reasons import because
from opdiff.report.saved_json import load, save
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.sample.graph_text import TextNode
from page_data import PageData, sentences

if TYPE_CHECKING:
    from pathlib import Path

    from graph_dumps import GraphCase
    from opdiff.sample.graph_mode import GraphSample

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> GraphSample:
    return write_graph_sample(str(tmp_path_factory.mktemp("graphs")))


def compare(capsys: Capture, sample: GraphSample, out: Path, *options: object, code: int = 0) -> str:
    outcome = run(capsys, "compare", sample.target, sample.golden, "-m", "torchair", "-o", out, *options)
    assert outcome.code == code, outcome
    return outcome.out + outcome.err


def shown(folder: Path) -> PageData:
    (report,) = folder.glob("report_*.html")
    return PageData.read(report)


def test_one_report_has_all_ranks_and_tokens(sample: GraphSample, tmp_path: Path, capsys: Capture) -> None:
    out = compare(capsys, sample, tmp_path)
    (report,) = tmp_path.glob("report_*.html")
    assert f"report: {report}" in out
    assert "MatMul_1 (MatMulV2) is proved to be at fault: wrong scale" in out.replace("\n  ", " ")
    page = shown(tmp_path)
    units = page.document["graphMode"]["units"]
    assert [unit[:3] for unit in units] == [[0, 0, None], [0, 1, None], [1, 0, None], [1, 1, None]]
    (finding,) = page.document["story"]["findings"]
    assert (finding["operator"], finding["kind"]) == ("MatMul_1", "scale")
    (finding,) = page.document["findings"]
    assert [units[number][:2] for number in finding["units"]] == [[0, 1], [1, 1]]
    assert page.block_texts("rows", "operator")[finding["row"]] == "MatMul_1"
    assert sentences(page.document["story"]["advice"], page.document)[1] == "Start with MatMul_1 (rank 0, token 1)."
    assert page.document["environment"]["opdiff"] == opdiff.__version__
    levels = page.column("rows", "level")
    bad = {unit for unit, level in zip(page.units(), levels, strict=True) if level in (3, 4)}
    assert bad == {1, 3}


def test_network_is_that_of_the_graph_text_with_fused_operators_merged(
    sample: GraphSample, tmp_path: Path, capsys: Capture
) -> None:
    compare(capsys, sample, tmp_path)
    page = shown(tmp_path)
    assert len(page.document["graphMode"]["networks"]) == 1
    network = "graphMode", "networks", 0
    names = page.texts(*network, "name")
    fan_in, inputs = page.column(*network, "fanIn"), page.column(*network, "inputs")
    starts = np.cumsum([0, *fan_in])
    fed = {name: inputs[starts[at] : starts[at] + fan_in[at]] for at, name in enumerate(names)}
    assert [names[number] for number in fed["Add_1Mul_1"]] == ["Muls", "MatMul_1", "Muls"]
    assert [names[number] for number in fed["TopKV2"]] == ["Add_1Mul_1"]
    # Inserted by the compiler: its inputs are unknown.
    assert fed["trans_TransData_7"] == [-1]
    assert page.texts(*network, "originals")[names.index("Add_1Mul_1")].split() == ["Add_1", "Mul_1"]


def test_statistics_columns_have_only_measured_rows(case: GraphCase) -> None:
    case.one(floats([1, 2, 3]), floats([1, 2, 6]))
    case.run("--data_mode", "statistics")
    page = shown(case.out)
    assert page.rows_with("metrics") == []
    columns = "graphMode", "statistics", "columns"
    assert page.block_column(*columns, "target_maximum") == [3]
    assert page.block_column(*columns, "golden_maximum") == [6]
    assert page.block_column(*columns, "max_relative") == [0.5]
    assert page.rows_with("graphMode", "real") == []
    assert [block["graphMode"]["real"]["columns"] for block, _ in page.blocks] == [{}]
    assert page.rows_with("graphMode", "checksums") == []
    assert page.block_texts("rows", "why")[0].startswith("a statistic deviates by more than 1%")


def test_checksums_have_no_metrics(case: GraphCase) -> None:
    case.text(*(TextNode(name, "Add", output_fx=(f"{name}-aten.OUTPUT.0",)) for name in ("Good", "Bad")))
    for name, golden in (("Good", [1, 2]), ("Bad", [1, 3])):
        case.ge(name, (), (floats([1, 2]),))
        case.node(f"{name}-aten", (), (floats(golden),))
    case.run("--data_mode", "md5")
    page = shown(case.out)
    levels, why = page.column("rows", "level"), page.block_texts("rows", "why")
    (good,), (bad,) = page.rows_of("Good"), page.rows_of("Bad")
    assert (levels[good], why[good]) == (0, "the checksums are equal")
    assert (levels[bad], why[bad]) == (3, "the checksums differ")
    sums = [page.block_texts("graphMode", "checksums", side) for side in ("target", "golden")]
    assert sorted(ours == theirs for ours, theirs in zip(*sums, strict=True)) == [False, True]
    assert page.rows_with("metrics") == page.rows_with("graphMode", "statistics") == []


def test_rows_not_compared_have_reasons(case: GraphCase) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    case.ge("Unknown", (), (floats([1]),))
    case.node("unused-aten.sub", (), (floats([1]),))
    case.run()
    page = shown(case.out)
    levels, reasons = page.column("rows", "level"), page.block_texts("rows", "reason")
    for name, reason in (("Unknown", "the graph has no operator Unknown"), ("unused-aten.sub", "no operator of the")):
        (row,) = page.rows_of(name)
        assert levels[row] == 5
        assert reasons[row].startswith(reason)


def test_two_empty_tensors_are_equal(case: GraphCase) -> None:
    case.one(floats([]), floats([]))
    case.run()
    page = shown(case.out)
    assert (page.column("rows", "level"), page.block_texts("rows", "why")) == ([0], ["both tensors are empty"])
    (saved,) = case.out.glob("result_*.json")
    comparison = load(str(saved))
    assert [row.notes for row in comparison.rows] == [(because("compare.both_empty"),)]
    assert [verdict.rule for verdict in comparison.judgement.verdicts] == [because("judge.both_empty")]


def test_without_a_graph_text_there_is_no_network(tmp_path: Path, capsys: Capture) -> None:
    made = write_graph_sample(str(tmp_path / "sample"), ranks=1, tokens=1)
    for root in (made.target, made.fusion_off):
        for text in (tmp_path / root).glob("*.txt"):
            text.unlink()
    run(capsys, "compare", made.target, made.fusion_off, "-m", "torchair", "-o", tmp_path / "out")
    assert shown(tmp_path / "out").document["graphMode"]["networks"] == []


@pytest.mark.parametrize("mode", ["real", "statistics", "md5"])
def test_report_of_a_saved_comparison_is_the_same(
    sample: GraphSample, tmp_path: Path, capsys: Capture, mode: str
) -> None:
    compare(capsys, sample, tmp_path, "--data_mode", mode)
    (saved,) = tmp_path.glob("result_*.json")
    (report,) = tmp_path.glob("report_*.html")
    again = tmp_path / "again.html"
    assert run(capsys, "report", saved, "-o", again).code == 0
    assert again.read_bytes() == report.read_bytes()
    # All files of the folder, the summary included; and the folder.
    for which in (sorted(tmp_path.glob("*.json")), [tmp_path]):
        assert run(capsys, "report", *which, "-o", again).code == 0
        assert again.read_bytes() == report.read_bytes()


def test_reports_of_saved_comparisons_have_the_time_of_the_run(
    sample: GraphSample, tmp_path: Path, capsys: Capture
) -> None:
    compare(capsys, sample, tmp_path, "--no-html")
    assert not list(tmp_path.glob("*.html"))
    out = run(capsys, "report", tmp_path, "--junit", "--parquet", "--xlsx").out
    assert re.findall(r"(report|result)_\d{14}(\.\w+)", out) == [
        ("report", ".html"), ("result", ".xlsx"), ("result", ".parquet"), ("result", ".junit"),
    ]  # fmt: skip
    assert [unit[0] for unit in shown(tmp_path).document["graphMode"]["units"]] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("choose", "problem"),
    [
        (lambda a, b: [next(a.glob("result*.json")), next(b.glob("result*.json"))], "several files make one report"),
        (lambda a, _: [next(a.glob("*summary*.json"))], "is the summary of a run"),
        (lambda a, _: [a.parent], "in this folder is a saved comparison"),
        (lambda a, _: [next(a.glob("*rank0*.csv"))], "is not a saved comparison"),
    ],
    ids=["two runs", "summary", "folder", "no JSON"],
)  # fmt: skip
def test_invalid_files_are_rejected(
    sample: GraphSample, tmp_path: Path, capsys: Capture, choose: Any, problem: str
) -> None:
    compare(capsys, sample, tmp_path / "a")
    run(capsys, "compare", sample.target, sample.fusion_off, "-m", "torchair", "-o", tmp_path / "b")
    outcome = run(capsys, "report", *choose(tmp_path / "a", tmp_path / "b"))
    assert outcome.code == 3
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("mode", "gate", "code"),
    [("real", "wrong", 1), ("real", "suspicious", 1), ("md5", "wrong", 0), ("md5", "suspicious", 1),
     ("statistics", "wrong", 0), ("statistics", "suspicious", 1)],
)  # fmt: skip
def test_the_gate(sample: GraphSample, tmp_path: Path, capsys: Capture, mode: str, gate: str, code: int) -> None:
    output = compare(capsys, sample, tmp_path, "--data_mode", mode, "--fail-on", gate, code=code)
    assert ("gate violated" in output) == bool(code)
    assert run(capsys, "report", tmp_path, "--no-html", "--fail-on", gate).code == code


def test_gate_passes_a_good_run(tmp_path: Path, capsys: Capture) -> None:
    sample = write_graph_sample(str(tmp_path / "sample"), faulty=False)
    out = compare(capsys, sample, tmp_path / "out", "--fail-on", "suspicious")
    assert "No operator is at fault" in out


def test_limits_of_the_user(sample: GraphSample, tmp_path: Path, capsys: Capture) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("[dtype.float16]\ndistance = 0.5\n", encoding="utf-8")
    compare(capsys, sample, tmp_path / "out", "--limits", limits, "--fail-on", "wrong")
    again = run(capsys, "report", tmp_path / "out", "--no-html", "--limits", limits, "--fail-on", "wrong")
    assert again.code == 0


def test_junit_has_a_case_for_each_operator_and_token(sample: GraphSample, tmp_path: Path, capsys: Capture) -> None:
    compare(capsys, sample, tmp_path, "--junit")
    (path,) = tmp_path.glob("*.junit.xml")
    cases = {case.get("name"): case for case in ET.parse(path).getroot().iter("testcase")}  # noqa: S314  the file is ours
    assert len(cases) == 36
    assert cases["rank 0, token 0: MatMul_1"].find("failure") is None
    failure = cases["rank 1, token 1: MatMul_1"].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("MatMul_1:output:0: wrong: relative error 0.05")
    assert cases["rank 0, token 0: add_1-aten.add.Tensor"].find("skipped") is not None


def test_flat_table_has_rank_token_and_statistics(sample: GraphSample, tmp_path: Path, capsys: Capture) -> None:
    from pyarrow import parquet

    compare(capsys, sample, tmp_path, "--parquet", "--data_mode", "statistics", "--no-html")
    (path,) = tmp_path.glob("*.parquet")
    rows = parquet.read_table(path).to_pylist()
    (row,) = [row for row in rows if (row["rank"], row["token"], row["tensor"]) == (1, 1, "MatMul_1:output:0")]
    assert (row["graph"], row["data_mode"], row["result"], row["level"]) == (None, "statistics", "FAIL", "suspicious")
    assert row["target_statistic_norm"] == pytest.approx(1.05 * row["golden_statistic_norm"], rel=1e-3)
    assert (row["cosine"], row["documented_cosine"], row["target_crc32"]) == (None, None, "")


def test_changes_between_two_runs(sample: GraphSample, tmp_path: Path, capsys: Capture) -> None:
    good = write_graph_sample(str(tmp_path / "good"), faulty=False)
    compare(capsys, good, tmp_path / "old")
    compare(capsys, sample, tmp_path / "new")
    outcome = run(
        capsys, "diff", tmp_path / "old", tmp_path / "new", "--html", tmp_path / "c.html", "--fail-on", "worse"
    )
    assert outcome.code == 1
    assert "rank 1, token 1: MatMul_1:output:0: rounding -> wrong" in outcome.out
    assert "token 0: " not in outcome.out
    changed = PageData.read(tmp_path / "c.html").texts("changes", "tensor")
    assert "rank 0, token 1: MatMul_1:output:0" in changed
    found = run(capsys, "diff", tmp_path / "old", tmp_path / "new", "--json").json
    assert {change["place"] for change in found["rows"]} == {"rank 0, token 1", "rank 1, token 1"}
    same = run(capsys, "diff", tmp_path / "new", tmp_path / "new")
    assert "as before: 84; values differ in 0" in same.out


def test_different_statistics_count_as_other_numbers(case: GraphCase, tmp_path: Path) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    case.run("--data_mode", "statistics")
    (old,) = case.out.glob("result_*.json")
    found = load(str(old))
    (row,) = found.rows
    assert row.golden is not None
    assert row.golden.stats is not None
    golden = replace(row.golden, stats=replace(row.golden.stats, mean=1.501))
    save(replace(found, rows=(replace(row, golden=golden),)), str(tmp_path / "new.json"))
    outcome = run(case.capsys, "diff", old, tmp_path / "new.json")
    assert "as before: 1; values differ in 1" in outcome.out


def test_changes_between_modes_are_rejected(case: GraphCase, tmp_path: Path) -> None:
    from made_reports import judged_comparison, row

    case.one(floats([1, 2]), floats([1, 2]))
    case.run()
    save(judged_comparison(row("a")), str(tmp_path / "offline.json"))
    outcome = run(case.capsys, "diff", tmp_path / "offline.json", case.out)
    assert outcome.code == 2
    assert "one of the two is a result of graph mode" in outcome.err
    several = run(case.capsys, "report", tmp_path / "offline.json", tmp_path / "offline.json")
    assert (several.code, "several files make one report in graph mode only" in several.err) == (3, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--model-explorer"],
            "--model-explorer cannot be combined with --mode torchair: Model Explorer shows one value",
        ),
        (
            ["-op", "Add"],
            "-op cannot be combined with --mode torchair: it examines one operator of an offline comparison",
        ),
        (["--third", "x"], "--third cannot be combined with --mode torchair: use the dump with fusion off"),
    ],
)
def test_options_missing_in_graph_mode_are_rejected(case: GraphCase, options: list[str], problem: str) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    assert problem in case.refused(*options, code=2)
    assert not case.out.exists()


def test_model_explorer_is_rejected_for_saved_results(case: GraphCase) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    case.run()
    outcome = run(case.capsys, "report", case.out, "--model-explorer", "--no-html")
    assert outcome.code == 2
    assert "one value for each operator" in outcome.err


def test_notes_about_the_dumps_are_in_the_report(tmp_path: Path, capsys: Capture) -> None:
    made = write_graph_sample(str(tmp_path / "sample"))
    for folder in (tmp_path / "sample" / "fx").rglob("*rank1"):
        shutil.rmtree(folder)
    compare(capsys, made, tmp_path / "out")
    page = shown(tmp_path / "out")
    notes = sentences(page.document["notes"], page.document)
    assert notes[0] == "rank 1: only the target dump has it; not compared"
    assert [note.partition(":")[0] for note in notes[1:]] == [
        "Requires_grad Consistent is N/A",
        "Stack Info is N/A in 44 of 44 rows",
    ]


def test_python_programs_write_the_report(sample: GraphSample, tmp_path: Path) -> None:
    found = opdiff.compare(sample.target, sample.golden)
    found.write_html(tmp_path / "report.html")
    page = PageData.read(tmp_path / "report.html")
    assert len(page.document["graphMode"]["units"]) == 4
    assert page.document["environment"]["opdiff"] == opdiff.__version__


def test_operators_of_the_same_name_in_two_graphs(case: GraphCase) -> None:
    for graph, golden in ((1, [1, 2]), (2, [9, 2])):
        names = [TextNode("x", "Data")] if graph == 1 else [TextNode("y", "Data"), TextNode("z", "Data")]
        edges = tuple(f"{node.name}:0" for node in names)
        case.text(*names, TextNode("Add", "Add", edges, output_fx=("add-aten.add.OUTPUT.0",)), graph=graph)
        folder = f"worldsize1_global_rank0/20240130064151/0/graph_{graph}_0/{graph}/0"
        case.ge("Add", (), (floats([1, 2]),), folder=folder)
        case.node("add-aten.add", (), (floats(golden),), folder=f"worldsize1_global_rank0/graph_{graph}/0")
    case.run()
    page = shown(case.out)
    assert [unit[2] for unit in page.document["graphMode"]["units"]] == [1, 2]
    assert [unit[3] for unit in page.document["graphMode"]["units"]] == [0, 1]
    assert len(page.document["graphMode"]["networks"]) == 2
    assert page.texts("graphMode", "networks", 0, "name") == ["x", "Add"]
    assert page.texts("graphMode", "networks", 1, "name") == ["y", "z", "Add"]
    levels = page.column("rows", "level")
    assert (levels[0], levels[1]) == (0, 4)
    assert page.document["findings"][0]["units"] == [1]


def test_reduced_token_and_token_with_data(tmp_path: Path, capsys: Capture) -> None:
    sample = write_graph_sample(str(tmp_path / "sample"), ranks=1)
    (token,) = (path for path in (tmp_path / "sample" / "ge").rglob("1") if path.parent.name == "1")
    text = next((tmp_path / "sample" / "ge").rglob("dynamo_original_*.txt"))
    beside = token / text.name
    beside.write_bytes(text.read_bytes())
    assert run(capsys, "reduce", token, "--settle", "0").code == 0
    beside.unlink()
    compare(capsys, sample, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("msprobe_cmp_report*.csv"))) == 2
    page = shown(tmp_path / "out")
    units, modes = page.units(), page.column("rows", "mode")
    assert {(unit, mode) for unit, mode in zip(units, modes, strict=True) if unit == 0} == {(0, 0)}
    assert (1, 1) in set(zip(units, modes, strict=True))
    measured = set(page.rows_with("metrics"))
    assert {modes[row] for row in measured} == {0}
    assert {modes[row] for row in page.rows_with("graphMode", "statistics")} == {1}

"""Long runs of graph mode, whose rows do not stay in memory: their files are those of short ones, complete or none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from pyarrow import parquet

from command_line import run
from made_dumps import tables
from opdiff.core import row_store
from opdiff.core.graph import TextGraph
from opdiff.read import directory
from opdiff.read.graph.tree import GraphFolders
from opdiff.report import html_page, page_rows, parts
from opdiff.report.page_rows import page_part
from opdiff.report.saved_json import load
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare import graph_inputs, graph_tokens
from opdiff.workflows.compare.graph_units import RankGraph
from page_data import PageData

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison
    from opdiff.sample.graph_mode import GraphSample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> GraphSample:
    return write_graph_sample(str(tmp_path_factory.mktemp("sample")), ranks=2, tokens=3)


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all comparisons are stored, as those of long ones are."""
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 3)


def results(
    sample: GraphSample, out: Path, capsys: pytest.CaptureFixture[str], golden: str
) -> tuple[dict[str, bytes], str, Comparison]:
    """Return the tables, the messages, and the comparison, without times."""
    outcome = run(capsys, "compare", sample.target, golden, "-m", "torchair", "-o", out, "--parquet", "--xlsx")
    assert outcome.code == 0, outcome.err
    (saved,) = out.glob("result_*.json")
    return tables(out), re.sub(r"\d{14}", "", outcome.out).replace(str(out), "OUT"), load(str(saved))


@pytest.mark.parametrize("golden", ["golden", "fusion_off"])
def test_results_do_not_depend_on_where_rows_and_names_are_kept(
    sample: GraphSample,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: str,
) -> None:
    usual = results(sample, tmp_path / "usual", capsys, getattr(sample, golden))
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 3)
    monkeypatch.setattr(row_store, "_ROWS_PER_BLOCK", 2)
    monkeypatch.setattr(directory, "_MAX_ENTRIES_IN_MEMORY", 3)
    monkeypatch.setattr(graph_inputs, "_PAIRS_PER_BATCH", 4)
    small = results(sample, tmp_path / "small", capsys, getattr(sample, golden))
    monkeypatch.setattr(graph_tokens, "_MIN_PARALLEL_FILES", 0)
    monkeypatch.setattr(graph_tokens, "_MAX_TOKENS_PER_JOB", 2)
    monkeypatch.setattr(graph_tokens, "_JOBS_PER_CORE", 1)
    monkeypatch.setattr(graph_tokens, "usable_cores", lambda: 2)
    parallel = results(sample, tmp_path / "parallel", capsys, getattr(sample, golden))
    assert parallel[:2] == small[:2] == usual[:2]
    assert parallel[2].graphs == usual[2].graphs
    assert tuple(parallel[2].rows) == usual[2].rows
    assert parallel[2].judgement == usual[2].judgement
    assert parallel[2].error_facts == usual[2].error_facts
    assert isinstance(small[2].rows, row_store.StoredRows)
    assert tuple(small[2].rows) == usual[2].rows
    assert small[2].judgement == usual[2].judgement
    assert small[2].profiles == usual[2].profiles


# The page


@pytest.fixture
def comparison(sample: GraphSample, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Comparison:
    return results(sample, tmp_path / "out", capsys, sample.golden)[2]


def test_a_short_comparison_is_shown_as_it_is(comparison: Comparison) -> None:
    assert page_part(comparison) is comparison


def test_the_page_of_a_long_comparison_has_complete_units_with_bad_tensors(comparison: Comparison) -> None:
    part = page_part(comparison, len(comparison.rows) // 2)
    assert 0 < len(part.rows) <= len(comparison.rows) // 2
    for unit in part.units:
        whole = [row for row in comparison.rows if row.unit == unit]
        assert [row for row in part.rows if row.unit == unit] == whole
    known = dict(zip(map(repr, comparison.rows), comparison.judgement.verdicts, strict=True))
    assert [known[repr(row)] for row in part.rows] == list(part.judgement.verdicts)
    assert any(verdict.level.is_bad for verdict in part.judgement.verdicts)
    assert part.judgement.findings == comparison.judgement.findings
    assert part.notes[0].code == "report.page_part"
    rows = {profile.row for profile in part.profiles}
    assert all(part.judgement.verdicts[row].level.is_bad for row in rows)


def test_units_with_bad_tensors_come_first(comparison: Comparison) -> None:
    """The last unit is the bad one; it is shown before the others."""
    verdicts = comparison.judgement.verdicts
    good = next(verdict for verdict in verdicts if not verdict.level.is_bad)
    bad = next(verdict for verdict in verdicts if verdict.level.is_bad)
    last = comparison.units[-1]
    judged = tuple(bad if row.unit == last else good for row in comparison.rows)
    changed = replace(comparison, judgement=replace(comparison.judgement, verdicts=judged), profiles=())
    assert page_part(changed, 1).units == (last,)


def test_a_long_comparison_is_written_in_part(
    sample: GraphSample, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_rows.page_part, "__defaults__", (1,))
    results(sample, tmp_path / "out", capsys, sample.golden)
    assert list((tmp_path / "out").glob("report_*.html"))


@pytest.mark.parametrize(("tokens", "workers", "expected"), [(1, 2, 1), (50, 2, 3), (500, 2, 8), (500, 64, 1)])
def test_jobs_are_small_enough_for_all_workers(tokens: int, workers: int, expected: int) -> None:
    folders = GraphFolders("graph", None, dict.fromkeys(range(tokens), ()))
    unit = RankGraph(None, None, 0, TextGraph("", {}), folders, None)
    assert graph_tokens.tokens_per_job([unit], workers) == expected


# Files, which are made in one pass


def compare(sample: GraphSample, out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> int:
    return run(capsys, "compare", sample.target, sample.golden, "-m", "torchair", "-o", out, "--parquet", *words).code


def contents(out: Path) -> dict[str, Any]:
    """Return tables, rows of the Parquet file, blocks of the page, and rows of the saved form."""
    (columns,) = out.glob("*.parquet")
    (page,) = out.glob("*.html")
    (saved,) = out.glob("result_*.json")
    return tables(out) | {
        "parquet": repr(parquet.read_table(columns).to_pylist()),
        "page": re.findall(rb'id="(block-\d+)">([^<]*)<', page.read_bytes()),
        "saved": saved.read_bytes().partition(b'"rows": [')[2],
    }


def test_files_are_those_of_a_short_comparison(
    sample: GraphSample, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare(sample, tmp_path / "short", capsys) == 0
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 3)
    assert compare(sample, tmp_path / "long", capsys) == 0
    assert contents(tmp_path / "long") == contents(tmp_path / "short")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_files_of_many_jobs_are_those_of_one(
    sample: GraphSample,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    workers: str,
) -> None:
    """Tables have their lines in order, though jobs are done by several processes."""
    assert compare(sample, tmp_path / "one", capsys) == 0
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 3)
    monkeypatch.setattr(row_store, "_ROWS_PER_BLOCK", 2)
    monkeypatch.setattr(parts, "_MIN_PART_ROWS", 1)
    monkeypatch.setattr(parts, "_MIN_JOB_ROWS", 2)
    assert compare(sample, tmp_path / "many", capsys, "-j", workers) == 0
    one, many = contents(tmp_path / "one"), contents(tmp_path / "many")
    names = [*(name for name in one if name.endswith(".csv")), "parquet"]
    assert {name: many[name] for name in names} == {name: one[name] for name in names}
    assert len(many["page"]) > len(one["page"])


@pytest.mark.usefixtures("long_runs")
def test_the_page_of_a_part_of_the_rows_is_written_on_its_own(
    sample: GraphSample, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_page, "MAX_PAGE_ROWS", 3)
    monkeypatch.setattr(html_page, "page_part", lambda comparison: page_rows.page_part(comparison, 3))
    assert compare(sample, tmp_path, capsys) == 0
    (page,) = tmp_path.glob("*.html")
    (saved,) = tmp_path.glob("result_*.json")
    assert sum(PageData.read(page).document["blocks"]) < len(load(str(saved)).rows)


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("failing", ["opdiff.report.payload.pack_rows", "opdiff.report.parquet_table.flat_part"])
def test_tables_exist_even_if_a_report_fails(
    sample: GraphSample,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    assert compare(sample, tmp_path / "whole", capsys) == 0
    monkeypatch.setattr(failing, fail)
    assert compare(sample, tmp_path / "out", capsys) == 70
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")
    (saved,) = (tmp_path / "out").glob("result_*.json")
    assert any("ZeroDivisionError" in str(note) for note in load(str(saved)).notes)
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("long_runs")
def test_an_interrupt_leaves_nothing(
    sample: GraphSample, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("opdiff.report.payload.pack_rows", interrupt)
    assert compare(sample, tmp_path, capsys) == 130
    assert list(tmp_path.iterdir()) == []

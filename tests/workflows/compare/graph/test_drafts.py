"""Files of long comparisons, which are made in one pass: equal to those of short ones, and complete or not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from command_line import run
from opdiff.core import row_store
from opdiff.report import html_page, page_rows, parts
from opdiff.report.saved_json import load
from opdiff.sample.graph_mode import write_graph_sample
from page_data import PageData

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.sample.graph_mode import GraphSample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> GraphSample:
    return write_graph_sample(str(tmp_path_factory.mktemp("sample")), ranks=2, tokens=3)


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all comparisons are stored, as those of long ones are."""
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 3)


def compare(sample: GraphSample, out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> int:
    return run(capsys, "compare", sample.target, sample.golden, "-m", "torchair", "-o", out, "--parquet", *words).code


def contents(out: Path) -> dict[str, Any]:
    """Return tables, rows of the Parquet file, blocks of the page, and rows of the saved form."""
    found: dict[str, Any] = {re.sub(r"\d{14}", "", path.name): path.read_bytes() for path in out.glob("*.csv")}
    (columns,) = out.glob("*.parquet")
    (page,) = out.glob("*.html")
    (saved,) = out.glob("result_*.json")
    return found | {
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
    tables = [sorted((tmp_path / name).glob("*.csv")) for name in ("whole", "out")]
    assert [path.read_bytes() for path in tables[0]] == [path.read_bytes() for path in tables[1]]
    assert not list((tmp_path / "out").glob("result_*.json"))
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

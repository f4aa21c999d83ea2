"""A real browser for the pages of reports. Without a browser, these tests are skipped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser_page import Opened, find_browser, launched, new_page
from opdiff.cli import main
from opdiff.report.html_page import write_html
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from browser_page import Open
    from opdiff.core.comparison import Comparison
    from opdiff.report.changes import Changes


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no browser here: `apt-get install chromium`, or name one in OPDIFF_BROWSER")
    with launched(path) as found:
        yield found


@pytest.fixture(scope="session")
def demo_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample, without replay."""
    folder = tmp_path_factory.mktemp("demo")
    sample = write_sample(str(folder / "sample"))
    sides = [sample.target, sample.golden, "--rules", sample.rules]
    assert main(["compare", *sides, "--replay", "none", "-o", str(folder), "-q"]) == 0
    (report,) = folder.glob("report_*.html")
    return report


@pytest.fixture(scope="session")
def graph_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of the sample of graph mode, by data mode."""
    folder = tmp_path_factory.mktemp("graphs")
    sample = write_graph_sample(str(folder / "sample"))
    modes = ("real", "statistics", "md5")
    return {mode: graph_report(sample.target, sample.golden, folder / mode, "--data_mode", mode) for mode in modes}


@pytest.fixture(scope="session")
def odd_graph_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of graph mode with all kinds of reasons, rules and notes: damaged dumps, and fusion on against off."""
    folder = tmp_path_factory.mktemp("odd")
    sample = write_graph_sample(str(folder / "sample"))
    off = graph_report(sample.target, sample.fusion_off, folder / "off")
    target, golden = Path(sample.target), Path(sample.golden)
    ranks = sorted(target.glob("*_rank?"))
    shutil.copytree(ranks[1], ranks[1].with_name("worldsize8_global_rank2"))
    next(target.glob("dynamo_original_graph_1_rank_1_*.txt")).unlink()
    with next(target.glob("dynamo_original_graph_1_rank_0_*.txt")).open("a") as text:
        text.write('} op { name: "')
    next(ranks[0].rglob("1/Add.*")).write_bytes(b"")
    next(ranks[1].rglob("0/Relu.*")).with_name("a.txt").touch()
    shutil.rmtree(golden / ranks[1].name / "graph_1" / "1")
    next((golden / ranks[0].name).rglob("0/relu*OUTPUT*")).write_bytes(b"no array")
    next((golden / ranks[0].name).rglob("0/mm-*OUTPUT*")).unlink()
    return {
        "off": off,
        "damaged": graph_report(sample.target, sample.golden, folder / "damaged"),
        "damaged_statistics": graph_report(
            sample.target, sample.golden, folder / "statistics", "--data_mode", "statistics"
        ),
    }


def graph_report(target: str, golden: str, out: Path, *options: str) -> Path:
    assert main(["compare", target, golden, "-m", "torchair", "-o", str(out), "-q", *options]) == 0
    (report,) = out.glob("report_*.html")
    return report


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Return a function that opens reports from disk; check at the end that none had problems."""
    found: list[Opened] = []

    def open_report(path: Path, language: str = "en-US", theme: str = "light", script: str = "") -> Opened:
        page = new_page(browser, language, theme, 1360, 860)
        if script:
            page.add_init_script(script)
        report = Opened(page, path)
        page.on("console", lambda message: report.problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: report.problems.append(f"error: {error}"))
        page.on("request", lambda request: report.problems.append(f"request: {request.url}"))
        report.open()
        found.append(report)
        return report

    yield open_report
    for report in found:
        report.page.close()
        own = {f"request: {report.path.as_uri()}"}
        # The layout of a graph is computed by a worker of the page.
        assert [line for line in report.problems if line not in own and "blob:" not in line] == []


@pytest.fixture
def show(opened: Open, tmp_path: Path) -> Open:
    """Return a function that writes the report of a comparison and opens it."""

    def write_and_open(made: Comparison, changes: Changes | None = None, **options: str) -> Opened:
        write_html(made, str(tmp_path / "report.html"), changes=changes)
        return opened(tmp_path / "report.html", **options)

    return write_and_open


@pytest.fixture
def demo(opened: Open, demo_report: Path) -> Opened:
    """The report of the sample, opened."""
    return opened(demo_report)

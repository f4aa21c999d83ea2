"""A real browser for the pages of reports. Where none can be had, these tests are skipped, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser_page import Opened, find_browser
from opdiff.cli import main
from opdiff.sample import write_sample
from opdiff.sample.torchair import write_graph_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no browser here: `apt-get install chromium`, or name one in OPDIFF_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def demo_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample, as `opdiff demo` writes it."""
    folder = tmp_path_factory.mktemp("demo")
    sample = write_sample(str(folder / "sample"))
    assert main(["compare", sample.target, sample.golden, "--rules", sample.rules, "-o", str(folder), "-q"]) == 0
    (report,) = folder.glob("report_*.html")
    return report


@pytest.fixture(scope="session")
def graph_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of the sample of graph mode, by what was compared."""
    folder = tmp_path_factory.mktemp("graphs")
    sample = write_graph_sample(str(folder / "sample"))
    found = {}
    for mode in ("real", "statistics", "md5"):
        out = folder / mode
        options = ["-m", "torchair", "--data_mode", mode, "-o", str(out), "-q"]
        assert main(["compare", sample.target, sample.golden, *options]) == 0
        (found[mode],) = out.glob("report_*.html")
    return found


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens reports from disk; in the end nothing may have gone wrong in any of them."""
    found: list[Opened] = []

    def open_report(path: Path, language: str = "en-US", theme: str = "light") -> Opened:
        page = browser.new_page(
            viewport={"width": 1360, "height": 860},
            locale=language,
            color_scheme="dark" if theme == "dark" else "light",
        )
        report = Opened(page, path)
        page.on("console", lambda message: report.problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: report.problems.append(f"error: {error}"))
        page.on("request", lambda request: report.problems.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        found.append(report)
        return report

    yield open_report
    for report in found:
        report.page.close()
        own = {f"request: {report.path.as_uri()}"}
        # The layout of a graph is worked out by a piece of the page itself.
        assert [line for line in report.problems if line not in own and "blob:" not in line] == []

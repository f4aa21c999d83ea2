"""Screenshots of a report for the documents: `python screenshots.py [REPORT]`; default: the report of the sample."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from browser_page import Opened, find_browser, launched, new_page
from opdiff.api import compare
from opdiff.cli import main
from opdiff.report.html_page import write_html
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
# Name, theme, language and view of each screenshot; those of graph mode show another report.
PICTURES = {
    "report": ("light", "en-US", ""),
    "report-dark": ("dark", "en-US", "table"),
    "report-chinese": ("light", "zh-CN", ""),
    "report-graph": ("light", "en-US", "graph"),
    "report-tensor": ("light", "en-US", "gate/conv:output:0"),
    "report-tensor-chinese": ("dark", "zh-CN", "context/pool:output:0"),
    "report-pictures": ("light", "en-US", "context/pool:output:0"),
    "report-graph-mode": ("light", "en-US", ""),
}
GRAPH_MODE = "report-graph-mode"
TALL = {
    "report": 1060,
    "report-chinese": 1060,
    "report-tensor": 1500,
    "report-tensor-chinese": 1500,
    "report-pictures": 1180,
    GRAPH_MODE: 1180,
}


def take(browser: Browser, report: Path, name: str) -> None:
    """Take one screenshot."""
    theme, language, view = PICTURES[name]
    page = new_page(browser, language, theme, 1280, TALL.get(name, 720))
    opened = Opened(page, report)
    opened.open(f"#/{view}" if ":" not in view else "")
    if ":" in view:
        opened.go_to_tensor(view)
    elif view == "table":
        page.click(".vhead >> text=Level", click_count=2)
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


def demo_report(folder: Path) -> Path:
    """Write the report of the sample, with the paths of the documents."""
    os.chdir(folder)
    sample = write_sample("opdiff-demo")
    main(["compare", sample.target, sample.golden, "--rules", sample.rules, "-o", str(folder), "-q"])
    return next(folder.glob("report_*.html"))


def graph_mode_report(folder: Path) -> Path:
    """Write the report of the sample of graph mode, with more tokens than the command."""
    os.chdir(folder)
    sample = write_graph_sample("graphs", ranks=4, tokens=8)
    found = compare(sample.target, sample.golden).values
    path = folder / "graph-mode.html"
    # Without the folder of the date.
    sides = replace(found.target, path=sample.target), replace(found.golden, path=sample.golden)
    write_html(replace(found, target=sides[0], golden=sides[1]), str(path))
    return path


def run() -> None:
    """Take all screenshots."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched(find_browser()) as browser:
        report = Path(sys.argv[1]).resolve() if sys.argv[1:] else demo_report(Path(folder))
        for name in PICTURES:
            if name != GRAPH_MODE:
                take(browser, report, name)
        take(browser, graph_mode_report(Path(folder)), GRAPH_MODE)


if __name__ == "__main__":
    run()

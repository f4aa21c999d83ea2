"""Reports with many rows in a real browser: their blocks are read when they are needed, and given up again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from made_comparisons import failed_operator, label
from made_reports import judged_comparison, many_rows, many_tokens
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from browser_page import Open, Opened

# Every block is decompressed when it is read.
_COUNT_READS = """
    window.reads = 0;
    const Plain = DecompressionStream;
    window.DecompressionStream = class extends Plain { constructor(kind) { super(kind); window.reads++; } };
"""


@pytest.fixture
def show(show: Open) -> Open:
    return partial(show, script=_COUNT_READS)


def reads(report: Opened) -> int:
    """Return how many blocks were read, that of all rows included."""
    report.page.wait_for_timeout(100)
    count: int = report.page.evaluate("window.reads")
    return count


def search(report: Opened, text: str) -> str:
    """Search in the table, and return how many rows are found."""
    report.page.fill(".search", text)
    report.page.wait_for_timeout(300)
    report.page.wait_for_selector(".count[data-done]")
    return report.page.inner_text(".count")


def test_tokens_are_read_when_they_are_opened(show: Open) -> None:
    report = show(many_tokens(2, 4, 1000))
    assert report.page.locator(".unit").count() == 8
    report.page.wait_for_selector(".curve[data-points='1000']")
    # All rows together, and the token that the curve shows.
    before = reads(report)
    assert before == 2
    report.page.click(".unit >> nth=1")
    report.page.wait_for_selector(".curve[data-points='1000']")
    assert reads(report) == before + 1
    report.page.click(".unit >> nth=3")
    assert reads(report) == before + 1
    report.go("row/7999")
    assert report.page.inner_text(".row-head h1") == "layer_999:output:0"
    assert report.page.inner_text(".place") == "rank 1 · token 3"
    assert reads(report) == before + 2
    # What is not compared, and what this report is about, is known without them.
    report.go("about")
    assert "8000 of 8000 tensors compared" in report.page.inner_text("main")
    assert reads(report) == before + 2


def test_the_table_reads_what_is_in_view(show: Open) -> None:
    report = show(many_tokens(1, 6, 1000))
    report.go("table")
    assert report.page.inner_text(".count") == "6\u202f000 of 6\u202f000"
    # Worst first: all rows in view are of the last token.
    assert reads(report) == 2
    report.page.evaluate("() => { document.querySelector('.vtable').scrollTop = 34 * 1500 }")
    report.page.wait_for_selector(".vrow:has-text('layer_500')")
    assert report.page.locator(".vrow[data-unread]").count() == 0
    assert reads(report) == 3
    assert search(report, "layer_77") == "66 of 6\u202f000"
    assert reads(report) == 7
    report.page.click(".vhead >> text=Operator")
    report.page.wait_for_selector(".count[data-done]")
    assert report.texts(".vrow [data-column=operator]")[:7] == ["layer_77"] * 6 + ["layer_770"]


def test_blocks_that_were_not_used_for_long_are_given_up(show: Open) -> None:
    report = show(many_tokens(1, 110, 1000))
    report.go("table")
    assert search(report, "layer_999") == "110 of 110\u202f000"
    known = reads(report)
    assert known >= 111
    report.go("row/50500")
    assert reads(report) == known
    # The rows in view, of the last token and the first ones, were read in the place of this one.
    report.go("row/15500")
    assert report.page.inner_text(".place") == "rank 0 · token 15"
    assert reads(report) == known + 1


def test_a_search_says_how_far_it_is(show: Open) -> None:
    report = show(many_tokens(1, 40, 1000), language="zh-CN")
    report.go("table")
    report.page.evaluate("""() => {
        window.said = [];
        const count = document.querySelector(".count");
        new MutationObserver(() => window.said.push(count.textContent)).observe(count, { childList: true });
    }""")
    assert search(report, "layer_1") == "4\u202f440 / 40\u202f000"
    said = report.page.evaluate("window.said")
    assert "正在搜索…… 50 %" in said


def test_a_long_offline_comparison_is_one_curve(show: Open) -> None:
    report = show(many_rows(25_000))
    report.page.wait_for_selector(".curve[data-points='12500']")
    report.go("tensor/model%2Flayer_624%2Fblock_12499%2Fconv:output:0")
    assert report.page.inner_text(".row-head h1") == "model/layer_624/block_12499/conv:output:0"
    report.go_to_graph()


def test_the_end_of_a_table_that_is_higher_than_browsers_allow(show: Open) -> None:
    failed = failed_operator(because("pair.no_tensor"), label("x"))
    rows = (failed,) * 459_999 + (replace(failed, label=label("last")),)
    report = show(judged_comparison(*rows))
    report.go("missing")
    assert report.texts(".reason b") == ["460000"]
    report.page.evaluate("() => { document.querySelector('.vtable').scrollTop = 1e9 }")
    report.page.wait_for_selector(".vrow:has-text('last')")
    last, table = report.box(".vrow >> nth=-1"), report.box(".vtable")
    assert last["y"] + last["height"] <= table["y"] + table["height"] + 1

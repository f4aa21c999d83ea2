"""Reports of graph mode in a real browser: ranks, tokens and graphs, and only measured values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from made_reports import many_tokens
from opdiff.core.reasons import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from browser_page import Open, Opened

Reports = dict[str, "Path"]


@pytest.fixture
def real(opened: Open, graph_reports: Reports) -> Opened:
    return opened(graph_reports["real"])


def cells(report: Opened, title: str) -> list[str]:
    """Return the cells of a column of the visible table."""
    titles = report.texts(".vhead > div")
    return report.texts(f".vrow > div:nth-child({titles.index(title) + 1})")


def options(report: Opened, selector: str) -> list[str]:
    return report.texts(f"{selector} >> option")


def test_overview_has_the_first_bad_rank_token_and_operator(real: Opened) -> None:
    assert real.page.inner_text("h1") == "MatMul_1 is proved to be at fault: wrong scale"
    assert "Start with MatMul_1 (rank 0, token 1)." in real.page.inner_text(".hero")
    assert real.texts(".modes span") == ["compared by data", "66 PASS · 18 FAIL"]
    assert "rank 0 · token 1 and 1 more" in real.page.inner_text(".finding")
    real.page.click("h1 a")
    assert real.page.inner_text(".row-head h1") == "MatMul_1:output:0"
    assert real.page.inner_text(".place") == "rank 0 · token 1"


def test_selection_of_another_token(real: Opened) -> None:
    selects = ".unit-selects select"
    assert real.page.locator(selects).count() == 2
    assert [real.page.input_value(f"{selects} >> nth={index}") for index in (0, 1)] == ["0", "1"]
    assert real.texts(".unit[aria-pressed=true]") == ["9"]
    before = real.page.locator(".curve canvas").screenshot()
    real.page.select_option(f"{selects} >> nth=1", "0")
    assert real.texts(".unit[aria-pressed=true]") == ["~"]
    assert real.page.locator(".curve canvas").screenshot() != before
    real.page.click(".unit >> nth=3")
    assert [real.page.input_value(f"{selects} >> nth={index}") for index in (0, 1)] == ["1", "1"]
    real.go_to_graph()
    assert real.page.inner_text(".panel .name.big") == "MatMul_1"
    assert "wrong" in real.page.inner_text(".panel .chip")
    real.page.select_option(".graph-tools select >> nth=1", "0")
    real.page.wait_for_selector(".graph-view[data-laid]")
    assert "rounding" in real.page.inner_text(".panel .chip")
    real.page.click(".panel >> text=Details")
    assert real.page.inner_text(".place") == "rank 1 · token 0"


def test_the_selected_token_is_in_the_address(real: Opened) -> None:
    real.page.click(".unit >> nth=2")
    assert real.address == "?rank=1&token=0"
    real.go_to_graph("graph/MatMul_1?rank=1&token=1")
    assert [real.page.input_value(f".graph-tools select >> nth={index}") for index in (0, 1)] == ["1", "1"]
    real.go("?rank=0&token=0")
    assert real.page.get_attribute(".unit >> nth=0", "aria-pressed") == "true"
    # There is no such token: the last one stays.
    real.go("?rank=7&token=0")
    assert real.page.get_attribute(".unit >> nth=0", "aria-pressed") == "true"


def test_the_table_is_filtered_and_sorted_by_rank_and_token(real: Opened) -> None:
    real.go("table")
    assert real.page.inner_text(".count") == "84 of 88"
    rank, token = ".toolbar select >> nth=0", ".toolbar select >> nth=1"
    assert options(real, rank) == ["all ranks", "rank 0", "rank 1"]
    real.page.select_option(rank, "1")
    real.page.select_option(token, "1")
    real.page.wait_for_timeout(50)
    assert (set(cells(real, "Rank")), set(cells(real, "Token"))) == ({"1"}, {"1"})
    assert real.page.inner_text(".count") == "21 of 88"
    real.page.click("text=Clear")
    real.page.click(".vhead >> text=Token")
    real.page.click(".vhead >> text=Token")
    assert cells(real, "Token")[0] == "1"
    real.page.click(".vhead >> text=Result")
    real.page.click(".vhead >> text=Result")
    assert set(cells(real, "Result")[:18]) == {"FAIL"}


def test_the_page_of_a_tensor_has_the_documented_metrics_and_only_its_own_token(real: Opened) -> None:
    real.page.click("h1 a")
    shown = real.page.inner_text("main")
    assert "One Thousandth Err Ratio" in shown
    assert "are within 1 ‰" in shown
    for text in ("Documented metrics", "MaxRelativeErr", "< 0.01 ✕", "Result: FAIL", "mm_1-aten.mm.default", "100 %"):
        assert text in shown
    # Graph mode does not record layout conversions, so none are shown.
    assert "Layout steps" not in shown
    assert real.page.locator(".look").count() == 3


@pytest.mark.parametrize("kind", ["real", "statistics", "md5", "off", "damaged", "damaged_statistics"])
def test_no_sentence_is_left_in_english_on_the_chinese_page(
    opened: Open, graph_reports: Reports, odd_graph_reports: Reports, kind: str
) -> None:
    report = opened((graph_reports | odd_graph_reports)[kind], language="zh-CN")
    rows = range(0, 88, 4 if kind in graph_reports else 1)
    for view in ("", "table", "missing", "about", "graph", *(f"row/{number}" for number in rows)):
        report.go(view)
        assert report.english() == [], view
        assert not {"undefined", "null"} & set(report.page.inner_text("body").split())
        assert "rank 0" in report.page.inner_text("body") or view in ("missing", "about") or view.startswith("row")
    if kind.startswith("damaged"):
        report.go("missing")
        shown = report.page.inner_text("main")
        for text in ("只有目标转储中有", "标杆转储中没有该 token", "缺少原始图", "文件为空", "有块在未开始时结束"):
            assert text in shown


def test_statistics_have_their_own_columns(opened: Open, graph_reports: Reports) -> None:
    report = opened(graph_reports["statistics"])
    assert report.texts(".modes span")[0] == "compared by statistics, not by data"
    metrics = options(report, ".tools select[aria-label=Metric]")
    assert metrics == [f"{name}: relative difference" for name in ("L2 norm", "maximum", "minimum", "mean")]
    report.page.click("h1 a")
    shown = report.page.inner_text("main")
    for text in ("How far the statistics are off", "4.97 %", "L2 norm", "The data itself was not compared"):
        assert text in shown
    for text in ("cosine", "ULP", "Worst elements", "Distribution of the errors", "std. deviation"):
        assert text not in shown
    report.go("table")
    titles = report.texts(".vhead > div")
    assert "Norm off" in titles
    assert not {"Cosine", "Max ULP"} & set(titles)


def test_checksums(opened: Open, graph_reports: Reports) -> None:
    report = opened(graph_reports["md5"])
    assert options(report, ".tools select[aria-label=Metric]") == ["checksum: 0 equal, 1 different"]
    report.go("table")
    titles = report.texts(".vhead > div")
    assert not {"Cosine", "Rel. distance", "Max off"} & set(titles)
    results = cells(report, "Result")
    equal = [a == b for a, b in zip(cells(report, "CRC-32, target"), cells(report, "CRC-32, golden"), strict=True)]
    assert ["PASS" if same else "FAIL" for same in equal] == results
    report.page.click(".vrow >> nth=2")
    shown = report.page.inner_text("main")
    assert "Decided by: the checksums differ" in shown
    for text in ("range", "mean\n", "NaN / infinite", "cosine"):
        assert text not in shown


def test_network_without_edges_has_no_graph(show: Open) -> None:
    report = show(many_tokens(1, 2, 3))
    assert report.texts(".top nav a") == ["Overview", "Tensors", "Not compared", "About"]
    report.page.keyboard.press("g")
    assert report.page.locator(".hero").is_visible()
    report.go("row/3")
    assert report.page.locator("text=In the graph").count() == 0
    # One rank: no selection.
    report.go("table")
    assert options(report, ".toolbar select >> nth=0") == ["all tokens", "token 0", "token 1"]


def test_a_hundred_thousand_rows_of_eight_ranks_stay_quick(show: Open) -> None:
    report = show(many_tokens(8, 50, 250))
    assert report.page.locator(".unit").count() == 400
    # The selected token is the last one, at the right end.
    chosen, box = report.box(".unit[aria-pressed=true]"), report.box(".units-scroll")
    assert box["x"] <= chosen["x"] <= box["x"] + box["width"]
    report.go("table")
    report.page.wait_for_selector(".vrow")
    assert report.page.inner_text(".count") == "100\u202f000 of 100\u202f000"
    report.page.select_option(".toolbar select >> nth=0", "7")
    report.page.click(".vhead >> text=Token")
    report.page.click(".vhead >> text=Token")
    assert set(cells(report, "Token")) == {"49"}
    assert set(cells(report, "Rank")) == {"7"}
    assert report.page.inner_text(".count") == "12\u202f500 of 100\u202f000"


def test_an_empty_column_has_a_reason(show: Open) -> None:
    report = show(many_tokens(2, 1, 2))
    report.go("missing")
    (note,) = report.texts(".notes li")
    assert note.startswith("Stack Info is N/A in ")


def test_names_are_never_parsed_as_html(show: Open) -> None:
    plain = many_tokens(2, 1, 2)
    hostile = "<img src=x onerror=alert(1)>"
    rows = tuple(replace(row, label=replace(row.label, target=hostile), stack=hostile) for row in plain.rows)
    made = replace(plain, rows=rows, notes=(quoted(hostile),))
    report = show(made)
    report.go("missing")
    assert report.texts(".notes li") == [hostile]
    for view in ("", "table", "row/0", "missing", "about"):
        report.go(view)
        report.page.wait_for_timeout(50)
        assert report.page.locator("#app img").count() == 0
    report.go("row/0")
    assert hostile in report.page.inner_text("main")

"""Reports in a real browser: opened from disk, without requests, all functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from made_reports import FAULT, many_rows, strange_names, with_judgement
from opdiff.core.error_facts import Profile
from opdiff.core.reasons import Language, render
from opdiff.report.changes import find_changes

if TYPE_CHECKING:
    from pathlib import Path

    from browser_page import Open, Opened


def test_overview(demo: Opened) -> None:
    assert "tensors are wrong" in demo.page.inner_text("h1") or "is at fault" in demo.page.inner_text("h1")
    assert demo.page.title() == f"opdiff · {demo.page.inner_text('h1 .culprit')}"
    assert demo.page.locator(".legend button").count() >= 4
    assert demo.page.locator(".look, .finding").count() >= 3
    # Constants are counted apart.
    assert "+ 118 inputs and constants" in demo.page.inner_text(".legend")
    assert [line for line in demo.texts(".legend button") if "not comparable" in line] == ["–\n1\nnot comparable"]  # noqa: RUF001
    # The error along the path is above the fold.
    demo.page.set_viewport_size({"width": 1440, "height": 820})
    plot = demo.box(".path-plot svg >> nth=0")
    assert plot["y"] + plot["height"] < 820


def test_the_curve_shows_distances_and_numbers_the_findings(demo: Opened) -> None:
    assert demo.page.input_value(".curve-card .tools select") == "relative_euclidean_distance"
    curve, first, second, *others = (demo.page.get_attribute(".curve canvas", "aria-label") or "").split(", ")
    assert curve == "Error by execution order"
    assert (first, second) == ("1 context/pool:output:0", "2 local/conv1local/conv1_relu:output:0")
    assert len(others) == demo.page.locator(".finding").count() - 2
    assert demo.texts(".key .with-dot") == ["wrong", "suspicious", "noise", "rounding", "exact"]
    colours = demo.page.locator(".key .point").evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    assert len(set(colours)) == len(colours)


def test_click_on_the_curve_opens_the_tensor_and_then_the_graph(demo: Opened) -> None:
    demo.point_at_curve()
    name = demo.page.inner_text(".tip code")
    demo.click_here()
    assert demo.page.inner_text(".row-head h1") == name
    demo.page.click(".row-head >> text=In the graph")
    demo.page.wait_for_selector(".graph-view[data-laid]")
    assert demo.page.inner_text(".panel .name.big") == name.partition(":")[0]


def test_keyboard_navigation(demo: Opened) -> None:
    keys = demo.page.keyboard
    keys.press("t")
    demo.page.wait_for_selector(".vrow")
    for key in "jjk":
        keys.press(key)
    keys.press("Enter")
    title = demo.page.inner_text(".row-head h1")
    keys.press("j")
    assert demo.page.inner_text(".row-head h1") != title
    keys.press("Escape")
    assert demo.page.locator(".vrow.selected").count() == 1
    keys.press("?")
    assert demo.page.locator("dialog kbd").count() >= 6
    keys.press("Escape")
    keys.press("o")
    assert demo.page.locator(".hero").is_visible()


def test_search_in_the_graph(demo: Opened) -> None:
    demo.go_to_graph()
    demo.page.keyboard.press("/")
    demo.page.keyboard.type("context/pool")
    assert demo.page.inner_text(".panel .name.big") == "context/pool"
    demo.page.click("text=Fit")
    demo.page.click(".panel >> text=Details")
    assert demo.page.inner_text(".row-head h1").startswith("context/pool")


def test_no_sentence_is_left_in_english_on_the_chinese_page(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, language="zh-CN")
    count = report.page.evaluate("() => document.querySelectorAll('.bar span').length")
    assert count >= 4
    views = ["", "table", "missing", "about", "graph", *(f"row/{number}" for number in range(0, 248, 3))]
    for view in views:
        report.go(view)
        assert report.english() == [], view
        assert "undefined" not in report.page.inner_text("body")
    report.go("missing")
    assert "规则文件没有给出" in report.page.inner_text(".reasons")


def test_language_is_switched_in_every_view_and_searched_in(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, language="zh-CN")
    for view in ("", "table", "graph", "missing", "about", "row/0"):
        report.go(view)
        assert "概览" in report.page.inner_text(".top")
        report.page.click("text=English")
        assert "Overview" in report.page.inner_text(".top")
        report.page.click("text=中文")
    report.go("table")
    report.page.fill(".search", "不在设备上运行")
    report.page.wait_for_timeout(400)
    assert report.page.locator(".vrow").count() > 10


def test_tensor_view_is_complete(demo: Opened) -> None:
    demo.go_to_tensor("gate/conv:output:0")
    shown = demo.page.inner_text("main")
    for text in ("gate/conv:output:0", "float16", "float32", "cosine similarity", "NC1HWC0", "100 %", "[0, 3, 4, 4]"):
        assert text in shown
    assert demo.page.locator(".hbar").count() > 30
    assert demo.page.inner_text(".profile h2") == "Error per channel"
    assert demo.page.locator(".profile .hbar").count() == 16
    assert demo.page.locator(".profile .outlier").count() == 4
    assert demo.page.inner_text(".profile .readout").endswith("12 NaN or infinite")
    demo.page.hover(".profile .hbar >> nth=0")
    assert demo.page.inner_text(".profile .readout").startswith("C 0: RMS error 26.45, largest 89.89")
    assert (demo.page.get_attribute(".profile .hbar >> nth=5", "title") or "").startswith("C 5: ")
    demo.page.click("text=中文")
    assert demo.page.inner_text(".profile h2") == "逐通道误差"
    demo.page.click("text=深色")
    assert demo.page.locator(".profile .hbar").count() == 16


def test_profiles_of_other_axes_and_samples(show: Open) -> None:
    errors = (0.5, *(0.001,) * 249)
    wide = Profile(1, 1, "", 1000, 4, 0.004, errors, errors, (0,) * 250)
    made = replace(with_judgement(), profiles=(wide, replace(wide, label="W", axis=3)))
    report = show(made)
    report.go("row/1")
    assert report.texts(".profile h2") == ["Error along axis 1", "Error along W"]
    where = "axis 1 (counted from 0), 1\u202f000 slices · 4 neighbours to a bar · by a sample of 0.4 % of the elements"
    assert report.texts(".profile .hint")[0] == where
    assert report.texts(".profile .readout")[0] == "[1] 0\u20133: RMS error 0.5, largest 0.5, 99.9 % of the error"
    report.go("row/0")
    assert report.page.locator(".profile").count() == 0


def test_the_theme_follows_the_system_and_the_switch_and_is_printed(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, theme="dark")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    dark = report.page.evaluate(colour)
    report.page.click(".top >> text=Light")
    assert report.page.evaluate(colour) != dark
    report.page.emulate_media(media="print")
    assert not report.page.locator(".top").is_visible()
    assert report.page.locator(".hero").is_visible()


def test_rows_not_compared_have_reasons(demo: Opened) -> None:
    demo.go("missing")
    demo.page.wait_for_selector(".vrow")
    assert all(demo.column_texts("reason"))
    demo.page.click(".reason >> nth=0")
    assert demo.page.locator(".reason[aria-pressed=true]").count() == 1


def test_names_are_never_parsed_as_html(show: Open) -> None:
    names = ["<script>document.title='run'</script>", "=1+1", "<img src=x onerror=alert(1)>", "</script><b>x</b>"]
    report = show(strange_names(names))
    report.go("table")
    assert report.column_texts("operator") == names
    for view in ("", "graph", "row/0", "about", "missing"):
        report.go(view)
        report.page.wait_for_timeout(100)
        assert report.page.locator("#app script, #app img, #app b:text-is('x')").count() == 0
    assert report.page.title().startswith("Not compared · opdiff · <script>")


def test_findings_and_the_network_are_shown(show: Open) -> None:
    report = show(with_judgement())
    assert report.page.inner_text("h1") == "b is at fault: wrong scale"
    report.page.click("text=中文")
    assert render(FAULT.remedies[0], Language.CHINESE) in report.page.inner_text(".remedy")
    report.page.click("text=English")
    assert "the target is 2 times" in report.page.inner_text(".finding")
    report.page.click(".command >> text=Copy")
    assert report.page.inner_text(".command button") == "Copied"
    assert report.page.inner_text(".command code").startswith("opdiff op ")
    report.page.click(".finding >> text=In the graph")
    report.page.wait_for_selector(".graph-view[data-laid='4']")
    assert "b_bn" in report.page.inner_text(".panel")
    assert "ConvBatchnormFusionPass" in report.page.inner_text(".panel")
    assert "The path from here" in report.page.inner_text(".panel")
    comparison = with_judgement()
    judgement = replace(comparison.judgement, findings=(replace(FAULT, is_proved=True),))
    report = show(replace(comparison, judgement=judgement))
    assert report.page.inner_text(".finding .proved") == "proved"
    assert report.page.inner_text("h1") == "b is proved to be at fault: wrong scale"


def test_fused_operators_have_short_names(demo: Opened) -> None:
    long, short = "local/conv1local/conv1_relu", "local · conv1 + conv1_relu"
    assert short in demo.texts(".finding .name.big")
    assert demo.page.get_attribute(f".finding .name.big:text-is('{short}')", "title") == long
    demo.go("table?search=local/conv1")
    assert short in demo.column_texts("operator")


def test_address_has_what_is_chosen(demo: Opened) -> None:
    # The address of a view is completed, and tabs lead back to it.
    demo.go("table")
    demo.page.fill(".search", "context")
    demo.page.wait_for_timeout(300)
    assert demo.address == "table?search=context"
    demo.page.click(".top nav >> text=Tensors")
    assert demo.page.input_value(".search") == "context"
    assert demo.address == "table?search=context"
    demo.go("table?search=context&levels=wrong&outputs=1&sort=-distance")
    assert demo.page.input_value(".search") == "context"
    assert demo.page.inner_text(".count") == "6 of 249"
    distances = demo.column("distance")
    assert distances == sorted(distances, reverse=True)
    demo.page.click(".vrow >> nth=0")
    assert demo.address.startswith("tensor/context%2F")
    assert demo.page.title() == f"{demo.page.inner_text('.row-head h1')} · opdiff"
    demo.page.click(".row-head >> text=Back")
    assert demo.address == "table?search=context&levels=wrong&outputs=1&sort=-distance"


def test_every_view_has_a_title_and_starts_at_its_top(demo: Opened) -> None:
    titles = []
    for view in ("", "graph", "table", "missing", "about"):
        demo.go("tensor/context%2Fpool:output:0")
        demo.page.evaluate("() => scrollTo(0, 600)")
        demo.go(view)
        assert demo.page.evaluate("() => scrollY") == 0
        titles.append(demo.page.title())
    views = [f"{view} · opdiff · context/pool" for view in ("Graph", "Tensors", "Not compared", "About")]
    assert titles == ["opdiff · context/pool", *views]


def test_pictures_of_the_only_finding_are_as_large_as_those_of_several(show: Open) -> None:
    report = show(with_judgement())
    plot, words = report.box(".finding .path-plot svg"), report.box(".finding .words")
    assert plot["height"] < 130
    # The evidence is beside it.
    assert words["x"] > plot["x"] + plot["width"]
    report.page.set_viewport_size({"width": 400, "height": 800})
    plot, words = report.box(".finding .path-plot svg"), report.box(".finding .words")
    assert words["y"] > plot["y"] + plot["height"]


def test_view_of_changes(show: Open) -> None:
    old, new = many_rows(20, worst=0.001), many_rows(20, worst=0.5)
    report = show(new, find_changes(old, new))
    assert "worse" in report.page.inner_text(".overview .changed")
    report.page.click(".top >> text=Changes")
    report.page.wait_for_selector(".vrow")
    assert "worse" in report.texts(".vrow > div:nth-child(1)")
    report.page.click(".vrow >> nth=0")
    assert report.page.locator(".row-head").is_visible()


def test_overview_says_whether_another_operator_is_at_fault(show: Open) -> None:
    new = with_judgement()
    judgement = replace(new.judgement, findings=(replace(FAULT, operator="c"),))
    text = show(new, find_changes(replace(new, judgement=judgement), new)).page.inner_text(".changed")
    assert f"Newly at fault: {FAULT.operator}." in text
    assert "No longer at fault: c." in text


def test_a_hundred_thousand_rows_open_and_scroll(show: Open) -> None:
    report = show(many_rows(100_000))
    report.go("table?sort=index")
    report.page.wait_for_selector(".vrow")
    assert report.page.inner_text(".count") == "100\u202f000 of 100\u202f000"
    report.page.evaluate("() => { const table = document.querySelector('.vtable'); table.scrollTop = 1.7e6 }")
    report.page.wait_for_timeout(100)
    assert report.page.locator(".vrow").count() < 60
    assert report.page.locator(".vrow[data-row='50010']").count() == 1
    report.page.click(".vhead >> text=Cosine")
    report.page.fill(".search", "block_777/")
    report.page.wait_for_timeout(500)
    assert report.page.locator(".vrow").count() == 2


# The table: sorted, filtered, with the columns that are chosen


def test_the_table_starts_with_the_worst(demo: Opened) -> None:
    demo.go("table")
    assert "wrong" in demo.column_texts("level")[0]
    assert demo.address == "table"
    demo.go("table?sort=index")
    assert "wrong" not in demo.column_texts("level")[0]
    # NaN is worst.
    demo.go("table?sort=cosine")
    assert demo.column_texts("cosine")[0] == "NaN"
    demo.go("table?sort=-cosine")
    assert demo.column_texts("cosine")[0] == "1"


def test_the_table_sorts_both_ways_and_back(demo: Opened) -> None:
    demo.go("table")
    first = demo.texts(".vrow >> nth=0")
    demo.page.click(".vhead >> text=Rel. distance")
    distances = demo.column("distance")
    assert distances == sorted(distances)
    demo.page.click(".vhead >> text=Rel. distance")
    distances = demo.column("distance")
    assert distances == sorted(distances, reverse=True)
    demo.page.click(".vhead >> text=Rel. distance")
    assert demo.texts(".vrow >> nth=0") == first
    demo.page.evaluate("() => { document.querySelector('.vtable').scrollTop = 2000 }")
    demo.page.click(".vhead >> text=Cosine")
    assert demo.page.evaluate("() => document.querySelector('.vtable').scrollTop") == 0


def test_the_table_is_filtered_by_level_type_and_text(demo: Opened) -> None:
    demo.go("table")
    demo.page.click(".level-toggle.level-wrong")
    assert set(demo.texts(".vrow .chip b")) == {"✕"}
    demo.page.click(".level-toggle.level-wrong")
    demo.page.select_option(".toolbar select", "MaxPoolV3")
    demo.page.wait_for_timeout(50)
    assert set(demo.column_texts("type")) == {"MaxPoolV3"}
    demo.page.keyboard.press("/")
    demo.page.keyboard.type("context/pool")
    demo.page.wait_for_timeout(300)
    assert set(demo.column_texts("operator")) == {"context/pool"}
    demo.page.click("text=Clear")
    assert demo.page.locator(".vrow").count() > 20


@pytest.mark.parametrize(
    ("width", "hidden"),
    [(1600, set()), (1440, {"ulp"}), (1280, {"ulp", "dtype"}), (400, {"ulp", "dtype", "shape", "type", "cosine"})],
)
def test_the_table_shows_the_columns_that_there_is_room_for(demo: Opened, width: int, hidden: set[str]) -> None:
    demo.page.set_viewport_size({"width": width, "height": 800})
    demo.go("table")
    shown = set(
        demo.page.locator(".vrow >> nth=0 >> [data-column]").evaluate_all("all => all.map(e => e.dataset.column)")
    )
    assert {"level", "operator", "distance"} <= shown
    assert not hidden & shown
    assert demo.page.evaluate(
        "() => { const t = document.querySelector('.vtable'); return t.scrollWidth <= t.clientWidth }"
    )
    # In a narrow window levels are signs.
    assert ("wrong" in demo.page.inner_text(".vrow >> nth=0")) == (width > 700)


def test_columns_can_be_chosen(demo: Opened) -> None:
    demo.page.set_viewport_size({"width": 1280, "height": 800})
    demo.go("table")
    demo.page.click(".popover >> text=Columns")
    demo.page.click(".popover label >> text=Max ULP")
    assert demo.page.locator(".vhead >> text=Max ULP").count() == 1
    # The choice is still open, for the next column.
    demo.page.click(".popover label >> text=Shape")
    assert demo.page.locator(".vhead >> text=Shape").count() == 0
    demo.go("")
    demo.go("table")
    assert demo.page.locator(".vhead >> text=Max ULP").count() == 1

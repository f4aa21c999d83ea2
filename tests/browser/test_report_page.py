"""Reports in a real browser: opened from disk, without requests, all functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from made_reports import FAULT, many_rows, strange_names, with_judgement
from opdiff.core.error_facts import Profile
from opdiff.core.reasons import Language, render
from opdiff.report.changes import find_changes
from opdiff.report.html_page import write_html

if TYPE_CHECKING:
    from pathlib import Path

    from browser_page import Opened


Open = Any


def test_overview(demo: Opened) -> None:
    assert "tensors are wrong" in demo.page.inner_text("h1") or "is at fault" in demo.page.inner_text("h1")
    assert demo.page.title() == f"opdiff · {demo.page.inner_text('h1 .culprit')}"
    assert demo.page.locator(".legend button").count() >= 4
    assert demo.page.locator(".look, .finding").count() >= 3


def test_click_on_the_curve_opens_the_tensor_and_then_the_graph(demo: Opened) -> None:
    demo.page.locator(".curve canvas").scroll_into_view_if_needed()
    box = demo.page.locator(".curve canvas").bounding_box()
    assert box is not None
    # Moves along the curve until there is a point under the pointer.
    for step in range(400):
        demo.page.mouse.move(box["x"] + 62 + step * 3, box["y"] + 18)
        if demo.page.locator(".tip").is_visible():
            break
    name = demo.page.inner_text(".tip code")
    demo.page.mouse.down()
    demo.page.mouse.up()
    assert demo.page.inner_text(".row-head h1") == name
    demo.page.click(".row-head >> text=In the graph")
    demo.page.wait_for_selector(".graph-view[data-laid]")
    assert demo.page.inner_text(".panel .name.big") == name.partition(":")[0]


def test_the_legend_of_the_curve_has_the_colours_of_its_points(demo: Opened) -> None:
    assert demo.texts(".key .with-dot") == ["wrong", "suspicious", "noise", "rounding", "exact"]
    colours = demo.page.locator(".key .point").evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    assert len(set(colours)) == len(colours)


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


def test_tensor_view_is_complete(demo: Opened) -> None:
    demo.go("table")
    demo.page.fill(".search", "gate/conv:output:0")
    demo.page.wait_for_timeout(300)
    demo.page.click(".vrow >> nth=0")
    shown = demo.page.inner_text("main")
    for text in ("gate/conv:output:0", "float16", "float32", "cosine similarity", "NC1HWC0", "100 %", "[0, 3, 4, 4]"):
        assert text in shown
    assert demo.page.locator(".hbar").count() > 30


def test_search_in_the_graph(demo: Opened) -> None:
    demo.go("graph")
    demo.page.wait_for_selector(".graph-view[data-laid]")
    demo.page.keyboard.press("/")
    demo.page.keyboard.type("context/pool")
    assert demo.page.inner_text(".panel .name.big") == "context/pool"
    demo.page.click("text=Fit")
    demo.page.click(".panel >> text=Details")
    assert demo.page.inner_text(".row-head h1").startswith("context/pool")


@pytest.mark.parametrize("view", ["", "table", "graph", "missing", "about", "row/0"])
def test_all_views_in_chinese(opened: Open, demo_report: Path, view: str) -> None:
    report = opened(demo_report, language="zh-CN")
    report.go(view)
    report.page.wait_for_timeout(100)
    assert "概览" in report.page.inner_text(".top")
    assert "undefined" not in report.page.inner_text("body")
    report.page.click("text=English")
    assert "Overview" in report.page.inner_text(".top")


def test_no_sentence_is_left_in_english_on_the_chinese_page(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, language="zh-CN")
    count = report.page.evaluate("() => document.querySelectorAll('.bar span').length")
    assert count >= 4
    views = ["", "table", "missing", "about", "graph", *(f"row/{number}" for number in range(0, 248, 3))]
    for view in views:
        report.go(view)
        assert report.english() == [], view
    report.go("missing")
    assert "规则文件没有给出" in report.page.inner_text(".reasons")


def test_search_in_chinese(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, language="zh-CN")
    report.go("table")
    report.page.fill(".search", "不在设备上运行")
    report.page.wait_for_timeout(400)
    assert report.page.locator(".vrow").count() > 10


def test_the_error_of_every_channel_is_shown(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report)
    report.go("table")
    report.page.fill(".search", "gate/conv:output:0")
    report.page.wait_for_timeout(300)
    report.page.click(".vrow >> nth=0")
    assert report.page.inner_text(".profile h2") == "Error per channel"
    assert report.page.locator(".profile .hbar").count() == 16
    assert report.page.locator(".profile .outlier").count() == 4
    assert report.page.inner_text(".profile .readout").endswith("12 NaN or infinite")
    report.page.hover(".profile .hbar >> nth=0")
    assert report.page.inner_text(".profile .readout").startswith("C 0: RMS error 26.45, largest 89.89")
    assert report.page.get_attribute(".profile .hbar >> nth=5", "title").startswith("C 5: ")
    report.page.click("text=中文")
    assert report.page.inner_text(".profile h2") == "逐通道误差"
    report.page.click("text=深色")
    assert report.page.locator(".profile .hbar").count() == 16


def test_profiles_of_other_axes_and_samples(opened: Open, tmp_path: Path) -> None:
    errors = (0.5, *(0.001,) * 249)
    wide = Profile(1, 1, "", 1000, 4, 0.004, errors, errors, (0,) * 250)
    made = replace(with_judgement(), profiles=(wide, replace(wide, label="W", axis=3)))
    write_html(made, str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
    report.go("row/1")
    assert report.texts(".profile h2") == ["Error along axis 1", "Error along W"]
    where = "axis 1 (counted from 0), 1\u202f000 slices · 4 neighbours to a bar · by a sample of 0.4 % of the elements"
    assert report.texts(".profile .hint")[0] == where
    assert report.texts(".profile .readout")[0] == "[1] 0\u20133: RMS error 0.5, largest 0.5, 99.9 % of the error"
    report.go("row/0")
    assert report.page.locator(".profile").count() == 0


def test_dark_and_light_follow_the_system_and_the_switch(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, theme="dark")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    dark = report.page.evaluate(colour)
    report.page.click(".top >> text=Light")
    assert report.page.evaluate(colour) != dark


def test_rows_not_compared_have_reasons(demo: Opened) -> None:
    demo.go("missing")
    demo.page.wait_for_selector(".vrow")
    assert all(demo.column_texts("reason"))
    demo.page.click(".reason >> nth=0")
    assert demo.page.locator(".reason[aria-pressed=true]").count() == 1


def test_names_are_never_parsed_as_html(opened: Open, tmp_path: Path) -> None:
    names = ["<script>document.title='run'</script>", "=1+1", "<img src=x onerror=alert(1)>", "</script><b>x</b>"]
    write_html(strange_names(names), str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
    report.go("table")
    assert report.column_texts("operator") == names
    for view in ("", "graph", "row/0", "about", "missing"):
        report.go(view)
        report.page.wait_for_timeout(100)
        assert report.page.locator("#app script, #app img, #app b:text-is('x')").count() == 0
    assert report.page.title().startswith("Not compared · opdiff · <script>")


def test_findings_and_the_network_are_shown(opened: Open, tmp_path: Path) -> None:
    write_html(with_judgement(), str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
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


def test_fused_operators_have_short_names(demo: Opened) -> None:
    long, short = "local/conv1local/conv1_relu", "local · conv1 + conv1_relu"
    assert short in demo.texts(".finding .name.big")
    assert demo.page.get_attribute(f".finding .name.big:text-is('{short}')", "title") == long
    demo.go("table?search=local/conv1")
    assert short in demo.column_texts("operator")


def test_address_has_what_is_chosen(demo: Opened) -> None:
    demo.go("table?search=context&levels=wrong&outputs=1&sort=-distance")
    assert demo.page.input_value(".search") == "context"
    assert demo.page.inner_text(".count") == "6 of 249"
    distances = demo.column("distance")
    assert distances == sorted(distances, reverse=True)
    demo.page.click(".vrow >> nth=0")
    assert demo.page.evaluate("() => location.hash").startswith("#/tensor/context%2F")
    assert demo.page.title() == f"{demo.page.inner_text('.row-head h1')} · opdiff"
    demo.page.click(".row-head >> text=Back")
    assert demo.page.evaluate("() => location.hash") == "#/table?search=context&levels=wrong&outputs=1&sort=-distance"


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


def test_tabs_lead_back_to_a_view_whose_address_was_completed(demo: Opened) -> None:
    demo.go("table")
    demo.page.fill(".search", "context")
    demo.page.wait_for_timeout(300)
    assert demo.page.evaluate("() => location.hash") == "#/table?search=context"
    demo.page.click(".top nav >> text=Tensors")
    assert demo.page.input_value(".search") == "context"
    assert demo.page.evaluate("() => location.hash") == "#/table?search=context"


def test_the_curve_starts_with_the_relative_distance_and_numbers_the_findings(demo: Opened) -> None:
    assert demo.page.input_value(".curve-card .tools select") == "relative_euclidean_distance"
    label = demo.page.get_attribute(".curve canvas", "aria-label")
    assert label is not None
    curve, first, second, *others = label.split(", ")
    assert curve == "Accuracy along the execution"
    assert (first, second) == ("1 context/pool:output:0", "2 local/conv1local/conv1_relu:output:0")
    assert len(others) == demo.page.locator(".finding").count() - 2


def test_the_error_along_the_path_is_above_the_fold(demo: Opened) -> None:
    demo.page.set_viewport_size({"width": 1440, "height": 820})
    plot = demo.page.locator(".path-plot svg >> nth=0").bounding_box()
    assert plot is not None
    assert plot["y"] + plot["height"] < 820


def test_pictures_of_the_only_finding_are_as_large_as_those_of_several(opened: Open, tmp_path: Path) -> None:
    write_html(with_judgement(), str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
    plot, words = (report.page.locator(f".finding {name}").bounding_box() for name in (".path-plot svg", ".words"))
    assert plot is not None
    assert words is not None
    assert plot["height"] < 130
    # The evidence is beside it.
    assert words["x"] > plot["x"] + plot["width"]
    report.page.set_viewport_size({"width": 400, "height": 800})
    plot, words = (report.page.locator(f".finding {name}").bounding_box() for name in (".path-plot svg", ".words"))
    assert plot is not None
    assert words is not None
    assert words["y"] > plot["y"] + plot["height"]


@pytest.mark.parametrize("where", ["nowhere", "tensor/none%3Aoutput%3A0", "row/99999"])
def test_unknown_address_is_told(demo: Opened, where: str) -> None:
    demo.go(where)
    assert "There is no such view or tensor" in demo.page.inner_text(".notice")
    demo.go("table")
    assert demo.page.locator(".notice").count() == 0


def test_constants_are_counted_apart(demo: Opened) -> None:
    legend = demo.page.inner_text(".legend")
    assert "+ 118 inputs and constants" in legend
    assert [line for line in demo.texts(".legend button") if "not comparable" in line] == ["–\n1\nnot comparable"]  # noqa: RUF001


def test_view_of_changes(opened: Open, tmp_path: Path) -> None:
    old, new = many_rows(20, worst=0.001), many_rows(20, worst=0.5)
    write_html(new, str(tmp_path / "report.html"), changes=find_changes(old, new))
    report = opened(tmp_path / "report.html")
    assert "worse" in report.page.inner_text(".overview .changed")
    report.page.click(".top >> text=Changes")
    report.page.wait_for_selector(".vrow")
    assert "worse" in report.texts(".vrow > div:nth-child(1)")
    report.page.click(".vrow >> nth=0")
    assert report.page.locator(".row-head").is_visible()


def test_proved_findings_are_marked(opened: Open, tmp_path: Path) -> None:
    comparison = with_judgement()
    judgement = replace(comparison.judgement, findings=(replace(FAULT, is_proved=True),))
    write_html(replace(comparison, judgement=judgement), str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
    assert report.page.inner_text(".finding .proved") == "proved"
    assert report.page.inner_text("h1") == "b is proved to be at fault: wrong scale"


def test_overview_says_whether_another_operator_is_at_fault(opened: Open, tmp_path: Path) -> None:
    new = with_judgement()
    judgement = replace(new.judgement, findings=(replace(FAULT, operator="c"),))
    write_html(new, str(tmp_path / "report.html"), changes=find_changes(replace(new, judgement=judgement), new))
    text = opened(tmp_path / "report.html").page.inner_text(".changed")
    assert f"Newly at fault: {FAULT.operator}." in text
    assert "No longer at fault: c." in text


def test_a_hundred_thousand_rows_open_and_scroll(opened: Open, tmp_path: Path) -> None:
    write_html(many_rows(100_000), str(tmp_path / "report.html"))
    report = opened(tmp_path / "report.html")
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


def test_reports_can_be_printed(demo: Opened) -> None:
    demo.page.emulate_media(media="print")
    assert not demo.page.locator(".top").is_visible()
    assert demo.page.locator(".hero").is_visible()

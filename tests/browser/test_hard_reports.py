"""Reports of unusual comparisons and on unusual screens: extreme numbers, long names, no rows, printing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from made_reports import (
    BAD,
    FAULT,
    GOOD,
    OFF,
    judged_comparison,
    many_rows,
    not_compared,
    row,
    strange_names,
    with_judgement,
)
from opdiff.core.comparison import GraphNode, ModelGraph

if TYPE_CHECKING:
    from pathlib import Path

    from browser_page import Open, Opened
    from opdiff.core.comparison import Comparison


EXTREMES = (0.0, 5e-324, 1e-300, 1.0, 1.7e308, math.nan, math.inf, -math.inf, None)


@pytest.mark.parametrize("numbers", [EXTREMES, (1e17,), (5e-324,), (1.79e308, 1.79e308), (0.0,)], ids=str)
def test_curve_of_extreme_numbers(show: Open, numbers: tuple[float | None, ...]) -> None:
    report = show(
        judged_comparison(*(row(f"op{n}", **GOOD | {"max_absolute_error": size}) for n, size in enumerate(numbers)))
    )
    report.page.select_option(".tools select", "max_absolute_error")
    for log in (True, False):
        report.page.locator(".tools input").first.set_checked(log)
        assert report.page.evaluate("() => document.querySelector('.curve canvas').clientWidth") > 300


def test_direction_marks_in_names_are_escaped(show: Open) -> None:
    report = show(strange_names(["\u202erelu", "soft\u200bmax", "卷积"]))
    report.go("table")
    assert report.texts(".vrow code") == ["\\u202erelu", "soft\\u200bmax", "卷积"]
    assert "\\u202erelu" in report.page.title()


def test_long_names_are_shortened(show: Open) -> None:
    report = show(strange_names(["x" * 10_000]))
    for where in ("", "row/0"):
        report.go(where)
        height = report.page.evaluate("() => document.documentElement.scrollHeight")
        assert height < 3000, where
        assert report.page.evaluate("() => document.documentElement.scrollWidth") <= 1360, where


def test_one_wrong_and_one_compared_tensor(show: Open) -> None:
    # A suspicious tensor before it does not matter.
    report = show(judged_comparison(row("early", **OFF), row("late", **BAD)))
    assert report.page.inner_text("h1") == "One tensor is wrong, in late"
    report = show(judged_comparison(row("a")))
    assert report.texts(".advice") == ["The one tensor that was compared is within its limits."]


@pytest.mark.parametrize(
    "made", [judged_comparison(not_compared("a"), not_compared("b")), judged_comparison()], ids=["failed", "none"]
)
def test_comparison_without_rows(show: Open, made: Comparison) -> None:
    report = show(made)
    assert report.page.inner_text("h1") == "Nothing could be compared"
    assert report.page.locator(".curve").count() == 0
    report.go("table")
    assert report.page.inner_text(".empty") == "Nothing could be compared. See under “Not compared” why."
    report.go_to_graph()
    assert report.page.inner_text(".graph-status") == "Nothing could be compared"


def test_rows_are_as_wide_as_their_columns(show: Open) -> None:
    report = show(judged_comparison(row("a")))
    report.page.set_viewport_size({"width": 900, "height": 700})
    report.go("table")
    for part in (".vhead", ".vrow"):
        widths = f"() => [...document.querySelectorAll('{part}')].map((one) => one.scrollWidth - one.clientWidth)"
        assert report.page.evaluate(widths) == [0]


@pytest.mark.parametrize("where", ["", "row/100", "about", "graph"])
def test_nothing_is_cut_off_in_a_narrow_window(demo: Opened, where: str) -> None:
    demo.page.set_viewport_size({"width": 400, "height": 800})
    demo.go(where)
    assert demo.page.evaluate("() => document.documentElement.scrollWidth") <= 400
    ends = "all => all.map(e => e.getBoundingClientRect().right)"
    assert max(demo.page.locator(".top button").evaluate_all(ends)) <= 400


def test_the_panel_of_the_graph_leaves_the_search_free_in_a_narrow_window(demo: Opened) -> None:
    demo.page.set_viewport_size({"width": 400, "height": 800})
    demo.go("graph")
    demo.page.wait_for_selector(".panel:not([hidden])")
    search, panel = demo.box(".graph-tools"), demo.box(".panel")
    assert search["y"] + search["height"] < panel["y"]


def test_back_returns_to_the_previous_view(show: Open) -> None:
    report = show(with_judgement())
    report.go_to_graph("graph/c")
    report.page.click(".panel >> text=Details")
    assert report.page.inner_text("h1") == "c:output:0"
    report.page.keyboard.press("Escape")
    report.page.wait_for_selector(".graph-view[data-laid]")
    assert report.page.inner_text(".panel .name.big") == "c"
    report.go("")
    report.page.click(".finding >> text=Details")
    report.page.click("text=← Back")
    assert report.page.locator(".hero").count() == 1


def test_keyboard_navigation_of_lists(show: Open) -> None:
    report = show(judged_comparison(row("a"), not_compared("b"), row("c"), not_compared("d")))
    report.go("missing")
    for key in ("j", "j", "Enter"):
        report.page.keyboard.press(key)
    assert report.page.inner_text("h1") == "d"
    report.page.keyboard.press("k")
    assert report.page.inner_text("h1") == "b"


WATCH = """() => addEventListener("beforeprint", () => {
    const { theme } = document.documentElement.dataset;
    window.printed = [document.querySelectorAll(".vrow").length, theme];
})"""


def test_all_rows_are_printed_in_the_light_theme(show: Open) -> None:
    report = show(many_rows(300), theme="dark")
    report.go("table")
    assert report.page.locator(".vrow").count() < 60
    report.page.evaluate(WATCH)
    report.page.pdf()
    assert report.page.evaluate("() => window.printed") == [300, "light"]
    assert report.page.locator(".vrow").count() < 60
    assert report.page.get_attribute("html", "data-theme") == "dark"


def test_printed_rows_are_limited(show: Open) -> None:
    report = show(many_rows(2500))
    report.go("table")
    report.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert report.page.locator(".vrow").count() == 2000
    assert report.page.get_attribute(".vtable", "data-more") == "… + 500"
    report.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert report.page.get_attribute(".vtable", "data-more") is None


def test_graph_is_printed(demo: Opened) -> None:
    demo.go_to_graph()
    demo.page.emulate_media(media="print")
    # The canvas is resized after the media changed.
    demo.page.wait_for_function("() => document.querySelector('.graph-view canvas').clientHeight > 300")
    assert not demo.page.locator(".graph-tools").is_visible()


def test_unknown_addresses_show_the_overview_with_a_notice(show: Open) -> None:
    report = show(judged_comparison(row("a"), row("b")))
    for where in ("row/1.5", "row/-1", "row/", "row/99", "tensor/none%3Aoutput%3A0", "changes", "constructor", "%"):
        report.go("table")
        assert report.page.locator(".notice").count() == 0
        report.go(where)
        assert report.page.inner_text("h1") == "No operator is at fault", where
        assert report.texts("nav [aria-current]") == ["Overview"], where
        assert "There is no such view or tensor" in report.page.inner_text(".notice"), where


CONTRASTS = """() => {
    const light = (colour) => {
        const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = colour.match(/\\d+/g).map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...document.querySelectorAll(".legend-list b")].map((sign) => {
        const { color, backgroundColor } = getComputedStyle(sign);
        const [low, high] = [color, backgroundColor].map(light).sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    });
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_level_labels_have_enough_contrast(opened: Open, demo_report: Path, theme: str) -> None:
    report = opened(demo_report, theme=theme)
    report.go("about")
    contrasts = report.page.evaluate(CONTRASTS)
    assert len(contrasts) == 6
    assert min(contrasts) >= 4.5, contrasts


def test_number_of_hidden_entries_is_shown(show: Open) -> None:
    made = with_judgement()
    findings = tuple(replace(FAULT, operator=f"b{number}") for number in range(8))
    feeding = tuple(GraphNode(f"in{number}", "Relu") for number in range(12))
    last = GraphNode("b", "Conv2D", tuple(f"{node.name}:0" for node in feeding))
    report = show(
        replace(made, judgement=replace(made.judgement, findings=findings), graphs=(ModelGraph((*feeding, last)),))
    )
    assert report.page.locator(".finding").count() == 5
    report.go("graph/b")
    report.page.wait_for_selector(".panel:not([hidden])")
    assert report.page.locator(".panel .look").count() == 8
    assert "… + 4" in report.texts(".panel p")
    report.go("")
    report.page.click("text=3 more in the table")
    assert report.page.locator(".vrow").count() == 2

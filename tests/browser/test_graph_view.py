"""The view of the network in a real browser: wrapped, with minimap, legend and hover texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_reports import with_network

if TYPE_CHECKING:
    from browser_page import Open, Opened

# Pixels of the canvas that are not background, by sixteenths of its width.
_DRAWN = """() => {
    const canvas = document.querySelector(".graph-view > canvas");
    const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const drawn = new Array(16).fill(0);
    for (let at = 3; at < data.length; at += 4) if (data[at]) drawn[Math.floor(((at >> 2) % width) * 16 / width)]++;
    return drawn;
}"""

_PICTURE = "() => document.querySelector('.graph-view > canvas').toDataURL()"


@pytest.fixture
def graph(demo: Opened) -> Opened:
    demo.go_to_graph()
    return demo


def fit(report: Opened) -> None:
    report.page.keyboard.press("Escape")
    report.page.click(".graph-tools >> text=Fit")
    report.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_hover_text_has_the_full_name_and_numbers(graph: Opened) -> None:
    # The operator at fault is in the middle, less the panel.
    width = graph.page.evaluate("() => document.querySelector('.graph-view').clientWidth")
    height = graph.page.evaluate("() => document.querySelector('.graph-view').clientHeight")
    top = graph.box(".graph-view")
    graph.page.mouse.move((width - 300) / 2, top["y"] + height * 0.4)
    tip = graph.page.inner_text(".graph-view .tip")
    assert "context/pool" in tip
    assert "relative Euclidean distance: 0.3677" in tip
    assert "cosine: 0.9" in tip
    graph.page.mouse.move(5, top["y"] + height - 5)
    assert not graph.page.locator(".graph-view .tip").is_visible()


def test_minimap_is_shown_unless_everything_is_in_view_and_goes_where_it_is_clicked(graph: Opened) -> None:
    minimap = graph.page.locator(".minimap")
    assert minimap.is_visible()
    before = graph.page.evaluate(_PICTURE)
    minimap.click(position={"x": 12, "y": 12})
    graph.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert graph.page.evaluate(_PICTURE) != before
    fit(graph)
    assert not minimap.is_visible()
    assert sum(pixels > 0 for pixels in graph.page.evaluate(_DRAWN)) >= 14


def test_legend_names_what_is_drawn(graph: Opened) -> None:
    graph.page.click(".graph-tools >> text=Legend")
    legend = graph.page.inner_text(".graph-legend > div")
    for sign in ("wrong", "noise", "inherited", "stands for several originals"):
        assert sign in legend
    assert "guessed" not in legend


def test_the_selected_operator_is_in_the_address(graph: Opened) -> None:
    assert graph.address == "graph/context%2Fpool"
    graph.page.click(".panel .look >> text=split")
    assert graph.address == "graph/split"
    # Escape closes the panel first.
    graph.page.keyboard.press("Escape")
    assert not graph.page.locator(".panel").is_visible()
    assert graph.page.locator(".graph-view").count() == 1
    graph.page.click(".top nav >> text=Overview")
    graph.page.wait_for_selector(".graph-view", state="detached")
    graph.go("graph/split")
    graph.page.wait_for_selector(".panel:not([hidden])")
    assert graph.page.inner_text(".panel .name.big") == "split"


def test_large_networks_are_folded_until_they_can_be_read_and_fill_the_window(show: Open) -> None:
    """Too many operators are bad for folding good stretches, so modules are folded by name."""
    report = show(with_network(5000))
    report.go("graph")
    report.page.wait_for_selector(".graph-view[data-laid='250']")
    assert report.page.input_value(".graph-tools select") == "scope"
    report.page.select_option(".graph-tools select", "none")
    report.page.wait_for_selector(".graph-view[data-laid='5000']", timeout=5000)
    fit(report)
    assert sum(pixels > 0 for pixels in report.page.evaluate(_DRAWN)) >= 14

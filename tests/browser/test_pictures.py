"""Pictures of tensors on the page: images, plots, values under the pointer, and text alternatives."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from made_reports import BAD, judged_comparison, picture, row
from opdiff.report.html_page import write_html

if TYPE_CHECKING:
    from pathlib import Path

    from browser_page import Open, Opened

SIDES = ["Golden", "Target", "Error"]
POOL = "tensor/context%2Fpool:output:0"
# The colours of cells, by column and row; all are read at once.
_COLOURS = """(canvas, cells) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return cells.map(([x, y]) => [...data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3)]);
}"""
# A multiplication and a minus sign.
_TIMES, _MINUS = chr(0xD7), chr(0x2212)


def test_a_tensor_at_fault_is_shown_on_both_sides(demo: Opened) -> None:
    demo.go(POOL)
    captions = demo.texts(".pictures .images figcaption")
    assert captions == ["Golden · C 9", "Target · C 9", "Error · C 9", "Error, all 16 planes"]
    labels = [each.get_attribute("aria-label") for each in demo.page.locator(".images canvas").all()]
    assert labels[0] == "Golden values C 9, from -1.735 to 9.165"
    assert len(demo.page.locator(".frame").all()) == 16
    golden, target = (
        each.evaluate(_COLOURS, [[2, 5], [5, 2]]) for each in demo.page.locator(".images canvas").all()[:2]
    )
    # Height and width are swapped.
    assert golden == target[::-1] != target
    # The plane is chosen by its thumbnail.
    demo.page.click(".frame[aria-label^='C 3:']")
    assert demo.texts(".images figcaption")[0] == "Golden · C 3"
    assert demo.texts(".frame[aria-pressed='true']") == ["C 3"]
    assert demo.page.inner_text(".pictures .readout >> nth=0").startswith("Worst at C 3, H ")


def test_values_are_shown_under_the_pointer(demo: Opened) -> None:
    demo.go(POOL)
    images = demo.page.locator(".images canvas")
    images.nth(1).hover(position=_centre_of(images.nth(1), 8, 8, (3, 5)))
    assert demo.page.inner_text(".pictures .readout >> nth=0").startswith("C 9, H 3, W 5: golden ≈ ")
    assert demo.page.locator(".cell-mark:visible").count() == 4
    density = demo.page.locator(".density canvas")
    density.hover(position=_centre_of(density, 64, 64, (63, 0)))
    assert demo.page.inner_text(".density .readout").startswith("golden -1.735 … -1.565, target -1.735 … -1.565: ")
    demo.page.locator(".value-histogram svg").hover(position={"x": 1, "y": 40})
    assert demo.page.inner_text(".value-histogram .readout").startswith("-1.735 … -1.565: golden ")


def _centre_of(canvas: Any, rows: int, columns: int, cell: tuple[int, int]) -> Any:
    box = canvas.bounding_box()
    return {"x": (cell[1] + 0.5) / columns * box["width"], "y": (cell[0] + 0.5) / rows * box["height"]}


def test_values_that_are_not_finite_have_colours_of_their_own(show: Open) -> None:
    made = replace(judged_comparison(row("conv", **BAD)), pictures=(picture(0, (4, 5), specials=True),))
    report = show(made)
    report.go("row/0")
    target, error = report.page.locator(".images canvas").all()[1:3]
    nan, infinite, negative = ([255, 43, 214], [255, 140, 0], [0, 200, 255])
    first = [[0, 0], [1, 0], [2, 0]]
    assert target.evaluate(_COLOURS, first) == [nan, infinite, negative]
    assert error.evaluate(_COLOURS, first) == [nan, nan, nan]
    assert report.texts(".special") == ["NaN", "∞", f"{_MINUS}∞", "Error: NaN or infinite"]
    assert "3 elements are NaN or infinite" in report.page.inner_text(".pictures .hint")
    text = "Worst at [0] 0, [1] 0: golden ≈ 0.119, target NaN, error NaN or infinite"
    assert report.page.inner_text(".pictures .readout >> nth=0") == text


@pytest.mark.parametrize(
    ("shape", "labels", "captions", "facts"),
    [
        pytest.param(
            (1, 300, 200),
            "",
            SIDES,
            f"rows [1] (300), columns [2] (200) · a cell is 5 {_TIMES} 4 elements",
            id="tokens",
        ),
        pytest.param((700,), "", SIDES, f"along [0] (700) · a cell is 1 {_TIMES} 3 elements", id="one axis"),
        pytest.param((1,), "", SIDES, "", id="one element"),
        pytest.param(
            (1, 40, 64, 64),
            "NCHW",
            [*(f"{each} · C 28" for each in SIDES), "Error, all 40 planes"],
            "rows H (64), columns W (64) · the 6 worst of 40 planes",
            id="many planes",
        ),
    ],
)
def test_tensors_of_all_ranks_are_drawn(
    show: Open, shape: tuple[int, ...], labels: str, captions: list[str], facts: str
) -> None:
    made = replace(judged_comparison(row("conv", **BAD)), pictures=(picture(0, shape, labels),))
    report = show(made)
    report.go("row/0")
    assert report.texts(".images figcaption") == captions
    assert report.page.inner_text(".pictures .hint") == facts


def test_findings_show_their_tensor_at_a_glance(demo: Opened) -> None:
    order = "the axes are stored in the order (C, W, H) instead of (C, H, W): relative error 0.368 before"
    assert order in demo.page.inner_text(".finding >> nth=0 >> li >> nth=0")
    assert demo.page.locator(".finding .picture-strip").count() == 3
    assert demo.texts(".finding >> nth=0 >> .picture-strip figcaption") == ["Golden", "Target", "Error", "Density"]
    plot = demo.page.locator(".finding >> nth=0 >> .path-plot")
    assert plot.locator("circle").count() >= 10
    assert plot.locator("circle >> nth=0").get_attribute("class") == "level-wrong"
    assert (plot.locator("title >> nth=0").text_content() or "").startswith("#83 context/pool: 0.3")
    assert (plot.locator("svg").get_attribute("aria-label") or "").endswith("to 0.0407 head/topk")
    plot.locator("circle >> nth=3").click()
    assert demo.page.locator(".row-head").count() == 1
    demo.go("")
    demo.page.click(".finding >> nth=0 >> .picture-strip")
    assert demo.page.inner_text(".row-head h1") == "context/pool:output:0"
    assert demo.page.inner_text(".explanation").startswith(f"Explanation: {order}")


@pytest.mark.parametrize("width", [1440, 1280, 400])
def test_pictures_fit_every_width(opened: Open, demo_report: Path, width: int) -> None:
    report = opened(demo_report, theme="dark")
    report.page.set_viewport_size({"width": width, "height": 860})
    report.go(POOL)
    assert report.page.evaluate("document.documentElement.scrollWidth") <= width
    assert report.box(".images canvas >> nth=0")["width"] > 120


def test_pictures_are_described_in_chinese(opened: Open, demo_report: Path) -> None:
    report = opened(demo_report, language="zh-CN")
    report.go(POOL)
    assert report.english() == []
    assert report.texts(".images figcaption")[0] == "标杆 · C 9"


def test_graph_mode_shows_pictures(opened: Open, graph_reports: dict[str, Path]) -> None:
    report = opened(graph_reports["real"])
    report.page.click(".finding >> nth=0 >> .picture-strip")
    assert report.page.locator(".pictures .images canvas").count() >= 3


def test_tensors_have_the_numbers_of_the_table_on_the_curve(demo: Opened, demo_report: Path) -> None:
    demo.point_at_curve()
    number = demo.page.inner_text(".tip span").split()[0]
    demo.click_here()
    assert demo.page.inner_text(".row-head h1") == "gate/conv:output:0"
    assert f"{number} Conv2D" in demo.page.inner_text(".row-head .facts")
    with next(demo_report.parent.glob("result_*.csv")).open() as table:
        (index,) = {line["Index"] for line in csv.DictReader(table) if line["NPUDump"] == "gate/conv"}
    assert number == f"#{index}"


def test_the_page_of_one_operator_begins_with_its_tensor(opened: Open, tmp_path: Path) -> None:
    made = replace(judged_comparison(row("a", **BAD), row("conv", **BAD)), pictures=(picture(1, (8, 4, 5)),))
    write_html(made, str(tmp_path / "page.html"), start=1)
    report = opened(tmp_path / "page.html")
    assert report.page.inner_text(".row-head h1") == "conv:output:0"
    assert report.page.locator(".frame").count() == 8
    report.page.click(".top .brand")
    assert report.page.locator(".overview").count() == 1

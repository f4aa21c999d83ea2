"""The table of a report in a real browser: sorted, filtered, with the columns that are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browser_page import Opened


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

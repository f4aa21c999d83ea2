"""A report opened in a browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Literal

    from playwright.sync_api import Browser, FloatRect, Page

# Words of which every English sentence has one, and no name of the samples.
_ENGLISH = re.compile(
    r"(?<![\w/.-])(the|of|is|are|and|not|with|from|than|by|was|has|to|which|it|that|but|no)(?![\w/.-])"
)
_TITLES = "() => [...document.querySelectorAll('[title]')].map(element => element.title).join('\\n')"
# The listener of the page was added before, and draws the view at once; then comes what it left for later.
_GO = """async where => {
    const changed = new Promise(done => addEventListener("hashchange", done, { once: true }));
    const before = location.href;
    location.hash = where;
    if (location.href !== before) await changed;
    await new Promise(done => setTimeout(done, 50));
}"""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """Return the path of a browser; `OPDIFF_BROWSER` selects one."""
    named = os.environ.get("OPDIFF_BROWSER")
    return named or next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def launched(path: str | None) -> Iterator[Browser]:
    """Start the browser of a path."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def new_page(browser: Browser, language: str, theme: str, width: int, height: int) -> Page:
    """Return an empty page."""
    scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
    return browser.new_page(viewport={"width": width, "height": height}, locale=language, color_scheme=scheme)


@dataclass
class Opened:
    """A page, and its problems: errors, and requests other than for its own file."""

    page: Page
    path: Path
    problems: list[str] = field(default_factory=list)

    def open(self, view: str = "") -> None:
        """Load the report, and return once a view is drawn."""
        self.page.goto(self.path.as_uri() + view)
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def go(self, where: str) -> None:
        """Go to a view, and return once it is drawn."""
        self.page.evaluate(_GO, f"#/{where}")

    def go_to_graph(self, where: str = "graph") -> None:
        """Go to a view of the network, and return once it is drawn."""
        self.go(where)
        self.page.wait_for_selector(".graph-view[data-laid]")

    def go_to_tensor(self, name: str) -> None:
        """Open the first tensor that a search finds."""
        self.go("table")
        self.page.fill(".search", name)
        self.page.wait_for_timeout(300)
        self.page.click(".vrow >> nth=0")

    def point_at_curve(self) -> None:
        """Move along the curve until there is a point under the pointer."""
        self.page.locator(".curve canvas").scroll_into_view_if_needed()
        box = self.box(".curve canvas")
        for step in range(400):
            self.page.mouse.move(box["x"] + 62 + step * 3, box["y"] + 18)
            if self.page.locator(".tip").is_visible():
                return

    def click_here(self) -> None:
        """Click where the pointer is."""
        self.page.mouse.down()
        self.page.mouse.up()

    def box(self, selector: str) -> FloatRect:
        """Return position and size of an element."""
        found = self.page.locator(selector).bounding_box()
        assert found is not None
        return found

    @property
    def address(self) -> str:
        """The address of the view, behind `#/`."""
        where: str = self.page.evaluate("() => location.hash")
        return where.removeprefix("#/")

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]

    def column(self, key: str) -> list[float]:
        """Return the numbers in a column of the table."""
        cells = self.column_texts(key)
        return [float(cell.replace(" e", "e").replace("∞", "inf").replace("\u202f", "")) for cell in cells]

    def column_texts(self, key: str) -> list[str]:
        return self.texts(f".vrow > [data-column={key}]")

    def english(self) -> list[str]:
        """Return the English lines of the view and of its tooltips."""
        shown = f"{self.page.inner_text('main')}\n{self.page.evaluate(_TITLES)}"
        return [line for line in shown.splitlines() if _ENGLISH.search(line)]


Open = Callable[..., Opened]
"""A function that opens a report."""

"""A report opened in a browser."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

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


@dataclass
class Opened:
    """A page, and its problems: errors, and requests other than for its own file."""

    page: Page
    path: Path
    problems: list[str] = field(default_factory=list)

    def go(self, where: str) -> None:
        """Go to a view, and return once it is drawn."""
        self.page.evaluate(_GO, f"#/{where}")

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

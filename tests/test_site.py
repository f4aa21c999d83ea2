"""The site of the documents: it builds without a warning, needs no other host, and has every option."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opdiff.cli.parsers import COMMANDS, command_parser

pytest.importorskip("material", reason="mkdocs-material is not installed; `make docs` installs it")

ROOT = Path(__file__).parent.parent
# Elements that load something, unlike links.
_LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//|url\(["\']?https?:'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    assert [page.name for page in pages if _LOADED.search(page.read_text())] == []
    assert [style.name for style in site.rglob("*.css") if _LOADED.search(style.read_text())] == []


def test_every_page_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"zh/tutorial.html", "how-to/dump.html", "commands/options.html", "locating.html"} <= found


def test_the_page_of_options_has_every_option(site: Path) -> None:
    text = (site / "commands" / "options.html").read_text()
    options = {
        option for name in COMMANDS for action in command_parser(name).actions for option in action.option_strings
    }
    assert [option for option in options if f"<code>{option}</code>" not in text] == []


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0].replace("hooks: [mkdocs_hooks.py]\n", "")
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs").mkdir()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    for text, code in (("# A\n[x](#a)\n", 0), ("# A\n[x](#b)\n", 1), ("# A\n[x](b.md)\n", 1)):
        (tmp_path / "docs" / "index.md").write_text(text)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert done.returncode == code

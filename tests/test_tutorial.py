"""The tutorial: every command runs, prints what the page shows, and needs no more than the page says."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from command_line import run_outside
from doc_pages import FENCE, ROOT, TUTORIALS, name_of

if TYPE_CHECKING:
    from pathlib import Path

TRANSLATIONS = [(ROOT / "docs" / "how-to" / "dump.md", ROOT / "docs" / "zh" / "dump.md"), tuple(TUTORIALS.values())]
_COMMENT = re.compile(r"(?://|#) .*$", re.MULTILINE)
# Makes modules missing that are installed for other tests.
_SITE = """\
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
"""


def cases_of(page: Path) -> list[str]:
    """The parts of a page that begin with writing a sample."""
    parts = re.split(r"^## (?![0-9])", page.read_text(), flags=re.MULTILINE)
    return [part for part in parts if "$ opdiff demo" in part]


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a text, each with the lines that it prints by the page."""
    blocks = "".join(block for language, block in FENCE.findall(text) if language == "console")
    found = []
    for block in blocks.replace("\\\n", " ").split("$ opdiff ")[1:]:
        command, _, printed = block.partition("\n")
        found.append((command, printed))
    return found


def modules_not_installed(extras: set[str]) -> set[str]:
    """Modules of all other extras, and of the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    others = [packages for extra, packages in project["optional-dependencies"].items() if extra not in {*extras, "all"}]
    return {"onnx", *(re.split(r"[-<>=\[]", package)[0] for packages in others for package in packages)}


@pytest.mark.parametrize("case", range(len(cases_of(TUTORIALS["en"]))))
@pytest.mark.parametrize("language", TUTORIALS)
def test_commands_print_what_the_page_shows(tmp_path: Path, language: str, case: int) -> None:
    """Each case starts in an empty folder, with the extras that the page has installed so far."""
    page = TUTORIALS[language].read_text()
    text = cases_of(TUTORIALS[language])[case]
    extras = set(",".join(re.findall(r"pip install '\.\[(.*)\]'", page[: page.index(text) + len(text)])).split(","))
    if ".pb" in text and find_spec("tensorflow") is None:
        pytest.skip("needs TensorFlow, which is not installed (extra golden-tf)")
    (tmp_path / "sitecustomize.py").write_text(_SITE.format(missing=modules_not_installed(extras)))
    (tmp_path / "empty").mkdir()
    for command, shown in commands_of(text):
        done = run_outside(
            *shlex.split(command), "--lang", language, cwd=tmp_path / "empty", env={"PYTHONPATH": str(tmp_path)}
        )
        assert done.code == 0, f"{command}\n{done.err}"
        pattern = re.escape(shown).replace("…", ".*") or ".*"
        assert re.fullmatch(pattern, done.out, re.DOTALL), f"{command}\n{done.out}"


def test_every_case_has_a_directory_of_its_own() -> None:
    """So that a reader can follow the page from top to bottom in one folder."""
    made = re.findall(r"^\$ opdiff demo (\S+) --", TUTORIALS["en"].read_text(), re.MULTILINE)
    assert len(made) == len(set(made)) == len(cases_of(TUTORIALS["en"]))


@pytest.mark.parametrize("pages", TRANSLATIONS, ids=lambda pages: name_of(pages[0]))
def test_a_translated_page_has_the_same_code(pages: tuple[Path, Path]) -> None:
    """Comments and what commands print are in the language of the page."""
    blocks = [[block for kind, block in FENCE.findall(page.read_text()) if kind != "console"] for page in pages]
    code = [[_COMMENT.sub("", block) for block in found] for found in blocks]
    commands = [[command for command, _ in commands_of(page.read_text())] for page in pages]
    assert (code[0], commands[0]) == (code[1], commands[1])
    assert [found[0] for block in blocks[1] for found in _COMMENT.finditer(block) if found[0].isascii()] == []

"""The documents are correct: commands run, links exist, every command and every option is documented."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from command_line import run
from doc_pages import FENCE, PAGES, ROOT, TUTORIALS, name_of
from markdown_tables import tables_of
from opdiff.cli.parsers import COMMANDS, CommandParser, command_parser
from opdiff.sample import FAULTS, write_sample

if TYPE_CHECKING:
    from pathlib import Path

_EXIT = re.compile(r"#\s*exits with (\d+)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
# Options under the names of the vendor's documents, and pages that have them.
_VENDOR_OPTION = re.compile(r" -(?:fr?|cfr?|qfr|tp|gp|out|alg|op|ml|d) |--data_mode|--(?:target|golden|output)_path")
_VENDOR_PAGES = {"CHANGELOG.md", "compat-path.md", "differences.md", "msprobe.md"}
# Syntax that needs a shell.
_SHELL = set("|<>;&$*?~`")


def commands_of(page: Path) -> list[tuple[str, int]]:
    """Return the commands of a page and their exit codes; a backslash at the end continues a line."""
    found = []
    for language, block in FENCE.findall(page.read_text()):
        if language != "console":
            continue
        lines = block.replace("\\\n", " ").splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            command = line.strip()
            if command.startswith(("$ opdiff", "$ msprobe")):
                code = _EXIT.search(command) or _EXIT.match(following.strip())
                found.append((command.removeprefix("$ ").partition(" #")[0].strip(), int(code[1]) if code else 0))
    return found


def prose_of(page: Path) -> str:
    """Return a page without its code."""
    return FENCE.sub("", page.read_text())


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts generate them."""
    headings = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(prose_of(page)))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def parsers() -> dict[str, CommandParser]:
    return {name: command_parser(name) for name in COMMANDS}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    write_sample(str(folder / "opdiff-demo"))
    return folder


def run_shell(command: str, folder: Path) -> tuple[int, str]:
    """Run a command that needs a shell, with our `opdiff` before any other."""
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands_of(page) and page not in TUTORIALS.values()], ids=name_of
)
def test_commands_run(
    page: Path,
    sample: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In order, in a folder with the sample; in an empty one if the page begins with writing a sample."""
    if not commands_of(page)[0][0].startswith("opdiff demo"):
        shutil.copytree(sample, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for command, code in commands_of(page):
        if _SHELL & set(command):
            outcome = run_shell(command, tmp_path)
        else:
            done = run(capsys, *shlex.split(command)[1:])
            outcome = done.code, done.err
        assert outcome[0] == code, f"{command}\n{outcome[1]}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_exist(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_table_rows_have_a_cell_for_each_heading(page: Path) -> None:
    assert [row for table in tables_of(page.read_text()) for row in table.rows if len(row) != len(table.headings)] == []


def test_the_readme_is_short_and_names_the_oldest_python() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) < 600
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    for name in ("README.md", "docs/install.md"):
        assert f"Python {oldest} or newer" in (ROOT / name).read_text()


def test_every_extra_is_on_the_page_about_installing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (table,) = tables_of((ROOT / "docs" / "install.md").read_text())
    assert sorted(row[0].strip("`") for row in table.rows) == sorted(extras)


def test_the_readme_shows_the_result_of_the_sample(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is without ONNX Runtime, which `make demo` does not install."""
    (shown,) = (block for language, block in FENCE.findall((ROOT / "README.md").read_text()) if language == "text")
    sides = [sample / "opdiff-demo" / side for side in ("npu", "golden")]
    rules = sample / "opdiff-demo" / "rules" / "network.json"
    done = run(capsys, "compare", *sides, "--rules", rules, "--replay", "none", "-o", tmp_path)
    assert shown in done.out


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_opdiff_is_not_installed_from_an_index(page: Path) -> None:
    """It is on none yet. An extra is added to what is installed, and a local folder may have a wheel."""
    commands = re.findall(r"pip install [^`#\n]*", page.read_text())
    assert [line for line in commands if re.search(r"\bopdiff(?![\[\w.-])", line) and "--no-index" not in line] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_have_the_long_names_of_options(page: Path) -> None:
    """The vendor's have a page of their own."""
    if page.name in _VENDOR_PAGES:
        return
    lines = [line for _, block in FENCE.findall(page.read_text()) for line in block.splitlines()]
    commands = [*lines, *re.findall(r"`([^`\n]*)`", prose_of(page))]
    assert [line for line in commands if "opdiff " in line and _VENDOR_OPTION.search(line)] == []


@pytest.mark.parametrize("command", parsers())
def test_every_option_is_in_the_page_of_its_command(command: str) -> None:
    text = (ROOT / "docs" / "commands" / f"{command}.md").read_text()
    missing = [
        option
        for action in parsers()[command].actions
        for option in action.option_strings
        if option not in ("-h", "--help") and not re.search(rf"`{re.escape(option)}[`\s]", text)
    ]
    assert missing == []


@pytest.mark.parametrize("command", ["compare", "convert", "overflow"])
def test_every_option_of_the_vendor_is_taken(command: str) -> None:
    page = (ROOT / "docs" / "msprobe.md").read_text()
    (section,) = re.findall(rf"^## {command}\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    options = {
        word.replace("_", "-") if word.startswith("--") else word
        for table in tables_of(section)
        for row in table.rows
        for code in re.findall("`([^`]*)`", " ".join(row))
        for word in code.split()
        if word.startswith("-")
    }
    known = {option for action in parsers()[command].actions for option in action.option_strings}
    assert len(options) > 4
    # `opdiff op` has one of its own.
    assert options - known == set()


def test_every_command_page_has_a_command() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "commands").glob("*.md")} - {"README"}
    assert pages == set(parsers())


def test_every_choice_is_in_the_page() -> None:
    text = (ROOT / "docs" / "commands" / "convert.md").read_text()
    (form,) = (action for action in parsers()["convert"].actions if action.dest == "form")
    assert form.choices is not None
    assert [choice for choice in form.choices if f"| `{choice}` |" not in text] == []


def test_every_check_is_documented() -> None:
    source = (ROOT / "src" / "opdiff" / "workflows" / "inspect" / "checks.py").read_text()
    codes = set(re.findall(r"Severity\.[A-Z]+, \"([a-z-]+)\"", source)) | {"no-inputs", "no-outputs"}
    assert len(codes) > 10
    explained = set(re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|note) \|", page_of("inspect"), re.MULTILINE))
    assert explained == codes


def test_every_injected_fault_is_documented() -> None:
    text = page_of("demo")
    assert [fault.operator for fault in FAULTS.values() if f"`{fault.operator}`" not in text] == []


def page_of(command: str) -> str:
    return (ROOT / "docs" / "commands" / f"{command}.md").read_text()


# Detection of errors in pages


def test_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ opdiff a\noutput\n$ msprobe b  # exits with 3\n$ opdiff c \\\n    d\n# exits with 1\n$ ls\n```\n"
        "```sh\n$ opdiff e\n```\n"
    )
    assert commands_of(page) == [("opdiff a", 0), ("msprobe b", 3), ("opdiff c      d", 1)]


@pytest.mark.parametrize(
    ("link", "found"),
    [("other.md", True), ("nothing.md", False), ("other.md#a-part", True), ("other.md#no-part", False), ("#own", True)],
)
def test_broken_links_are_found(tmp_path: Path, link: str, found: bool) -> None:
    (tmp_path / "other.md").write_text("# Title\n## A `part`\n")
    (tmp_path / "page.md").write_text(f"# Own\n[x]({link})\n```\n[no](link.md)\n```\n")
    if found:
        test_links_exist(tmp_path / "page.md")
    else:
        with pytest.raises(AssertionError):
            test_links_exist(tmp_path / "page.md")

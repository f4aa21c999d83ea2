"""Rules of the architecture: imports between parts, file sizes, and imports at start-up."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "opdiff"
# Folders that are not stages.
CORE, WORKFLOWS, FRONT_ENDS = "core", "workflows", {"cli", "api"}
ASIDE = {"sample", "testing", "compat"}
STAGES = {
    folder.name
    for folder in PACKAGE.iterdir()
    if (folder / "__init__.py").exists() and folder.name not in {CORE, WORKFLOWS, *FRONT_ENDS, *ASIDE}
}
MODULES = sorted(PACKAGE.rglob("*.py"))
# A dumped tensor converts itself to another layout, as users of the Python API expect.
EXCEPTIONS = {"core/dump.py": {"align"}}


# Modules that may read the codes of reasons, and what for. Stages talk by fields: `Row.status`, `is_own_input`, ….
READERS_OF_CODES = {
    "core/reasons.py": "renders sentences",
    "report/page_text.py": "renders sentences",
    "report/saved_json.py": "saved form, and fields that earlier versions did not save",
    "report/packed_columns.py": "saved form",
    "report/answer_json.py": "answer for programs",
    "report/graph_summary.py": "summary in JSON: code of each group of reasons",
    "report/summary_text.py": "groups of equal sentences; sentences that the table of findings replaces",
    "report/row_summary.py": "groups of equal sentences",
    "report/payload.py": "sentences that the headline and the findings replace",
    "workflows/compare/environments.py": "place of its sentences in the advice",
    "workflows/golden/pipeline.py": "manifest of golden data",
    "cli/cmd_golden.py": "answer of golden; groups of equal sentences",
    "cli/cmd_inspect.py": "codes of checks, not of reasons",
}


def allowed(part: str) -> set[str]:
    """Return the parts that a part may import besides itself; the package with its version is the empty part."""
    if part in STAGES | {"sample"}:
        return {CORE}
    if part == "testing":
        return {CORE, *STAGES}
    if part in {WORKFLOWS, "compat"}:
        return {CORE, WORKFLOWS, "", *STAGES}
    if part in FRONT_ENDS:  # they call workflows, and show comparisons by reports
        return {CORE, WORKFLOWS, "report", "sample", ""}
    return {"": {"api"}, "__main__": {"cli"}}.get(part, set())


def part_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    # The native module has no folder of its own and belongs to `core`.
    names = {name.split(".")[1].replace("_native", CORE) for name in found if name.startswith("opdiff.")}
    return {name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists() else "" for name in names}


def test_the_stages_are_folders_of_the_tree() -> None:
    assert {"read", "pair", "align", "measure", "judge", "report", "run"} == STAGES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_sideways(path: Path) -> None:
    part = part_of(path)
    exceptions = EXCEPTIONS.get(str(path.relative_to(PACKAGE)), set())
    assert imported_parts(path) - {part} <= allowed(part) | exceptions


def reads_codes(path: Path) -> bool:
    nodes = ast.walk(ast.parse(path.read_text()))
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "code")
        or (isinstance(node, ast.Name) and node.id == "kind_of")
        for node in nodes
    )


def test_stages_do_not_talk_by_codes_of_reasons() -> None:
    assert {str(path.relative_to(PACKAGE)) for path in MODULES if reads_codes(path)} == READERS_OF_CODES.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import opdiff.cli", {"numpy", "rich"}),
        ("from opdiff.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", {"numpy", "rich"}),
        ("from opdiff.cli import main\nmain(['inspect', 'nothing'])", {"numpy"}),
        (
            "import opdiff.cli.cmd_compare, opdiff.workflows.compare.pipeline",
            {"numpy", "rich", "hashlib", "dataclasses", "concurrent.futures", "distributed"},
        ),
    ],
)
def test_start_up_imports_no_heavy_library(statement: str, unwanted: set[str]) -> None:
    code = f"import sys\n{statement}\nprint('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(done.stdout.rpartition("loaded:")[2].split()) & unwanted


def test_places_in_the_architecture_exist() -> None:
    page = (PACKAGE.parent.parent / "ARCHITECTURE.md").read_text()
    section = page.split("## Where things are")[1].split("\n## ")[0]
    paths = re.findall(r"`([\w/]+\.py)`", section)
    assert len(paths) > 20
    assert [path for path in paths if not (PACKAGE / path).is_file()] == []

"""The tree is the architecture: who may import whom, and what must stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from opdiff.sample import write_sample

PACKAGE = Path(__file__).parent.parent / "src" / "opdiff"
GROUND = {
    "_native", "comparison", "dtypes", "elements", "errors", "files", "floats", "graphmode", "layouts", "model",
    "places", "registry", "scripts", "sentences", "source", "texts", "twins", "values",
}  # fmt: skip
STAGES = {"align", "judge", "measure", "pair", "read", "report", "run", "write"}
# The ways through the stages: only these know their order.
WAYS = {
    "api", "batching", "channels", "convert", "detective", "doctor", "graph_api", "graph_matching", "graph_measuring",
    "graph_reporting", "graph_writing", "inspection", "measuring", "overflowing", "pipeline", "reduce", "reporting",
    "selftest", "sides", "single", "torchair",
}  # fmt: skip
ALLOWED = {
    **dict.fromkeys(GROUND, GROUND),
    **{stage: GROUND | {stage} for stage in STAGES},
    **dict.fromkeys(WAYS, GROUND | STAGES | WAYS | {""}),
    "sample": GROUND | {"sample"},
    "testing": GROUND | STAGES | {"testing"},
    "cli": GROUND | STAGES | WAYS | {"cli", "sample", ""},
    "compat": GROUND | STAGES | WAYS,
    "__main__": {"cli"},
    "": {"", "api", "graph_api", "values"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """The part of the package that a dotted name belongs to; the package itself is the empty one."""
    return module.split(".")[1] if "." in module else ""


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "opdiff" else set()
            found |= names or {node.module or ""}
    return {part_of(name) for name in found if name == "opdiff" or name.startswith("opdiff.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_imported_sideways(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    own = "" if own == "__init__" else own
    found = {name if name in ALLOWED else "" for name in imports(path)}
    assert found <= ALLOWED[own]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_typing_is_imported_for_annotations_only(path: Path) -> None:
    # What classes are made of comes from `opdiff.values`, which does not import it.
    tree = ast.parse(path.read_text())
    for_checkers = {id(node) for found in ast.walk(tree) if _is_for_checkers(found) for node in ast.walk(found)}
    runtime = [node for node in ast.walk(tree) if id(node) not in for_checkers]
    assert not [node for node in runtime if isinstance(node, ast.ImportFrom) and node.module == "typing"]
    assert not [node for node in runtime if isinstance(node, ast.Import) and node.names[0].name == "typing"]
    names = [name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "typing"
             for name in node.names]  # fmt: skip
    assert path.name == "values.py" or "NamedTuple" not in names


def _is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import opdiff.cli", {"numpy", "rich", "zipfile", "multiprocessing"}),
        ("import opdiff.read.folder", {"numpy", "rich", "zipfile"}),
        ("import opdiff.sample", {"numpy"}),
        ("from opdiff.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", {"numpy", "rich"}),
        ("from opdiff.cli import main\nmain(['inspect', 'nothing'])", {"numpy", "rich"}),
    ],
)
def test_what_is_light_stays_light(statement: str, unwanted: set[str]) -> None:
    assert not loaded_by(statement) & unwanted


def loaded_by(statement: str, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


# Everything of a comparison but the measuring: no job gets to its worker.
WITHOUT_MEASURING = """
from opdiff import pipeline
from opdiff.cli import main
pipeline.run = lambda work, jobs, workers: ((job, work.on_death(job)) for job in jobs)
main(sys.argv[1:])
"""
SLOW_TO_IMPORT = {
    "argparse", "concurrent.futures", "dataclasses", "datetime", "difflib", "hashlib", "importlib.metadata",
    "inspect", "logging", "multiprocessing", "numpy", "rich", "shutil", "tempfile", "threading", "tomllib", "typing",
    "zipfile",
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["-map"]], ids=["compare", "mapping"])
def test_a_comparison_imports_nothing_that_is_slow(tmp_path: Path, options: list[str]) -> None:
    sample = write_sample(str(tmp_path / "sample"))
    sides = [sample.target, sample.golden, "--rules", sample.rules, "-o", str(tmp_path)]
    loaded = loaded_by(WITHOUT_MEASURING, "compare", *sides, *options)
    assert "opdiff.report.as_csv" in loaded
    assert not loaded & SLOW_TO_IMPORT


# What is about faults, graph mode, or reports that nobody asked for.
NOT_FOR_EVERYONE = {
    "opdiff.api", "opdiff.cli.parsers", "opdiff.detective", "opdiff.graphmode", "opdiff.judge.causes",
    "opdiff.judge.remedies", "opdiff.judge.steps", "opdiff.judge.torchair", "opdiff.measure.custom",
    "opdiff.measure.native_slices", "opdiff.measure.slices", "opdiff.report.as_junit", "opdiff.report.as_workbook",
    "opdiff.report.changes", "opdiff.sentences", "opdiff.torchair",
}  # fmt: skip


def test_a_comparison_without_faults_imports_only_what_it_needs(tmp_path: Path) -> None:
    sample = write_sample(str(tmp_path / "sample"))
    loaded = loaded_by(
        "from opdiff.cli import main\nmain(sys.argv[1:])", "compare", sample.target, sample.target, "-o", str(tmp_path)
    )
    assert "opdiff.report.as_html" in loaded
    assert not loaded & NOT_FOR_EVERYONE

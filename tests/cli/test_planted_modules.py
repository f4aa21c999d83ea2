"""Files that are named like modules: no command runs them, in its own process or in one that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from typing import TYPE_CHECKING

import pytest

from command_line import COMMAND
from dump_files import TIME, add, numbered
from model_files import ModelDef, om_file
from onnx_models import model, node, write
from opdiff.cli import main
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.parsers import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

# Enough small files that several processes convert or compare them.
FILES_FOR_PROCESSES = 210
SIDES = ("{demo}/npu", "{demo}/golden", "--rules", "{demo}/rules/network.json")
ARGUMENTS = {
    "compare": (*SIDES, "-o", "{out}", "--json", "-"),
    "stages": ("{demo}/golden", "{demo}/npu", "--rules", "{demo}/rules/network.json", "-o", "{out}"),
    "golden": ("{net}", "--random", "1", "-o", "{out}/golden"),
    "bundle": ("context/pool", *SIDES, "-o", "{out}/op.zip"),
    "replay": ("{demo}/npu", "--model", "{net}", *SIDES[2:]),
    "topn": ("{demo}/npu", "{demo}/golden", "--operator", "head/softmax"),
    "rules": ("{model}", "-o", "{out}/rules.json"),
    "report": ("{saved}", "-o", "{out}/report.html"),
    "diff": ("{saved}", "{saved}"),
    "op": ("context/pool:output:0", *SIDES),
    "overflow": ("{demo}/npu",),
    "selftest": (*SIDES, "--tensors", "1", "--faults", "scale"),
    "judge": ("{saved}",),
    "limits": (),
    "inspect": ("{demo}/npu", "--stats"),
    "convert": ("{many}", "-out", "{out}/converted", "-t", "npz", "-j", "2"),
    "reduce": ("{many}", "--keep"),
    "compat-path": (),
    "demo": ("{out}/demo",),
    "completion": ("bash",),
}
# Ways to start processes, by the words of the command: forked workers, and interpreters that dask starts.
STARTING_PROCESSES = {
    "workers of compare": ("compare", *SIDES, "-o", "{out}", "-c", "{custom}", "-j", "2"),
    "workers of convert": ("convert", *ARGUMENTS["convert"]),
    "cluster of compare": ("compare", *SIDES, "-o", "{out}", "--cluster", "local:1"),
    "cluster of convert": ("convert", "{demo}/npu", "-out", "{out}/converted", "--cluster", "local:1"),
    "cluster of inspect": ("inspect", "{demo}/npu", "--stats", "--cluster", "local:1"),
    "cluster of reduce": ("reduce", "{many}", "--keep", "--cluster", "local:1"),
    "cluster of replay": ("replay", *ARGUMENTS["replay"], "--cluster", "local:1"),
}

# The installed program: its folder is the first in the module path.
PROGRAM = """
import sys
from opdiff.__main__ import program
if __name__ == "__main__":
    sys.exit(program())
"""
METRIC = """
def compare(my, golden, args):
    return "1", ""
"""


def modules_of(statement: str) -> set[str]:
    """Return the modules that an isolated interpreter has after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


class Sample:
    """Inputs of all commands in a folder, and folders with planted modules that leave their names in a file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.marks = root / "marks"
        self.program = add(root / "bin", "program", PROGRAM.encode())
        assert main(["demo", str(root / "demo"), "-q"]) == 0
        for number in range(FILES_FOR_PROCESSES):
            add(root / "many", f"Add.a{number}.1.2.{TIME + number}", numbered(2))
        add(root / "many", "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt", b"")
        write(root / "net.onnx", model([node("Neg", "x", "y", "neg")]))
        description = ModelDef(name="m", graph=[{"name": "g", "op": [{"name": "a", "type": "Data"}]}])
        add(root, "model.om", om_file(description.SerializeToString()))
        add(root / "custom/algorithm", "alg_One.py", METRIC.encode())
        (saved,) = (root / "demo/result").glob("*.json")
        names = {name: root / name for name in ("demo", "many", "custom")}
        self.paths = {**names, "saved": saved, "net": root / "net.onnx", "model": root / "model.om"}

    def plant(self, folder: Path, names: Iterable[str]) -> Path:
        """Write a file for each module, and return the folder."""
        for name in names:
            add(folder, f"{name}.py", f"open({str(self.marks)!r}, 'a').write({name!r} + ' ')\n".encode())
        return folder

    def ran(self) -> str:
        """Return the names of the modules that ran, and forget them."""
        names = self.marks.read_text() if self.marks.exists() else ""
        self.marks.unlink(missing_ok=True)
        return names

    def run(self, words: Iterable[str], here: Path, out: Path, program: Sequence[str] = (), **env: str) -> None:
        """Run a command in a folder, and check that no planted module ran."""
        program = program or (sys.executable, str(self.program))
        arguments = [word.format(out=out, **self.paths) for word in words]
        done = subprocess.run(
            [*program, *arguments, "-q"],
            cwd=here,
            env=os.environ | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert self.ran() == ""
        # The model is not that of the sample, so that no operator can be replayed.
        expected = ExitCode.UNUSABLE_INPUT if "replay" in arguments else ExitCode.OK
        assert done.returncode == expected, done.stderr


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return Sample(tmp_path_factory.mktemp("planted"))


def importable_modules() -> set[str]:
    """Return the names of all modules that an interpreter may import, those of other packages included."""
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}
    return {name for name in names if name.isidentifier()}


@pytest.fixture(scope="module")
def here(sample: Sample) -> Path:
    """A current folder with a file for every module, and the same files beside the dumps."""
    names = importable_modules()
    for folder in ("demo/npu", "demo/golden", "many"):
        sample.plant(sample.root / folder, names)
    return sample.plant(sample.root / "here", names)


CASES = {name: (name, *words) for name, words in ARGUMENTS.items()} | STARTING_PROCESSES


def test_every_command_has_a_case() -> None:
    assert {*ARGUMENTS} == {*COMMANDS}


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_no_command_runs_a_file_of_the_current_folder(
    sample: Sample, here: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    sample.run(words, here, tmp_path)


def test_nothing_is_imported_before_the_path_is_cleaned() -> None:
    assert modules_of("import opdiff") - modules_of("pass") == {"opdiff"}


@pytest.mark.parametrize("name", ["compare", "workers of convert", "cluster of inspect"])
def test_python_m_runs_no_file_of_the_current_folder(sample: Sample, tmp_path: Path, name: str) -> None:
    # Python itself imports these before it runs opdiff.
    names = importable_modules() - modules_of("import runpy, opdiff")
    sample.run(CASES[name], sample.plant(tmp_path / "here", names), tmp_path, COMMAND)


@pytest.mark.parametrize("name", ["compare", "workers of convert", "cluster of inspect"])
def test_empty_entries_of_pythonpath_are_left_out(sample: Sample, tmp_path: Path, name: str) -> None:
    # Python itself imports these before it runs opdiff.
    names = importable_modules() - modules_of("pass") - {"opdiff", "sitecustomize", "usercustomize"}
    sample.run(CASES[name], sample.plant(tmp_path / "here", names), tmp_path, PYTHONPATH="/nothing:")


def test_workers_of_a_cluster_have_a_private_folder(sample: Sample, here: Path, tmp_path: Path) -> None:
    """Dask would look for modules in a folder of a fixed name for temporary files, which others may have made."""
    sample.plant(tmp_path / "dask-scratch-space", importable_modules())
    sample.run(STARTING_PROCESSES["cluster of inspect"], here, tmp_path, TMPDIR=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["dask-scratch-space"]


def test_a_program_that_uses_a_cluster(sample: Sample, here: Path, tmp_path: Path) -> None:
    sides = [str(sample.root / "demo" / side) for side in ("npu", "golden")]
    options = 'options=opdiff.CompareOptions(cluster="local:1")'
    program = f"""
import opdiff, os
if __name__ == "__main__":
    print(len(opdiff.compare(*{sides!r}, rules={str(sample.root / "demo/rules/network.json")!r}, {options}).rows))
    assert "PYTHONSAFEPATH" not in os.environ
"""
    sample.run((), here, tmp_path, (sys.executable, str(add(tmp_path, "program", program.encode()))))

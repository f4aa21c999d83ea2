"""Files in the current folder that are named like modules: no command runs them, in its own process or in a worker."""

from __future__ import annotations

import subprocess
import sys
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
    from pathlib import Path

# Enough small files that several processes convert them.
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


def modules_of(statement: str) -> set[str]:
    """Return the modules that an isolated interpreter has after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("planted")
    assert main(["demo", str(root / "demo"), "-q"]) == 0
    for number in range(FILES_FOR_PROCESSES):
        add(root / "many", f"Add.a{number}.1.2.{TIME + number}", numbered(2))
    write(root / "net.onnx", model([node("Neg", "x", "y", "neg")]))
    description = ModelDef(name="m", graph=[{"name": "g", "op": [{"name": "a", "type": "Data"}]}])
    add(root, "model.om", om_file(description.SerializeToString()))
    (saved,) = (root / "demo" / "result").glob("*.json")
    # `python -m` imports these from the current folder before `opdiff.__main__` runs.
    planted = sys.stdlib_module_names | {"numpy", "rich", "msgspec"}
    for name in planted - modules_of("import runpy, opdiff"):
        add(root / "here", f"{name}.py", f"open({str(root / 'marks')!r}, 'a').write({name!r})\n".encode())
    files = {"net": root / "net.onnx", "model": root / "model.om", "saved": saved}
    return {**files, "root": root, "demo": root / "demo", "many": root / "many", "here": root / "here"}


def test_nothing_is_imported_before_the_path_is_cleaned() -> None:
    assert modules_of("import opdiff") - modules_of("pass") == {"opdiff"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_a_file_of_the_current_folder(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    arguments = [argument.format(out=tmp_path, **folders) for argument in ARGUMENTS[name]]
    done = subprocess.run(
        [*COMMAND, name, *arguments, "-q"], cwd=folders["here"], capture_output=True, text=True, check=False, timeout=60
    )
    # The model is not that of the sample, so that no operator can be replayed.
    expected = ExitCode.UNUSABLE_INPUT if name == "replay" else ExitCode.OK
    assert done.returncode == expected, done.stderr
    assert not (folders["root"] / "marks").exists(), (folders["root"] / "marks").read_text()

"""The documented conversion script runs unchanged, with `opdiff compat-path` on the import path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import Outcome
from documented_script import make_environment, write_script
from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from command_line import Command


def compat_path(opdiff: Command) -> str:
    outcome = opdiff("compat-path")
    assert outcome.code == 0
    return outcome.out.strip()


def convert(script: Path, folder: str, path: str) -> None:
    """Run the script until all files are converted, then interrupt it."""
    command = [sys.executable, "-u", str(script), folder]
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("Waiting") for line in process.stdout)
        process.send_signal(signal.SIGTERM)


def test_the_script_runs_and_its_files_are_compared(tmp_path: Path, opdiff: Command) -> None:
    script = write_script(tmp_path)
    sample = write_graph_sample(str(tmp_path / "dumps"), ranks=1)
    path = compat_path(opdiff)
    for folder in (sample.target, sample.golden):
        convert(script, folder, path)
        left = [name for _, _, names in os.walk(folder) for name in names if not name.endswith(".txt")]
        assert left
        assert all("_min_max.np" in name for name in left)
    outcome = opdiff("compare", sample.target, sample.golden, "-o", tmp_path / "o")
    assert outcome.code == 0, outcome
    assert "first bad operator: MatMul_1 (MatMul_1.output.0)" in outcome.out


def test_modules_are_not_on_the_normal_import_path() -> None:
    done = subprocess.run([sys.executable, "-c", "import components"], capture_output=True, text=True, check=False)
    assert "No module named 'components'" in done.stderr


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return make_environment(tmp_path)


def outcome_of(*command: object) -> Outcome:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


IMPORT = "from components.utils.acc_cmp import parse_torchair_dump_data as f; print(f.__module__)"


def test_install_makes_the_import_work_and_uninstall_undoes_it(python: Path) -> None:
    def run(option: str) -> Outcome:
        return outcome_of(python, "-m", "opdiff", "compat-path", option)

    assert "No module named 'components'" in outcome_of(python, "-c", IMPORT).err
    assert run("--uninstall") == Outcome(0, "it is not installed in this environment\n", "")
    for _ in range(2):
        (line,) = run("--install").out.splitlines()
        path = Path(line.removeprefix("wrote ").partition(": ")[0])
        assert line.endswith(f": convert.py now runs with {python}")
        assert outcome_of(python, "-c", IMPORT) == Outcome(0, "components.utils.acc_cmp\n", "")
    assert (path.name, path.parent.name) == ("opdiff-compat.pth", "site-packages")
    assert run("--uninstall") == Outcome(0, f"removed {path}\n", "")
    assert not path.exists()


@pytest.mark.parametrize("files", [("__init__.py",), ("x.py",)], ids=["package", "namespace"])
def test_another_package_of_this_name_is_left_alone(python: Path, files: tuple[str, ...]) -> None:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    (packages / "components").mkdir()
    for name in files:
        (packages / "components" / name).write_text("")
    done = outcome_of(python, "-m", "opdiff", "compat-path", "--install")
    assert done.code == 3
    assert f"{packages / 'components'}: a package components is installed here" in done.err
    assert not (packages / "opdiff-compat.pth").exists()


@pytest.mark.parametrize("option", ["--install", "--uninstall"])
def test_an_environment_that_cannot_be_written_to(
    tmp_path: Path, opdiff: Command, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(folder))
    done = opdiff("compat-path", option)
    assert done.code == 3
    told = (
        f"{folder}/opdiff-compat.pth: cannot be changed: Not a directory. Use a virtual environment of your own, or run"
    )
    assert told in done.err
    assert done.err.strip().endswith(f"PYTHONPATH={compat_path(opdiff)}")


def test_arrays_have_no_padding(tmp_path: Path, opdiff: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(compat_path(opdiff))
    from components.utils.acc_cmp import parse_torchair_dump_data  # type: ignore[import-not-found]

    values = np.array([[1, 2.5], [-3, 8]], np.float32)
    tensors = [encode_tensor(values, dtypes.BFLOAT16), encode_tensor(values, dtypes.FLOAT16, "FRACTAL_NZ")]
    path = tmp_path / "Add.Add.1.6.1706596911000001"
    path.write_bytes(standard_dump(EncodedDump((tensors[0],), (tensors[1],))))
    (first,), (second,) = parse_torchair_dump_data(path)
    np.testing.assert_array_equal(first, values)
    np.testing.assert_array_equal(second, values)
    np.savez(f"{path}_min_max.npz", inputs=[[1, 2]], outputs=[])
    inputs, outputs = parse_torchair_dump_data(f"{path}_min_max.npz")
    assert ([list(line) for line in inputs], list(outputs)) == ([[1, 2]], [])
    path.write_bytes(b"")
    with pytest.raises(DumpError, match="the file is empty"):
        parse_torchair_dump_data(path)

"""Checks of the distributions in dist/: `make test-wheels` builds them and runs this file."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from opdiff import __version__

ROOT = Path(__file__).parents[2]
NATIVE_FILES = {"opdiff/_native.abi3.so", "opdiff/measure/kernel/_kernel.so"}


def find_wheel(machine: str) -> Path:
    tags = f"cp311-abi3-manylinux2014_{machine}.manylinux_2_17_{machine}"
    return ROOT / "dist" / f"opdiff-{__version__}-{tags}.whl"


def tracked_files(*folders: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607  the one on the path
    return set(done.stdout.split())


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_wheel_contains_the_package_and_native_code(machine: str) -> None:
    with zipfile.ZipFile(find_wheel(machine)) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("opdiff/") and not name.endswith("/")}
    package = {name.removeprefix("src/") for name in tracked_files("src")}
    assert names == package | NATIVE_FILES


def test_the_source_distribution_contains_every_tracked_file_but_hidden_ones() -> None:
    top = f"opdiff-{__version__}"
    with tarfile.open(ROOT / "dist" / f"{top}.tar.gz") as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert names - {"PKG-INFO", ".gitignore"} == {name for name in tracked_files() if not name.startswith(".")}


class Installation:
    """A fresh virtual environment with a wheel in it, and a folder outside of the checkout to work in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.run("python", "-m", "pip", "install", "--quiet", str(wheel))

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Return what a program of the environment prints, without the variables that lead to other packages."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OPDIFF"))}
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env=variables,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    @property
    def saved(self) -> Path:
        """The saved comparison of the demo."""
        (path,) = (self.folder / "opdiff-demo" / "result").glob("*.json")
        return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    installation = Installation(tmp_path_factory.mktemp("installed"), find_wheel(platform.machine()))
    installation.run("opdiff", "demo")
    return installation


def test_the_program_is_that_of_the_wheel(installed: Installation) -> None:
    assert installed.run("opdiff", "--version").startswith(f"opdiff {__version__} (kernel: native, ")
    path = installed.run("python", "-c", "import opdiff; print(opdiff.__file__)")
    assert path.startswith(str(installed.folder))


def test_native_code_is_used(installed: Installation) -> None:
    assert json.loads(installed.saved.read_text())["environment"]["kernel"] == "native"
    installed.run("python", "-c", "import opdiff._native")


def test_an_installed_comparison_equals_one_of_the_checkout(installed: Installation, tmp_path: Path) -> None:
    sides = ["opdiff-demo/npu", "opdiff-demo/golden", "--rules", "opdiff-demo/rules/network.json"]
    # Only the checkout has ONNX Runtime, which computes suspects again.
    compare = ["compare", *sides, "--replay", "none", "-o"]
    installed.run("msprobe", *compare, "result")
    program = Path(sys.executable).with_name("msprobe")
    subprocess.run([program, *compare, tmp_path], cwd=installed.folder, check=True, capture_output=True)
    (found,) = (installed.folder / "result").glob("*.csv")
    (expected,) = tmp_path.glob("*.csv")
    assert found.read_text() == expected.read_text()


def test_a_missing_extra_is_named(installed: Installation) -> None:
    assert "pip install 'opdiff[xlsx]'" in installed.run("opdiff", "report", str(installed.saved), "--xlsx", code=2)


def test_the_aarch64_kernel_of_the_wheel_runs(tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs `apt-get install g++-aarch64-linux-gnu qemu-user`")
    with zipfile.ZipFile(find_wheel("aarch64")) as wheel:
        kernel = wheel.extract("opdiff/measure/kernel/_kernel.so", tmp_path)
    native, program = ROOT / "native", str(tmp_path / "selfcheck")
    source = str(native / "check" / "selfcheck.cpp")
    subprocess.run([compiler, "-std=c++17", f"-I{native}", source, kernel, "-o", program], check=True)
    command = [emulator, "-L", "/usr/aarch64-linux-gnu", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("aarch64: 0 problems\n", 0)

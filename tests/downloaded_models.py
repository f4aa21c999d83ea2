"""Models and libraries of public packages, from wheels that are downloaded once; tests are skipped without network."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent.parent / "build" / "models"
# Packages and their versions.
_PACKAGES = {
    "rapidocr-onnxruntime": "1.4.4", "silero-vad": "6.2.3", "onnxruntime-extensions": "0.15.2", "magika": "1.0.3",
}  # fmt: skip
_EXTRACTED = (".onnx", ".so")


def find_member(package: str, name: str) -> Path:
    """The path of a model or a library; skips the test if its package cannot be had."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with open(_FOLDER / f"{package}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _find(package, name)


def _find(package: str, name: str) -> Path:
    target = _FOLDER / name
    if target.exists():
        return target
    missing = _FOLDER / f"{package}.missing"
    if missing.exists():
        pytest.skip(missing.read_text())
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(_FOLDER)]
    done = subprocess.run(
        [*command, f"{package}=={_PACKAGES[package]}"], capture_output=True, text=True, check=False, timeout=120
    )
    wheels = sorted(_FOLDER.glob(f"{package.replace('-', '_')}-*.whl"))
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.namelist():
                if member.endswith(_EXTRACTED):
                    (_FOLDER / Path(member).name).write_bytes(wheel.read(member))
    if done.returncode or not target.exists():
        missing.write_text(f"the wheel of {package} cannot be had")
        pytest.skip(missing.read_text())
    return target

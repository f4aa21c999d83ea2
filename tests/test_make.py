"""`make test` says what is missing: packages that were not installed, and how many tests were skipped for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_many(number):
    pytest.skip("no browser here: `apt-get install chromium`")

def test_module():
    pytest.importorskip("no_such_module", reason="no_such_module is not installed")

def test_right():
    pass
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("program", ["nothing", "sh"], ids=["missing", "present"])
def test_users_who_are_not_root_are_told_what_is_missing(program: str, tmp_path: Path) -> None:
    """A missing package is looked for again next time; a present one is not."""
    fake = tmp_path / "bin" / "id"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 1000\n")
    fake.chmod(0o755)
    (tmp_path / "base").touch()
    stamp = tmp_path / "browser"
    words = [
        "make",
        "--no-print-directory",
        f"STAMPS={tmp_path}",
        f"BROWSERS={program}",
        "-o",
        str(tmp_path / "base"),
        str(stamp),
    ]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | {"PATH": f"{fake.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert stamp.exists() is (program == "sh")
    assert done.stdout == (
        ""
        if program == "sh"
        else "not installed: chromium; tests that need it are skipped. "
        "As root: apt-get install --no-install-recommends chromium\n"
    )


def summary_of(tests: str, folder: Path) -> str:
    """Run tests with the settings of all tests; return what `make test` prints last."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_x.py").write_text(tests)
    skipped = folder / "build" / "skipped.txt"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    subprocess.run(
        words, cwd=folder, env=os.environ | {"OPDIFF_SKIPPED": str(skipped)}, capture_output=True, check=True
    )
    return skipped.read_text()


def test_skipped_tests_are_summed_up(tmp_path: Path) -> None:
    assert summary_of(TESTS, tmp_path) == (
        "skipped: 3 tests: no browser here: `apt-get install chromium`\n"
        "skipped: 1 test: no_such_module is not installed\n"
    )


def test_a_run_without_skipped_tests_says_so(tmp_path: Path) -> None:
    assert summary_of("def test_right():\n    pass\n", tmp_path) == "skipped: no test\n"

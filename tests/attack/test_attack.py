"""A short attack with fixed seeds; `make attack` runs a long one with random seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attack.flips import KINDS, run_kind, violations
from attack.results import changed_rows, keyed
from opdiff.core.comparison import Row
from opdiff.core.pairing import OpLabel

TRIALS = 40
FLIPS = 60


def test_mutated_runs_end_as_documented(tmp_path: Path) -> None:
    # In a process of its own, because it forks.
    command = [sys.executable, "-m", "attack.run", "--seed", "0", "--trials", str(TRIALS)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"{TRIALS} trials from seed 0, 0 findings\n"), done.stderr


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.is_held])
def test_a_flipped_bit_of_a_description_is_never_silent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flips = run_kind(KINDS[name], tmp_path / "run", FLIPS)
    assert len(flips) == FLIPS
    assert violations(KINDS[name], flips) == []


def test_a_new_row_of_a_whole_operator_hides_no_other() -> None:
    before = [Row(OpLabel(1, 1, "Data", name, name)) for name in ("images", "mask")]
    after = [*before, Row(OpLabel(3, 3, "Conv2D", "renamed", "*"), timestamp=1)]
    assert changed_rows(keyed(before), keyed(after), touched=set()) == ""
    assert "mask" in changed_rows(keyed(before), keyed(after[:1]), touched=set())

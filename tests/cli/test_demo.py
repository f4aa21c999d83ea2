"""`opdiff demo`: a sample, and its comparison."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from command_line import Capture, run
from opdiff.sample import FAULTS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_sample_is_made_and_compared(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(capsys, "demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(os.listdir(tmp_path / "opdiff-demo")) == ["golden", "npu", "result", "rules", "sample.json"]
    assert f"Sample written to {tmp_path}/opdiff-demo:\n" in outcome.out
    assert "opdiff-demo/golden: golden tensors\n" in outcome.out
    lines = outcome.out.splitlines()
    table = [re.split(r" {2,}", line.strip()) for line in lines[lines.index("Compared: 59 of 59 operators.") + 2 :][:3]]
    assert table == [
        ["1 context/pool (MaxPoolV3)", "permuted", "99%"],
        ["2 local · conv1 + conv1_relu (Conv2D)", "scale", "1%"],
        ["3 gate/conv (Conv2D)", "overflow", "0%"],
    ]
    for fault in FAULTS.values():
        assert f"\n  {fault.operator}: {fault.description}\n" in outcome.out


def test_proposed_commands_work(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    first, second = run(capsys, "demo", "my sample").out.splitlines()[-2:]
    for proposal in (first.removeprefix("Try:"), second):
        program, *arguments = shlex.split(proposal)
        assert program == "opdiff"
        assert run(capsys, *arguments).code == 0
    assert len(list(tmp_path.glob("result_*.csv"))) == 1


def test_a_second_sample_replaces_the_first_and_no_other_files(tmp_path: Path, capsys: Capture) -> None:
    assert [run(capsys, "demo", tmp_path / "s").code for _ in range(2)] == [0, 0]
    (tmp_path / "precious").write_bytes(b"precious")
    outcome = run(capsys, "demo", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{tmp_path} has files that do not belong to a sample" in outcome.err
    assert run(capsys, "demo", tmp_path, "--force").code == 0
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_unwritable_directory(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_bytes(b"")
    outcome = run(capsys, "demo", tmp_path / "file" / "below")
    assert outcome.code == 3
    assert "Not a directory" in outcome.err
    assert "Traceback" not in outcome.err

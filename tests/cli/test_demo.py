"""`opdiff demo`: a sample, inspected."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from command_line import run
from opdiff.sample import FAULTS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_sample_is_made_and_inspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(capsys, "demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(os.listdir(tmp_path / "opdiff-demo")) == ["golden", "npu", "rules", "sample.json"]
    assert f"A sample was written to {tmp_path}/opdiff-demo.\n" in outcome.out
    assert "opdiff-demo/golden: golden tensors\n" in outcome.out
    for fault in FAULTS.values():
        assert f"\n  {fault.operator}: {fault.what}\n" in outcome.out


def test_what_it_proposes_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    proposal = run(capsys, "demo", "my sample").out.splitlines()[-1]
    program, *arguments = shlex.split(proposal.removeprefix("Try: "))
    assert program == "opdiff"
    outcome = run(capsys, *arguments)
    assert outcome.code == 0
    assert len(os.listdir(tmp_path / "my sample" / "npy")) > 100


def test_a_second_sample_replaces_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(capsys, "demo", tmp_path / "s").code for _ in range(2)] == [0, 0]


def test_other_files_are_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    outcome = run(capsys, "demo", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{tmp_path} holds files that are not of a sample" in outcome.err
    assert run(capsys, "demo", tmp_path, "--force").code == 0
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    outcome = run(capsys, "demo", tmp_path / "file" / "below")
    assert outcome.code == 3
    assert "Not a directory" in outcome.err
    assert "Traceback" not in outcome.err

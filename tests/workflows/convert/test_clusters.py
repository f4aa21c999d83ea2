"""Conversion on a cluster: the same files as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversions import Convert
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_results_are_those_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are relative, and workers have other current folders."""
    write_sample(str(tmp_path))
    broken = min((tmp_path / "npu").glob("Conv2D.*"))
    broken.write_bytes(broken.read_bytes()[:10])
    monkeypatch.chdir(tmp_path)
    results = []
    for name, more in (("here", ()), ("there", ("--cluster", "local:2"))):
        convert = Convert(tmp_path, tmp_path / name, capsys)
        outcome = convert("npu", "--format", "ND", *more)
        assert outcome.code == 0, outcome
        results.append(convert.contents())
    here, there = results
    assert there.keys() == here.keys()
    assert len(here) > 50
    assert {name for name in here if there[name] != here[name]} <= {"convert_failed_file_list.txt"}


def test_contradictory_options(tmp_path: Path, convert: Convert) -> None:
    outcome = convert(tmp_path, "--cluster", "local:1", "-j", "2")
    assert outcome.code == 2
    assert "--jobs cannot be combined with --cluster" in outcome.err

"""Conversion on a cluster: the same files as on one machine."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cluster_processes import running_cluster
from command_line import run
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
    for name, more in (("here", ()), ("there", ("--cluster", "local:2"))):
        outcome = run(capsys, "convert", "npu", "--format", "ND", "-out", name, *more)
        assert outcome.code == 0, outcome
    here, there = (contents(tmp_path / name) for name in ("here", "there"))
    assert there.keys() == here.keys()
    assert len(here) > 50
    assert {name for name in here if there[name] != here[name]} <= {"convert_failed_file_list.txt"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_contradictory_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, "convert", tmp_path, "--cluster", "local:1", "-j", "2")
    assert outcome.code == 2
    assert "--jobs cannot be combined with --cluster" in outcome.err


def test_directory_of_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its worker alone has the files; results are written to a folder that all see."""
    write_sample(str(tmp_path))
    assert run(capsys, "convert", tmp_path / "npu", "-out", tmp_path / "here").code == 0
    home = tmp_path / "cluster"
    home.mkdir()
    with running_cluster(home, "npu-1", "npu-2") as processes:
        shutil.move(tmp_path / "npu", processes.folder_of("npu-2") / "npu")
        words = "-out", tmp_path / "there", "--cluster", processes.address
        outcome = run(capsys, "convert", "npu-2:/proc/self/cwd/npu", *words)
    assert outcome.code == 0, outcome
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    refused = run(capsys, "convert", "npu-2:/proc/self/cwd/npu", "-out", tmp_path / "there")
    assert refused.code == 2
    assert "for HOST:PATH give --cluster" in refused.err

"""Reduction on a cluster: the same files as on one machine, and no data is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import COMMAND
from opdiff.sample.graph_mode import ge_dump
from opdiff.workflows.reduce.plan import find_reducible
from opdiff.workflows.reduce.work import reduce_file
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from command_line import Command


def write_dump(folder: Path, count: int, size: int = 64) -> Path:
    """Write files that were finished long ago; the first one is damaged."""
    folder.mkdir()
    (folder / "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt").touch()
    for number in range(count):
        path = folder / f"Add.Add_{number}.1.6.{1706596911000000 + number}"
        values = np.random.default_rng(number).normal(size=size).astype(np.float32)
        data = ge_dump([values], [values * 2])
        path.write_bytes(data if number else data[:20])
        os.utime(path, (1e9, 1e9))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("keep", [(), ("--keep",)], ids=["removed", "kept"])
def test_results_are_those_of_one_machine(
    processes: ClusterProcesses, tmp_path: Path, opdiff: Command, monkeypatch: pytest.MonkeyPatch, keep: tuple[str, ...]
) -> None:
    """Paths are relative, and workers have other current folders."""
    write_dump(tmp_path / "here", 40)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    here = opdiff("reduce", "here", *keep, "--json")
    there = opdiff("reduce", "there", *keep, "--json", "--cluster", processes.address)
    assert (here.code, there.code) == (0, 0)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert there.out.replace(str(tmp_path / "there"), "here") == here.out
    assert here.json["files"] + len(here.json["problems"]) == 40


def wait_for_result(folder: Path) -> None:
    wait_until(lambda: any(folder.glob("*_min_max.npz")), 30)


def test_killed_worker_costs_no_file(processes: ClusterProcesses, tmp_path: Path) -> None:
    folder = write_dump(tmp_path / "dump", 600)
    command = [*COMMAND, "reduce", str(folder), "--cluster", processes.address]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_for_result(folder)
    processes.kill("npu-1")
    out, _ = running.communicate(timeout=60)
    processes.add_workers("npu-1")
    assert running.returncode == 0
    assert out.startswith("reduced: 599 files, ")
    assert len([*folder.glob("*_min_max.npz")]) == 599
    # The damaged file is kept; a draft of the killed worker may be left.
    assert [path.name for path in folder.glob("Add.*") if path.suffix != ".npz"] == ["Add.Add_0.1.6.1706596911000000"]


def test_file_that_a_killed_worker_has_reduced(tmp_path: Path) -> None:
    folder = write_dump(tmp_path / "dump", 3)
    files, _ = find_reducible(str(folder))
    first = [reduce_file(file, ("mean",)) for file in files]
    assert [result.problem is None for result in first] == [False, True, True]
    assert [reduce_file(file, ("mean",)) for file in files] == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "local:1", "--watch"), "run it on each host, beside the program that dumps"),
        (("--cluster", "local:1", "--load", "10"), "--load cannot be combined with --cluster"),
        (("--cluster-config", "x.yaml"), "--cluster-config requires --cluster"),
    ],
)
def test_contradictory_options(tmp_path: Path, opdiff: Command, words: tuple[str, ...], message: str) -> None:
    outcome = opdiff("reduce", tmp_path, *words)
    assert outcome.code == 2
    assert message in outcome.err

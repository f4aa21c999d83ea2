"""Inspection on a cluster: workers read the files, with the report of one machine."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.errors import InputError
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import ge_dump, write_graph_sample
from opdiff.workflows.cluster import find_cluster
from opdiff.workflows.inspect import contents
from opdiff.workflows.inspect.contents import Depth
from opdiff.workflows.inspect.report import inspect_path

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from command_line import Command


def refuse(*_arguments: object) -> None:
    """Stand for what only workers may do."""
    raise AssertionError("read by the client")


def write_dumps(folder: Path) -> Path:
    """Write dumps of both modes with defects: cut off, constant, reduced, not finite."""
    made = write_sample(str(folder / "sample"))
    graph = write_graph_sample(str(folder / "graph"), ranks=2)
    npu = sorted((folder / "sample" / "npu").glob("Conv2D.*"))
    npu[0].write_bytes(npu[0].read_bytes()[:-8])
    odd = folder / "odd"
    odd.mkdir()
    for number, value in enumerate((0.0, 1.0, np.nan)):
        values = np.full(50, value, np.float32)
        (odd / f"Add.Add_{number}.1.6.{1706596911000000 + number}").write_bytes(ge_dump([values], [values]))
    assert made.rules
    assert graph.target
    return folder


@pytest.mark.parametrize("depth", [(), ("--no-data",), ("--stats",)], ids=["samples", "headers", "values"])
def test_report_of_a_directory(
    processes: ClusterProcesses,
    tmp_path: Path,
    opdiff: Command,
    monkeypatch: pytest.MonkeyPatch,
    depth: tuple[str, ...],
) -> None:
    """Paths are relative, and workers have other current folders."""
    write_dumps(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    here = opdiff("inspect", tmp_path / "dumps", *depth, "--json")
    monkeypatch.setattr(contents, "read_folder", refuse)
    monkeypatch.setattr(contents, "_constant", refuse)
    there = opdiff("inspect", "dumps", *depth, "--json", "--cluster", processes.address)
    assert here.code == 0, here
    assert (there.code, there.out) == (0, here.out), there
    codes = {finding["code"] for finding in here.json["findings"]}
    assert "unreadable" in codes
    assert ("all-zero" in codes, "not-finite" in codes) == (not depth or depth == ("--stats",), depth == ("--stats",))


def test_directory_of_a_host(processes: ClusterProcesses, tmp_path: Path, opdiff: Command) -> None:
    folder = write_dumps(tmp_path / "dumps")
    here = opdiff("inspect", folder, "--json")
    shutil.move(folder, processes.folder_of("npu-2") / "dumps")
    there = opdiff("inspect", "npu-2:/proc/self/cwd/dumps", "--json", "--cluster", processes.address)
    assert there.code == 0, there
    assert there.out.replace("host://npu-2/proc/self/cwd/dumps", str(folder)) == here.out
    refused = opdiff("inspect", "npu-2:/proc/self/cwd/dumps")
    assert refused.code == 2
    assert "for HOST:PATH give --cluster" in refused.err


@pytest.mark.parametrize(
    ("command", "host", "problem"),
    [
        ("inspect", "npu-1", "no such file or directory"),
        ("reduce", "npu-1", "no such directory"),
        ("inspect", "npu-4", "no worker of the host npu-4 has been there for 0.5 s"),
        ("reduce", "npu-4", "no worker of the host npu-4 has been there for 0.5 s"),
    ],
)
def test_host_without_the_directory_or_without_workers(
    processes: ClusterProcesses, opdiff: Command, monkeypatch: pytest.MonkeyPatch, command: str, host: str, problem: str
) -> None:
    monkeypatch.setattr("opdiff.run.workers._MAX_SECONDS_WITHOUT_WORKERS", 0.5)
    outcome = opdiff(command, f"{host}:/proc/self/cwd/nothing", "--cluster", processes.address)
    assert outcome.code == 3
    assert problem in outcome.err


def test_file_of_a_host(processes: ClusterProcesses, tmp_path: Path, opdiff: Command) -> None:
    values = np.arange(8, dtype=np.float32)
    name = "Add.Add_1.1.6.1706596911000001"
    (tmp_path / name).write_bytes(ge_dump([values], [values]))
    here = opdiff("inspect", tmp_path / name, "--stats", "--json")
    shutil.copy(tmp_path / name, processes.folder_of("npu-3"))
    words = "--stats", "--json", "--cluster", processes.address
    there = opdiff("inspect", f"npu-3:/proc/self/cwd/{name}", *words)
    assert there.code == 0, there
    assert json.loads(there.out.replace("host://npu-3/proc/self/cwd", str(tmp_path))) == here.json


def test_tensors_of_a_host_that_dies_are_listed_with_the_reason(
    processes: ClusterProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies when the headers were read."""
    monkeypatch.setattr("opdiff.run.workers._MAX_SECONDS_WITHOUT_WORKERS", 1.0)
    folder = write_dumps(tmp_path / "dumps") / "odd"
    shutil.copytree(folder, processes.folder_of("npu-3") / "odd")

    def kill(*_arguments: int) -> None:
        processes.kill("npu-3")

    with find_cluster(processes.address) as cluster:
        report = inspect_path("host://npu-3/proc/self/cwd/odd", Depth.SAMPLES, (kill, lambda *_: None), cluster)
    processes.add_workers("npu-3")
    (found,) = [finding for finding in report.findings if finding.code == "not-checked"]  # type: ignore[union-attr]  # of a directory
    assert len(found.where) == 6
    assert all("no worker of the host npu-3 has been there for 1 s" in str(where) for where in found.where)


def test_headers_of_a_host_that_dies_are_an_error(
    processes: ClusterProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.run.workers._MAX_SECONDS_WITHOUT_WORKERS", 1.0)
    del tmp_path
    with find_cluster(processes.address) as cluster:
        processes.kill("npu-3")
        with pytest.raises(InputError, match="npu-3"):
            inspect_path("host://npu-3/proc/self/cwd", Depth.SAMPLES, (lambda *_: None, lambda *_: None), cluster)
    processes.add_workers("npu-3")
